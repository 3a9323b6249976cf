import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import type { ToolCall } from "../../../src/domain/chat/ModelReply.ts"
import { ok, type ToolResult } from "../../../src/domain/agent/ToolResult.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as Usage from "../../../src/domain/chat/Usage.ts"
import * as ModelSummarizer from "../../../src/layers/ModelSummarizer.ts"
import * as RecoveryLive from "../../../src/layers/RecoveryLive.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import { rawExecutor } from "../../../src/programs/agent/rawExecutor.ts"
import { runTool } from "../../../src/programs/agent/toolSpan.ts"
import { ModelClient } from "../../../src/services/ModelClient.ts"
import { Recovery } from "../../../src/services/Recovery.ts"
import { attributesOf, recorder } from "../../support/spans.ts"

const secret = "THE-TEXT"
const usage = { ...Usage.unknown, promptTokens: 12, completionTokens: 3 }
const overload: ScriptedModel.Step = {
  fail: { kind: "overloaded", status: 529, code: "busy", providerRequestId: "p-1", providerMessage: secret }
}
const fine: ScriptedModel.Step = {
  reply: { text: secret, usage, servedModel: "large-2026", providerRequestId: "p-2" }
}

const layerOf = (steps: ReadonlyArray<ScriptedModel.Step>, provider = "azure") =>
  RecoveryLive.layer(
    new RecoveryPolicy({
      ...RecoveryPolicy.broad,
      routeHealth: null,
      routes: [{ model: "large", prices: { inputPerM: 1, outputPerM: 2 } }]
    })
  ).pipe(
    Layer.provide(ModelSummarizer.layer({ model: "large" })),
    Layer.provide(Layer.sync(ModelClient, () => ({ ...ScriptedModel.make(steps).client, provider }))),
    Layer.orDie
  )

const messages = [{ role: "user" as const, content: secret }]
const complete = Effect.flatMap(Recovery, (recovery) => recovery.complete({ messages }))
const streamed = Effect.flatMap(Recovery, (recovery) => Stream.runDrain(recovery.stream({ messages })))

const traced = (program: Effect.Effect<unknown, unknown, Recovery>, steps: ReadonlyArray<ScriptedModel.Step>) =>
  Effect.gen(function* () {
    const { spans, tracer } = recorder()
    const running = program.pipe(Effect.provide(layerOf(steps)), Effect.withTracer(tracer), Effect.exit)
    const fiber = yield* Effect.forkChild(running)
    yield* TestClock.adjust("1 hour")
    return { spans, exit: yield* Fiber.join(fiber) }
  })

describe("whoever traces", () => {
  it.effect.each([
    ["holdfast.complete", complete],
    ["holdfast.stream", streamed]
  ] as const)("sees %s with its requests and waits, by the conventions' names", ([name, program]) =>
    Effect.gen(function* () {
      const { spans } = yield* traced(program, [overload, fine])
      assert.deepStrictEqual(
        spans.map((span) => [span.name, span.kind, Option.getOrNull(span.parent) === spans[0]]),
        [
          [name, "internal", false],
          ["chat large", "client", true],
          ["holdfast.wait", "internal", true],
          ["chat large", "client", true]
        ]
      )
      const [whole, failed, waited, replied] = spans.map(attributesOf)
      const id = whole?.["holdfast.request_id"]
      assert.isString(id)
      assert.deepStrictEqual(failed, {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "azure.ai.openai",
        "gen_ai.request.model": "large",
        "gen_ai.request.max_tokens": 8_000,
        "holdfast.request_id": id,
        "holdfast.role": "main",
        "holdfast.attempt": 1,
        "error.type": "ModelOverloadedError",
        "http.response.status_code": 529,
        "holdfast.error.code": "busy",
        "holdfast.cost_usd": 0,
        "holdfast.provider_request_id": "p-1"
      })
      assert.deepInclude(waited, { "holdfast.attempt": 1, "holdfast.wait.origin": "backoff" })
      assert.isAbove(Number(waited?.["holdfast.wait.ms"]), 0)
      assert.deepInclude(replied, {
        "gen_ai.response.model": "large-2026",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 12,
        "gen_ai.usage.output_tokens": 3,
        "holdfast.attempt": 2,
        "holdfast.provider_request_id": "p-2"
      })
      assert.notProperty(replied, "error.type")
      assert.deepInclude(whole, { "holdfast.attempts": 2, "gen_ai.response.model": "large-2026" })
      assert.closeTo(Number(whole?.["holdfast.cost_usd"]), 18e-6, 1e-12)
      assert.isTrue(spans.every((span) => span.status._tag === "Ended"))
      assert.notInclude(JSON.stringify(spans.map((span) => [span.name, attributesOf(span)])), secret)
    })
  )

  it.effect("sees what a request failed with", () =>
    Effect.gen(function* () {
      const auth: ScriptedModel.Step = { fail: { kind: "auth", status: 401 } }
      const { spans, exit } = yield* traced(complete, [auth])
      assert.isTrue(Exit.isFailure(exit))
      assert.deepStrictEqual(
        spans.map((span) => attributesOf(span)["error.type"]),
        ["ModelAuthenticationError", "ModelAuthenticationError"]
      )
    })
  )

  it.effect("sees a compaction with the requests of its summary inside", () =>
    Effect.gen(function* () {
      const long = Array.from({ length: 8 }, () => ({ role: "user" as const, content: secret }))
      const ask = Effect.flatMap(Recovery, (recovery) => recovery.complete({ messages: long }))
      const tooLong: ScriptedModel.Step = { fail: { kind: "prompt_too_long", status: 400 } }
      const { spans } = yield* traced(ask, [tooLong, { reply: { text: "short" } }, fine])
      const compaction = spans.find((span) => span.name === "holdfast.compact")
      assert.containsAllKeys(attributesOf(compaction), ["holdfast.compact.before", "holdfast.compact.after"])
      const summary = spans.find((span) => attributesOf(span)["holdfast.role"] === "summarizer")
      assert.strictEqual(Option.getOrNull(summary?.parent ?? Option.none()), compaction)
    })
  )

  it.effect("sees a tool by its name, and what it failed with", () =>
    Effect.gen(function* () {
      const call: ToolCall = { id: "c1", name: "read", arguments: secret }
      const toolbox = (result: ToolResult) => ({
        specs: Effect.succeed([]),
        traits: () => ({ polling: false, parallel: true, repeat: "safe" as const }),
        run: () => Effect.succeed(result),
        interrupt: () => Effect.succeed(false)
      })
      const { spans, tracer } = recorder()
      const failed: ToolResult = { kind: "failed", errorTag: "NotFound", content: secret }
      yield* Effect.withTracer(runTool(toolbox(ok(secret)), call), tracer)
      yield* Effect.withTracer(runTool(toolbox(failed), call), tracer)
      const common = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "read",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function"
      }
      assert.deepStrictEqual(spans.map(attributesOf), [common, { ...common, "error.type": "NotFound" }])
    })
  )
})

describe("whoever traces a request without recovery", () => {
  const through = (how: "complete" | "stream", steps: ReadonlyArray<ScriptedModel.Step>) =>
    Effect.gen(function* () {
      const { spans, tracer } = recorder()
      const client = { ...ScriptedModel.make(steps).client, provider: "azure" }
      const executor = rawExecutor(client, { model: "large", maxOutputTokens: 50 })
      const asked =
        how === "complete" ? executor.complete({ messages }) : Stream.runDrain(executor.stream({ messages }))
      yield* Effect.exit(Effect.withTracer(Effect.asVoid(asked), tracer))
      assert.deepStrictEqual(
        spans.map((span) => [span.name, span.kind, span.status._tag]),
        [["chat large", "client", "Ended"]]
      )
      return attributesOf(spans[0])
    })

  it.effect("sees one span of a stream as of a plain call, with the provider's name", () =>
    Effect.gen(function* () {
      const plain = yield* through("complete", [fine])
      assert.deepInclude(plain, { "gen_ai.provider.name": "azure.ai.openai", "gen_ai.usage.output_tokens": 3 })
      assert.deepStrictEqual(yield* through("stream", [fine]), plain)
    })
  )

  it.effect("sees what a stream failed with", () =>
    Effect.gen(function* () {
      const plain = yield* through("complete", [overload])
      assert.strictEqual(plain["error.type"], "ModelOverloadedError")
      assert.deepStrictEqual(yield* through("stream", [overload]), plain)
    })
  )
})

describe("while nobody traces", () => {
  it.effect("no span is made, also when tracing is turned off under a tracer", () =>
    Effect.gen(function* () {
      let seen = 0
      const look: ScriptedModel.Step = {
        run: () =>
          Effect.map(Effect.option(Effect.currentSpan), (span) => {
            if (Option.isSome(span)) seen += 1
            return ScriptedModel.makeReply({ text: "ok" })
          })
      }
      yield* Effect.provide(complete, layerOf([look]))
      const { spans, tracer } = recorder()
      yield* complete.pipe(Effect.provide(layerOf([look])), Effect.withTracerEnabled(false), Effect.withTracer(tracer))
      assert.deepStrictEqual([seen, spans.length], [0, 0])
    })
  )
})
