/**
 * Traces, metrics and logs of recovery to an OpenTelemetry collector, by OTLP over HTTP. Counts, codes and names; never a
 * text of the conversation, a key or a header.
 */
import type * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Duration from "effect/Duration"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Otlp from "effect/observability/Otlp"
import * as OtlpSerialization from "effect/observability/OtlpSerialization"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import { refuseUnknown } from "../../domain/failure/unknownOptions.ts"
import type { RecoveryEvent } from "../../domain/recovery/RecoveryEvent.ts"
import type { RecoveryEvents } from "../../services/RecoveryEvents.ts"
import * as RecoveryMetrics from "../RecoveryMetrics.ts"
import * as EventsMemory from "../stores/EventsMemory.ts"

export interface TelemetryOptions {
  /** The collector: `/v1/traces`, `/v1/metrics` and `/v1/logs` below it. Default: http://127.0.0.1:4318. */
  readonly url?: string | URL
  /** The program's name in traces and metrics. Default: holdfast. */
  readonly serviceName?: string
  /** The program's version. Default: none. */
  readonly serviceVersion?: string
  /** Further attributes of the resource, "deployment.environment.name" say. */
  readonly attributes?: Readonly<Record<string, string>>
  /** Sent with every export: a vendor's key, say. */
  readonly headers?: Readonly<Record<string, string>>
  /** How often it is exported. Default: 5 seconds for traces and logs, 10 seconds for metrics. */
  readonly interval?: Duration.Input
}

/** What an app without Effect gives `createRecovery`; made by `telemetry`. */
export interface Telemetry {
  readonly layer: Layer.Layer<never>
  readonly onEvent: (event: RecoveryEvent) => Effect.Effect<void>
}

const names: ReadonlyArray<string> = [
  "url",
  "serviceName",
  "serviceVersion",
  "attributes",
  "headers",
  "interval"
] satisfies ReadonlyArray<keyof TelemetryOptions>

const defaultUrl = "http://127.0.0.1:4318"

const urlOf = (url: string | URL = defaultUrl): string => {
  const text = String(url)
  if (!URL.canParse(text) || !/^https?:$/.test(new URL(text).protocol))
    throw new ConfigurationError({ field: "url", reason: "is no http address of a collector" })
  return text
}

/** The program ends when this time is over, whatever the collector does. */
const shutdownTimeout = "2 seconds"

const exporters = (options: TelemetryOptions): Layer.Layer<never> => {
  refuseUnknown(options, names)
  const { serviceName = "holdfast", serviceVersion, attributes, headers, interval } = options
  const resource = {
    serviceName,
    ...(serviceVersion === undefined ? {} : { serviceVersion }),
    ...(attributes === undefined ? {} : { attributes })
  }
  return Otlp.layer({
    baseUrl: urlOf(options.url),
    resource,
    shutdownTimeout,
    ...(headers === undefined ? {} : { headers }),
    ...(interval === undefined
      ? {}
      : { tracerExportInterval: interval, loggerExportInterval: interval, metricsExportInterval: interval })
  }).pipe(Layer.provide(OtlpSerialization.layerJson), Layer.provide(FetchHttpClient.layer))
}

/**
 * For a program of Effect: tracer, logger, metrics and the events they are made of.
 *
 *     RecoveryLive.layer(policy).pipe(Layer.provideMerge(Telemetry.layer({ url: "http://127.0.0.1:4318" })))
 */
export const layer = (options: TelemetryOptions = {}): Layer.Layer<RecoveryEvents> =>
  Layer.merge(exporters(options), EventsMemory.layerTo(RecoveryMetrics.make()))

/** For `createRecovery({ telemetry: telemetry({ url }) })`. `recovery.close()` sends what is left. */
export const telemetry = (options: TelemetryOptions = {}): Telemetry => ({
  layer: exporters(options),
  onEvent: RecoveryMetrics.make()
})
