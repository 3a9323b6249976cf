import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import { makeModelError, type ModelError } from "../../../src/domain/failure/ModelError.ts"
import type { Trail, TrailEntry } from "../../../src/domain/failure/Trail.ts"
import type { ModelPart } from "../../../src/domain/chat/ModelReply.ts"
import * as Usage from "../../../src/domain/chat/Usage.ts"
import * as BudgetMemory from "../../../src/layers/stores/BudgetMemory.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import { rawExecutor } from "../../../src/programs/agent/rawExecutor.ts"
import { BudgetLedger } from "../../../src/services/BudgetLedger.ts"
import { TokenEstimate } from "../../../src/services/Overrides.ts"
import { RequestWatch } from "../../../src/services/RequestWatch.ts"

describe("the raw executor", () => {
  it.effect.each<readonly [string, ScriptedModel.Step, number]>([
    ["a refused request as nothing", { fail: { kind: "rate_limited", status: 429 } }, 0],
    ["a refused connection as nothing", { fail: { kind: "connection", status: null, code: "ECONNREFUSED" } }, 0],
    [
      "a connection that was lost as its worst case",
      { fail: { kind: "connection", status: null, code: "ECONNRESET" } },
      50
    ],
    ["a time-out of the network as its worst case", { fail: { kind: "timeout", status: null } }, 50],
    ["an answer that broke off as its worst case", { fail: { kind: "interrupted", status: null } }, 50],
    ["a reply without usage as its worst case", { reply: { text: "hello" } }, 50]
  ])("settles %s, streamed or not", ([, step, spent]) =>
    Effect.gen(function* () {
      for (const how of ["complete", "stream"] as const) {
        const ledger = yield* BudgetMemory.make({ maxTokens: 10_000, maxCostUsd: null })
        const executor = rawExecutor(ScriptedModel.make([step]).client, { model: "m", maxOutputTokens: 50 })
        const request = { messages: [] }
        const asked = how === "complete" ? executor.complete(request) : Stream.runDrain(executor.stream(request))
        yield* Effect.exit(Effect.provideService(Effect.asVoid(asked), BudgetLedger, ledger))
        const end = yield* ledger.balance
        assert.deepStrictEqual([end.spent.tokens, end.reserved.tokens], [spent, 0], how)
      }
    })
  )

  it.effect("sends one request and gives back what comes, whole or as parts", () =>
    Effect.gen(function* () {
      const model = ScriptedModel.make([
        { fail: { kind: "overloaded", status: 529 } },
        { reply: { text: "hello there" } }
      ])
      const executor = rawExecutor(model.client, { model: "m", maxOutputTokens: 50 })
      const request = { messages: [{ role: "user", content: "x" }], maxOutputTokens: 20 } as const
      const error = yield* Effect.flip(executor.complete(request))
      assert.strictEqual(error._tag, "ModelOverloadedError")
      const parts = yield* Stream.runCollect(executor.stream({ ...request, priority: "background" }))
      assert.strictEqual(parts.map((part) => (part._tag === "TextDelta" ? part.text : "")).join(""), "hello there")
      assert.strictEqual(parts.at(-1)?._tag, "Finish")
      assert.deepStrictEqual(
        model.requests.map(({ role, maxOutputTokens }) => [role, maxOutputTokens]),
        [
          ["main", 20],
          ["background", 20]
        ]
      )
    })
  )

  const request = { messages: [{ role: "user", content: "x" }] } as const
  const used: Usage.Usage = { ...Usage.unknown, promptTokens: 7, completionTokens: 3 }
  const cutStream = Stream.fromIterable<ModelPart>([{ _tag: "Text", text: "half" }]).pipe(
    Stream.concat(Stream.fail(makeModelError({ kind: "interrupted", status: null })))
  )
  it.effect.each<{
    readonly name: string
    readonly stream: Stream.Stream<ModelPart, ModelError>
    readonly spent: number
  }>([
    {
      name: "what a whole reply used",
      stream: Stream.make({ _tag: "End", reply: ScriptedModel.makeReply({ text: "x", usage: used }) }),
      spent: 10
    },
    {
      name: "nothing for a refused stream",
      stream: Stream.fail(makeModelError({ kind: "overloaded", status: 529 })),
      spent: 0
    },
    { name: "the worst case for a stream that broke off", stream: cutStream, spent: 55 }
  ])("books $name", ({ stream, spent }) =>
    Effect.gen(function* () {
      const client = { generate: () => Effect.die("not used"), stream: () => stream }
      const executor = rawExecutor(client, { model: "m", maxOutputTokens: 50 })
      const ledger = yield* BudgetMemory.make({ maxTokens: 1_000, maxCostUsd: null })
      yield* Effect.exit(Stream.runDrain(executor.stream(request))).pipe(
        Effect.provideService(BudgetLedger, ledger),
        Effect.provideService(TokenEstimate, () => 5)
      )
      const { spent: booked, reserved } = yield* ledger.balance
      assert.deepStrictEqual([booked.tokens, reserved.tokens], [spent, 0])
    })
  )

  it.effect("sends nothing under a limit in USD when the price is unknown, and names the model", () =>
    Effect.gen(function* () {
      const model = ScriptedModel.make([])
      const executor = rawExecutor(model.client, { model: "large", maxOutputTokens: 50 })
      const ledger = yield* BudgetMemory.make({ maxTokens: null, maxCostUsd: 1 })
      for (const sent of [executor.complete(request), Stream.runDrain(executor.stream(request))]) {
        const exit = yield* Effect.exit(Effect.provideService(sent, BudgetLedger, ledger))
        assert.include(Exit.isFailure(exit) ? String(Cause.squash(exit.cause)) : "", "prices is not known for large")
      }
      assert.strictEqual(model.requests.length, 0)
    })
  )

  const watching = (trail: Array<TrailEntry>) => ({ ended: (entries: Trail) => void trail.push(...entries) })

  it.effect("tells of a stream what a consumer can use, in its order, and nothing of its pulse", () =>
    Effect.gen(function* () {
      const reply = ScriptedModel.makeReply({ text: "hello" })
      const one = { id: "1", name: "n", arguments: "{}" }
      const stream = Stream.fromIterable<ModelPart>([
        { _tag: "Life" },
        { _tag: "Stored", name: "r1" },
        { _tag: "Reasoning", text: "hm" },
        { _tag: "Text", text: "hello" },
        { _tag: "ToolCallDelta" },
        { _tag: "ToolCall", call: one },
        { _tag: "Usage", usage: used },
        { _tag: "Whole", reply },
        { _tag: "End", reply }
      ])
      const client = { generate: () => Effect.die("not used"), stream: () => stream }
      const parts = yield* Stream.runCollect(rawExecutor(client, { model: "m", maxOutputTokens: 50 }).stream(request))
      assert.deepStrictEqual(parts, [
        { _tag: "ReasoningDelta", text: "hm" },
        { _tag: "TextDelta", text: "hello" },
        { _tag: "ToolCallReady", ...one },
        { _tag: "UsageSeen", usage: used },
        { _tag: "Finish", reply }
      ])
    })
  )

  it.effect.each<readonly [string, ReadonlyArray<ModelPart>, Stream.Stream<never, ModelError>, object]>([
    [
      "one that broke off behind its first part as an answer that came",
      [{ _tag: "Text", text: "half" }],
      Stream.fail(makeModelError({ kind: "connection", status: null, code: "ECONNRESET" })),
      { status: 200, outcome: "connection", code: "ECONNRESET", usageFinal: false }
    ],
    [
      "one that was refused as its status",
      [],
      Stream.fail(makeModelError({ kind: "overloaded", status: 529, code: "busy" })),
      { status: 529, outcome: "overloaded", code: "busy", usageFinal: true }
    ],
    ["one that died as nobody's error", [], Stream.die("a bug"), { status: null, code: null }],
    [
      "what had been counted when it broke off",
      [{ _tag: "Usage", usage: used }],
      Stream.fail(makeModelError({ kind: "interrupted", status: null })),
      { usage: used }
    ]
  ])("enters in the trail %s", ([, parts, end, fields]) =>
    Effect.gen(function* () {
      const trail: Array<TrailEntry> = []
      const stream = Stream.concat(Stream.fromIterable(parts), end)
      const client = { generate: () => Effect.die("not used"), stream: () => stream }
      const executor = rawExecutor(client, { model: "m", maxOutputTokens: 50 })
      yield* Effect.exit(Stream.runDrain(executor.stream(request))).pipe(
        Effect.provideService(RequestWatch, watching(trail))
      )
      assert.strictEqual(trail.length, 1)
      assert.deepInclude(trail[0], { model: "m", maxOutputTokens: 50, role: "main", attempt: 1, ...fields })
    })
  )

  it.effect("enters a background request without an attempt, and refuses what cannot be sent", () =>
    Effect.gen(function* () {
      const trail: Array<TrailEntry> = []
      const model = ScriptedModel.make([{ reply: { text: "ok" } }])
      const executor = rawExecutor(model.client, { model: "m", maxOutputTokens: 50 })
      yield* executor
        .complete({ ...request, priority: "background" })
        .pipe(Effect.provideService(RequestWatch, watching(trail)))
      assert.deepInclude(trail[0], { role: "background", attempt: null })
      const broken = { messages: "no list" as never }
      for (const asked of [executor.complete(broken), Stream.runDrain(executor.stream(broken))])
        assert.isTrue(Exit.isFailure(yield* Effect.exit(asked)))
      assert.strictEqual(model.requests.length, 1)
    })
  )
})
