import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { PrometheusMetrics } from "effect/observability"
import { readFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { ConfigurationError } from "../../../src/domain/failure/ConfigurationError.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as ModelSummarizer from "../../../src/layers/ModelSummarizer.ts"
import * as RecoveryLive from "../../../src/layers/RecoveryLive.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import * as HealthMemory from "../../../src/layers/stores/HealthMemory.ts"
import * as Telemetry from "../../../src/layers/telemetry/Telemetry.ts"
import { createRecovery } from "../../../src/promise.ts"
import { Recovery } from "../../../src/services/Recovery.ts"

interface Span {
  readonly name: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly attributes: ReadonlyArray<{ readonly key: string; readonly value: Readonly<Record<string, unknown>> }>
}

interface Export {
  readonly resourceSpans?: ReadonlyArray<{
    readonly scopeSpans: ReadonlyArray<{ readonly spans: ReadonlyArray<Span> }>
  }>
  readonly resourceMetrics?: ReadonlyArray<{
    readonly scopeMetrics: ReadonlyArray<{ readonly metrics: ReadonlyArray<{ readonly name: string }> }>
  }>
}

/** A collector on loopback: what was exported, with the key that came along. */
const collector = async () => {
  const got: Array<{ readonly body: Export; readonly key: unknown }> = []
  const server = createServer((request, response) => {
    const parts: Array<Buffer> = []
    request.on("data", (part: Buffer) => parts.push(part))
    request.on("end", () => {
      got.push({ body: JSON.parse(Buffer.concat(parts).toString("utf8")), key: request.headers["x-key"] })
      response.end("{}")
    })
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    got,
    spans: () =>
      got
        .flatMap(({ body }) => body.resourceSpans ?? [])
        .flatMap(({ scopeSpans }) => scopeSpans)
        .flatMap(({ spans }) => spans),
    metrics: () =>
      got
        .flatMap(({ body }) => body.resourceMetrics ?? [])
        .flatMap(({ scopeMetrics }) => scopeMetrics)
        .flatMap(({ metrics }) => metrics)
        .map(({ name }) => name),
    close: () => new Promise((resolve) => server.close(resolve))
  }
}

const secret = "the user's own words"
const request = { messages: [{ role: "user" as const, content: secret }] }
const steps: ReadonlyArray<ScriptedModel.Step> = [
  { fail: { kind: "overloaded", status: 529 } },
  { reply: { text: secret } }
]
const policy = { ...RecoveryPolicy.broad, routes: [{ model: "large" }] as const, backoff: { base: 1, cap: 1 } }

const treeOf = (spans: ReadonlyArray<Span>): ReadonlyArray<readonly [name: string, parent: string | null]> =>
  spans.map(({ name, parentSpanId }) => [name, spans.find((one) => one.spanId === parentSpanId)?.name ?? null] as const)

describe("telemetry by OTLP", () => {
  it("of a recovery of promises is one option: spans, metrics and the resource, sent when it is closed", async () => {
    const { url, got, spans, metrics, close } = await collector()
    const recovery = createRecovery({
      policy,
      client: ScriptedModel.layer(steps),
      health: "own",
      telemetry: Telemetry.telemetry({ url, serviceName: "app", headers: { "x-key": "k" } })
    })
    await recovery.complete(request)
    await recovery.close()
    assert.deepStrictEqual(
      [...treeOf(spans())].sort((left, right) => left[0].localeCompare(right[0])),
      [
        ["chat large", "holdfast.complete"],
        ["chat large", "holdfast.complete"],
        ["holdfast.complete", null],
        ["holdfast.wait", "holdfast.complete"]
      ]
    )
    assert.includeMembers(
      [...metrics()],
      ["holdfast_attempts", "holdfast_recoveries", "gen_ai_client_operation_duration"]
    )
    assert.isTrue(got.every(({ key }) => key === "k"))
    const text = JSON.stringify(got)
    assert.include(text, '"app"')
    assert.notInclude(text, secret)
    await close()
  })
  it("of a program of Effect is one layer", async () => {
    const { url, spans, metrics, close } = await collector()
    const recovery = RecoveryLive.layer(new RecoveryPolicy(policy)).pipe(
      Layer.provide(ModelSummarizer.layer({ model: "large" })),
      Layer.provide(ScriptedModel.layer(steps)),
      Layer.provideMerge(Layer.merge(Telemetry.layer({ url }), HealthMemory.layer()))
    )
    await Effect.runPromise(
      Effect.flatMap(Recovery, ({ complete }) => complete(request)).pipe(Effect.provide(recovery))
    )
    assert.lengthOf(spans(), 4)
    assert.include(metrics(), "holdfast_attempts")
    await close()
  })
  it("touches no request when the collector is not there", async () => {
    const recovery = createRecovery({
      policy,
      client: ScriptedModel.layer(steps),
      health: "own",
      telemetry: Telemetry.telemetry({ url: "http://127.0.0.1:9" })
    })
    const { text } = await recovery.complete(request)
    assert.strictEqual(text, secret)
    await recovery.close()
  })
  it("refuses an address that is none, and options it does not know", () => {
    for (const [options, field] of [
      [{ url: "collector" }, "url"],
      [{ url: "ftp://collector" }, "url"],
      [{ endpoint: "http://127.0.0.1" }, "endpoint"]
    ] as const) {
      try {
        Telemetry.telemetry(options as Telemetry.TelemetryOptions)
        assert.fail("it was taken")
      } catch (error) {
        assert.instanceOf(error, ConfigurationError)
        assert.strictEqual(error.field, field)
      }
    }
  })
})

describe("the dashboard", () => {
  const file = new URL("../../../docs/grafana/holdfast.json", import.meta.url)
  const dashboard = JSON.parse(readFileSync(file, "utf8")) as {
    readonly panels: ReadonlyArray<{
      readonly title: string
      readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
      readonly targets: ReadonlyArray<{ readonly expr: string }>
    }>
  }
  const expressions = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr))

  it("asks only for metrics that there are, by labels that they have", async () => {
    const exposed = await Effect.runPromise(
      Effect.gen(function* () {
        const { complete } = yield* Recovery
        yield* complete(request)
        return yield* PrometheusMetrics.format()
      }).pipe(
        Effect.provide(
          RecoveryLive.layer(
            new RecoveryPolicy({ ...policy, routes: [{ model: "large", prices: { inputPerM: 1, outputPerM: 2 } }] })
          ).pipe(
            Layer.provide(ModelSummarizer.layer({ model: "large" })),
            Layer.provide(
              ScriptedModel.layer([
                { fail: { kind: "overloaded", status: 529 } },
                {
                  reply: {
                    text: "a",
                    usage: {
                      promptTokens: 1,
                      completionTokens: 2,
                      cachedTokens: 0,
                      cacheWriteTokens: 0,
                      reasoningTokens: 0
                    }
                  }
                }
              ])
            ),
            Layer.provideMerge(Layer.merge(Telemetry.layer({ url: "http://127.0.0.1:9" }), HealthMemory.layer()))
          )
        )
      )
    )
    assert.isAbove(expressions.length, 7)
    for (const expression of expressions)
      for (const [, name = ""] of expression.matchAll(
        /\b((?:holdfast|gen_ai)_\w+?)(?:_bucket|_count|_sum)?\{([^}]*)\}/g
      )) {
        // Told only when route health holds a request back.
        if (name === "holdfast_held") continue
        const line = exposed.split("\n").find((one) => one.startsWith(name) && one.includes("{"))
        assert.isDefined(line, `${name} is exposed by no recovery`)
        const [, grouped = ""] = /\bby \(([^)]*)\)/.exec(expression) ?? []
        for (const label of grouped.split(", ")) if (label !== "" && label !== "le") assert.include(line, `${label}=`)
      }
  })
  it("has a place for every panel, and none over another", () => {
    const cells = new Set<string>()
    for (const { gridPos, title } of dashboard.panels)
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1)
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
          assert.isBelow(x, 24, title)
          assert.isFalse(cells.has(`${x} ${y}`), `${title} lies over another panel`)
          cells.add(`${x} ${y}`)
        }
  })
})
