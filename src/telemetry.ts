/** Traces, metrics and logs by OTLP. Behind an entry of its own: whoever exports nothing loads none of it. */
export * as RecoveryMetrics from "./layers/RecoveryMetrics.ts"
export * as Telemetry from "./layers/telemetry/Telemetry.ts"
export { telemetry, type Telemetry as TelemetryOption, type TelemetryOptions } from "./layers/telemetry/Telemetry.ts"
