import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import type { ModelPart } from "../../../src/domain/chat/ModelReply.ts"
import type { ModelRequest } from "../../../src/domain/chat/ModelRequest.ts"
import * as Usage from "../../../src/domain/chat/Usage.ts"
import { RecoveryPolicy, type RecoveryPolicyInput } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import * as BudgetMemory from "../../../src/layers/stores/BudgetMemory.ts"
import { BudgetLedger } from "../../../src/services/BudgetLedger.ts"
import { ModelClient } from "../../../src/services/ModelClient.ts"
import { TokenEstimate } from "../../../src/services/Overrides.ts"
import { Recovery } from "../../../src/services/Recovery.ts"
import { RequestWatch } from "../../../src/services/RequestWatch.ts"
import { Summarizer, type SummaryRequest } from "../../../src/services/Summarizer.ts"
import { worldOver } from "../../support/world.ts"
import type { Trail } from "../../../src/domain/failure/Trail.ts"

const request: ModelRequest = { messages: [{ role: "user", content: "go" }] }
const prices = { inputPerM: 1_000_000, outputPerM: 1_000_000 }

/** A recovery over scripted answers, with every event and every summary that was asked for. */
const world = (
  steps: ReadonlyArray<ScriptedModel.Step>,
  policy: Partial<RecoveryPolicyInput> = {},
  client = ScriptedModel.make(steps).client
) => {
  const summaries: Array<SummaryRequest> = []
  const summarizer = Summarizer.of({
    summarize: (asked) =>
      Effect.sync(() => {
        summaries.push(asked)
        return { text: "short", usage: Usage.unknown }
      })
  })
  const own = new RecoveryPolicy({
    ...RecoveryPolicy.broad,
    routeHealth: null,
    routes: [{ model: "m", prices }],
    ...policy
  })
  return { summaries, ...worldOver(own, client, { summarizer: Layer.succeed(Summarizer, summarizer) }) }
}

const complete = (asked: ModelRequest = request) => Effect.flatMap(Recovery, (recovery) => recovery.complete(asked))

/** Runs a call while the clock goes on for so long. */
const during = <A, E, R>(call: Effect.Effect<A, E, R>, millis: number) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(Effect.exit(call), { startImmediately: true })
    yield* TestClock.adjust(millis)
    return yield* Fiber.join(fiber)
  })

const cut = { text: "one two", finishReason: "length", usage: { ...Usage.unknown, completionTokens: 100 } } as const

describe("the caller's cap", () => {
  const capped = { ...request, maxOutputTokens: 100 }

  it.effect("ends a reply with the finish reason length, after one request", () => {
    const { events, layer } = world([{ reply: cut }])
    return Effect.gen(function* () {
      const reply = yield* complete(capped)
      assert.deepStrictEqual([reply.text, reply.finishReason], ["one two", "length"])
      assert.strictEqual(events.filter((event) => event._tag === "AttemptStarted").length, 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("ends a stream with what was shown", () => {
    const { layer } = world([{ reply: cut }])
    return Effect.gen(function* () {
      const recovery = yield* Recovery
      const parts = yield* Stream.runCollect(recovery.stream(capped))
      const last = parts.at(-1)
      assert.isTrue(last?._tag === "Finish" && last.reply.text === "one two" && last.reply.finishReason === "length")
      assert.isFalse(parts.some((part) => part._tag === "Reset"))
    }).pipe(Effect.provide(layer))
  })
})

describe("no budget", () => {
  it.effect("reaches the client, and the session's budget counts the longest reply", () =>
    Effect.gen(function* () {
      const model = ScriptedModel.make([{ reply: { text: "fine" } }])
      const ledger = yield* BudgetMemory.make({ maxTokens: 1_000_000, maxCostUsd: null })
      const routes = [{ model: "m", outputLimit: 70_000 }] as const
      const { layer } = world([], { initialMaxTokens: null, routes }, model.client)
      yield* complete().pipe(
        Effect.provide(layer),
        Effect.provideService(BudgetLedger, ledger),
        Effect.provideService(TokenEstimate, () => 10)
      )
      assert.deepStrictEqual(
        model.requests.map((sent) => sent.maxOutputTokens),
        [null]
      )
      // The reply tells no usage: it may have been as long as the model writes.
      assert.strictEqual((yield* ledger.balance).spent.tokens, 70_010)
    })
  )
})

describe("a structured answer", () => {
  const structured = { ...request, params: { response_format: { type: "json_object" } } }
  const half = { ...cut, text: '{"a":' }

  it.effect("is raised and then fails with its partial: it is never put together", () => {
    const { events, layer } = world([{ reply: half }, { reply: { ...half, text: '{"a":[' } }])
    return Effect.gen(function* () {
      const error = yield* Effect.flip(complete(structured))
      assert.isTrue(error._tag === "RecoveryRetriesExhausted" && error.reason === "TruncatedStructure")
      assert.isTrue(error._tag === "RecoveryRetriesExhausted" && error.partial === '{"a":[')
      const decided = events.flatMap((event) => (event._tag === "Transitioned" ? [event.action._tag] : []))
      assert.deepStrictEqual(decided, ["Escalate", "Fail"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("drops what a stream has shown before the raise", () => {
    const { layer } = world([{ reply: half }, { reply: { text: '{"a":1}' } }])
    return Effect.gen(function* () {
      const recovery = yield* Recovery
      const parts = yield* Stream.runCollect(recovery.stream(structured))
      const shown = parts.slice(parts.findLastIndex((part) => part._tag === "Reset") + 1)
      assert.strictEqual(shown.map((part) => (part._tag === "TextDelta" ? part.text : "")).join(""), '{"a":1}')
      assert.isTrue(parts.some((part) => part._tag === "Reset"))
    }).pipe(Effect.provide(layer))
  })
})

describe("the trail", () => {
  it.effect("tells after each request how long was waited, and why", () => {
    const limited = { kind: "rate_limited", status: 429 } as const
    const hinted = { ...limited, hints: [{ _tag: "Delay", source: "retry-after", millis: 7_000 }] } as const
    const { layer } = world([{ fail: limited }, { fail: hinted }, { fail: { kind: "auth", status: 401 } }], {
      ...RecoveryPolicy.strict,
      backoff: { base: "1 second", factor: 2, cap: "30 seconds", jitter: 0 }
    })
    return Effect.gen(function* () {
      const exit = yield* during(Effect.flip(complete()), 60_000)
      const trail = Exit.isSuccess(exit) && "trail" in exit.value ? (exit.value.trail ?? []) : []
      assert.deepStrictEqual(
        trail.map((entry) => [entry.waitMs, entry.waitOrigin]),
        [
          [1_000, "backoff"],
          [7_000, "hint"],
          [null, null]
        ]
      )
    }).pipe(Effect.provide(layer))
  })
})

describe("a prompt the provider counts much smaller", () => {
  it.effect.each<readonly [estimated: number, reported: number | null, isTold: boolean]>([
    [100, 59, true],
    [100, 60, false],
    [100, 99, false],
    [99, 1, false],
    [1_000, 0, true],
    [1_000, null, false]
  ])("of %i estimated, %s reported: told %s", ([estimated, reported, isTold]) => {
    const usage = { ...Usage.unknown, promptTokens: reported, completionTokens: 1 }
    const { events, layer } = world([{ reply: { text: "fine", usage } }])
    return Effect.gen(function* () {
      const reply = yield* Effect.provideService(complete(), TokenEstimate, () => estimated)
      assert.strictEqual(reply.warnings.length > 0, isTold)
      assert.strictEqual(
        events.some((event) => event._tag === "PromptShrunk"),
        isTold
      )
    }).pipe(Effect.provide(layer))
  })
})

describe("a heartbeat", () => {
  const silent = ModelClient.of({ generate: () => Effect.never, stream: () => Stream.never })

  it.effect.each([true, false])("comes before a timer that ends at the same instant (stream: %s)", (streaming) => {
    const { events, layer } = world(
      [],
      { retry: [], heartbeat: "10 seconds", attemptTimeout: "10 seconds", firstTokenTimeout: null, idleTimeout: null },
      silent
    )
    return Effect.gen(function* () {
      const recovery = yield* Recovery
      const call = streaming ? Stream.runDrain(recovery.stream(request)) : Effect.asVoid(recovery.complete(request))
      yield* during(call, 10_000)
      const tags = events.map((event) => event._tag).filter((tag) => tag === "Heartbeat" || tag === "Transitioned")
      assert.deepStrictEqual(tags, ["Heartbeat", "Transitioned"])
    }).pipe(Effect.provide(layer))
  })
})

describe("a summary", () => {
  const long: ModelRequest = {
    messages: ["first", "second", "third", "fourth", "fifth", "sixth"].map((content, at) =>
      at % 2 === 0 ? { role: "user", content } : { role: "assistant", content }
    )
  }

  it.effect.each<{
    readonly route: Partial<RecoveryPolicyInput["routes"][number]>
    readonly input: number
    readonly output: number
  }>([
    { route: {}, input: 24_000, output: 4_000 },
    { route: { contextWindow: 9_001 }, input: 4_500, output: 4_000 },
    { route: { contextWindow: 1 }, input: 1, output: 4_000 },
    { route: { outputLimit: 3_999 }, input: 24_000, output: 3_999 },
    { route: { outputLimit: 4_001 }, input: 24_000, output: 4_000 }
  ])("may hold half of a known window and write at most what the model can: $route", ({ route, input, output }) => {
    const { summaries, layer } = world(
      [{ fail: { kind: "prompt_too_long", status: 400 } }, { reply: { text: "fine" } }],
      {
        routes: [{ model: "m", ...route }],
        initialMaxTokens: 100,
        escalatedMaxTokens: 200
      }
    )
    return Effect.gen(function* () {
      yield* complete(long)
      assert.deepStrictEqual(
        summaries.map(({ maxInputTokens, maxOutputTokens }) => [maxInputTokens, maxOutputTokens]),
        [[input, output]]
      )
    }).pipe(Effect.provide(layer))
  })
})

describe("a consumer that takes nothing more", () => {
  it.effect("stops the reads when sixteen parts wait for it", () => {
    let reads = 0
    const endless = Stream.fromEffectRepeat(
      Effect.sync((): ModelPart => {
        reads += 1
        return { _tag: "Text", text: "x" }
      })
    ).pipe(Stream.rechunk(1))
    const client = ModelClient.of({ generate: () => Effect.never, stream: () => endless })
    const { layer } = world([], {}, client)
    return Effect.gen(function* () {
      const recovery = yield* Recovery
      const taken: Array<string> = []
      const take = (part: { readonly _tag: string }) =>
        Effect.andThen(
          Effect.sync(() => taken.push(part._tag)),
          Effect.never
        )
      yield* Effect.forkChild(Stream.runForEach(recovery.stream(request), take), { startImmediately: true })
      // Time that nobody uses: the reads have come as far as they can.
      yield* TestClock.adjust(1_000)
      const waiting = reads
      yield* TestClock.adjust(1_000)
      assert.deepStrictEqual([taken.length, reads], [1, waiting])
      // Sixteen came with the first pull, sixteen wait, and one has found no room.
      assert.strictEqual(waiting, 33)
    }).pipe(Effect.provide(layer))
  })
})

describe("a receipt", () => {
  const silent = ModelClient.of({ generate: () => Effect.never, stream: () => Stream.never })
  const budgeted = (client: (typeof ModelClient)["Service"], streaming: boolean, millis: number, interrupt: boolean) =>
    Effect.gen(function* () {
      const ledger = yield* BudgetMemory.make({ maxTokens: 1_000_000, maxCostUsd: null })
      const trails: Array<Trail> = []
      const { events, layer } = world([], { retry: [], attemptTimeout: "10 seconds", firstTokenTimeout: null }, client)
      yield* Effect.gen(function* () {
        const recovery = yield* Recovery
        const asked = { ...request, maxOutputTokens: 40 }
        const call = streaming ? Stream.runDrain(recovery.stream(asked)) : Effect.asVoid(recovery.complete(asked))
        const fiber = yield* Effect.forkChild(Effect.exit(call), { startImmediately: true })
        yield* TestClock.adjust(millis)
        if (interrupt) yield* Fiber.interrupt(fiber)
        yield* Fiber.await(fiber)
      }).pipe(
        Effect.provide(layer),
        Effect.provideService(BudgetLedger, ledger),
        Effect.provideService(TokenEstimate, () => 10),
        Effect.provideService(RequestWatch, { ended: (trail) => trails.push(trail) })
      )
      const { spent, reserved } = yield* ledger.balance
      const entries = trails.flat().map(({ costUsd, usageFinal }) => [costUsd, usageFinal])
      const told = events.flatMap((event) => (event._tag === "UsageSeen" ? [event.costUsd] : []))
      return { spent: spent.tokens, reserved: reserved.tokens, entries, told }
    })
  const worst = { spent: 50, reserved: 0, entries: [[null, false]], told: [null] }

  it.effect.each([true, false])(
    "of a request that timed out is unknown and booked as its worst (stream: %s)",
    (streaming) =>
      Effect.map(budgeted(silent, streaming, 10_000, false), (found) => assert.deepStrictEqual(found, worst))
  )

  it.effect.each([true, false])(
    "of a request that was taken back is unknown and booked as its worst (stream: %s)",
    (streaming) => Effect.map(budgeted(silent, streaming, 3_000, true), (found) => assert.deepStrictEqual(found, worst))
  )

  it.effect.each([true, false])("of a request that never left is nothing (stream: %s)", (streaming) => {
    const { client } = ScriptedModel.make([{ fail: { kind: "connection", status: null, code: "ENOTFOUND" } }])
    return Effect.map(budgeted(client, streaming, 1_000, false), (found) =>
      assert.deepStrictEqual(found, { spent: 0, reserved: 0, entries: [[0, true]], told: [] })
    )
  })
})
