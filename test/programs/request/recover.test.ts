import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import type { Message } from "../../../src/domain/chat/Message.ts"
import { isModelError, type Failure } from "../../../src/domain/failure/ModelError.ts"
import type { ModelReply } from "../../../src/domain/chat/ModelReply.ts"
import type { RecoveryEvent } from "../../../src/domain/recovery/RecoveryEvent.ts"
import * as Event from "../../../src/domain/recovery/RecoveryEvent.ts"
import { RecoveryPolicy, type RecoveryPolicyInput } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import { renderFailure } from "../../../src/domain/failure/renderFailure.ts"
import { replayLog } from "../../../src/programs/commands/replay/replayLog.ts"
import type { ReplyPart } from "../../../src/domain/chat/ReplyPart.ts"
import * as Usage from "../../../src/domain/chat/Usage.ts"
import * as BudgetMemory from "../../../src/layers/stores/BudgetMemory.ts"
import * as ModelSummarizer from "../../../src/layers/ModelSummarizer.ts"
import * as RecoveryLive from "../../../src/layers/RecoveryLive.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import { BudgetLedger } from "../../../src/services/BudgetLedger.ts"
import { BackoffSchedule, DeadlineOverride, PolicyOverride, TokenEstimate } from "../../../src/services/Overrides.ts"
import { Recovery, type RequestFailure } from "../../../src/services/Recovery.ts"
import { runs } from "../../support/runs.ts"
import { errorOf, freeze, scriptedWorld, toEnd, worldOver, type ScriptedWorld } from "../../support/world.ts"

const routes = [{ model: "primary" }, { model: "second" }]
const policyOf = (input: Partial<RecoveryPolicyInput> = {}): RecoveryPolicy =>
  new RecoveryPolicy({ ...RecoveryPolicy.strict, routes, ...input })
const broad = policyOf({ ...RecoveryPolicy.broad, routeHealth: null })

const worldOf = scriptedWorld

const ask: ReadonlyArray<Message> = freeze([
  { role: "system", content: "rules" },
  { role: "user", content: "first question" },
  { role: "assistant", content: "first answer" },
  { role: "user", content: "second question" },
  { role: "assistant", content: "second answer" },
  { role: "user", content: "third question" },
  { role: "assistant", content: "third answer" },
  { role: "user", content: "and now?" }
])

const complete = (messages: ReadonlyArray<Message> = ask) =>
  Effect.flatMap(Recovery, (recovery) => recovery.complete({ messages }))

const limited: ScriptedModel.Step = { fail: { kind: "rate_limited", status: 429 } }
const overloaded: ScriptedModel.Step = { fail: { kind: "overloaded", status: 529 } }
const tooLong: ScriptedModel.Step = { fail: { kind: "prompt_too_long", status: 400, code: "context_length_exceeded" } }
const whole = (text: string): ScriptedModel.Step => ({ reply: { text } })
const cut = (text: string): ScriptedModel.Step => ({ reply: { text, finishReason: "length" } })

describe("a route that is gone", () => {
  const missing: ScriptedModel.Step = { fail: { kind: "not_found", status: 404, code: "model_not_found" } }
  const busyTwice = policyOf({ ...RecoveryPolicy.broad, routeHealth: null, fallbackAfter: { overload: 1, gone: 1 } })

  it.effect("is not asked again within the turn", () =>
    Effect.gen(function* () {
      const world = worldOf(busyTwice, [overloaded, missing, whole("one"), overloaded, whole("two")])
      const turn = Effect.flatMap(Recovery, (recovery) => recovery.turn(Effect.andThen(complete(), complete())))
      const exit = yield* toEnd(world, turn)
      assert.isTrue(Exit.isSuccess(exit) && exit.value.text === "two")
      assert.deepStrictEqual(
        world.model.requests.map((request) => request.model),
        ["primary", "second", "primary", "primary", "primary"]
      )
    })
  )

  it.effect("is named by the failure when nothing else is left", () =>
    Effect.gen(function* () {
      const world = worldOf(busyTwice, [missing, missing])
      const error = errorOf(yield* toEnd(world, complete()))
      assert.isTrue(isModelError(error) && error._tag === "ModelNotFoundError" && error.model === "second")
    })
  )
})

describe("a request", () => {
  it.effect("books an answer that broke off as begun: what it cost is unknown, never nothing", () =>
    Effect.gen(function* () {
      const world = worldOf(broad, [{ fail: { kind: "interrupted", status: null } }, whole("fine")])
      assert.isTrue(Exit.isSuccess(yield* toEnd(world, complete())))
      const seen = world.events.filter((event) => event._tag === "UsageSeen")
      assert.deepStrictEqual(
        seen.map(({ attempt, final, costUsd }) => ({ attempt, final, costUsd })),
        [
          { attempt: 1, final: false, costUsd: null },
          { attempt: 2, final: false, costUsd: null }
        ]
      )
    })
  )

  it.effect("joins the kept fragments verbatim and drops the raised one's partial", () =>
    Effect.gen(function* () {
      const world = worldOf(policyOf(), [cut("dropped"), cut("a \n"), cut("  b"), whole("\tc")])
      const exit = yield* toEnd(world, complete())
      assert.isTrue(Exit.isSuccess(exit) && exit.value.text === "a \n  b\tc")
      assert.deepStrictEqual(
        world.model.requests.map((request) => request.messages.at(-1)?.role),
        ["user", "user", "user", "user"]
      )
    })
  )

  it.effect("repairs every seam when told to, and says what it dropped", () =>
    Effect.gen(function* () {
      const world = worldOf(policyOf({ seamRepair: 8, raise: "never" }), [
        cut("the quick "),
        cut("quick brown "),
        whole("brown fox")
      ])
      const exit = yield* toEnd(world, complete())
      assert.isTrue(Exit.isSuccess(exit) && exit.value.text === "the quick brown fox")
      assert.isTrue(Exit.isSuccess(exit) && exit.value.warnings.length === 2)
    })
  )

  it.effect("compacts through the summarizer and keeps the caller's messages as they are", () =>
    Effect.gen(function* () {
      const world = worldOf(policyOf({ compaction: { mode: "once", keepRecentMessages: 2 } }), [
        tooLong,
        whole("SUMMARY"),
        whole("fine")
      ])
      const exit = yield* toEnd(world, complete())
      assert.isTrue(Exit.isSuccess(exit))
      const sent = world.model.requests[2]?.messages ?? []
      assert.deepStrictEqual(sent[0], ask[0])
      assert.include(JSON.stringify(sent[1]), "SUMMARY")
      assert.deepStrictEqual(sent.slice(2), ask.slice(-2))
      assert.deepStrictEqual(
        world.model.requests.map((request) => request.role),
        ["main", "summarizer", "main"]
      )
    })
  )

  it.effect("asks for no longer answer than the session's budget still pays for, and stops with what came", () =>
    Effect.gen(function* () {
      const ledger = yield* BudgetMemory.make({ maxTokens: 1_000, maxCostUsd: null }, { tokens: 500, costUsd: 0 })
      const usage = { ...Usage.unknown, promptTokens: 100, completionTokens: 400 }
      const world = worldOf(policyOf(), [
        { reply: { text: "as far as it goes", finishReason: "length", usage } },
        whole("never")
      ])
      const ended = yield* toEnd(
        world,
        complete().pipe(
          Effect.provideService(BudgetLedger, ledger),
          Effect.provideService(TokenEstimate, () => 100)
        )
      )
      const failure = errorOf(ended)
      if (failure._tag !== "BudgetExceeded") throw new Error(failure._tag)
      assert.deepStrictEqual(
        world.model.requests.map((request) => request.maxOutputTokens),
        [400]
      )
      assert.strictEqual(failure.partial, "as far as it goes")
      assert.strictEqual((yield* ledger.balance).spent.tokens, 1_000)
    })
  )

  it.effect("tells of its failures when the session's budget ends it in the middle", () =>
    Effect.gen(function* () {
      const ledger = yield* BudgetMemory.make({ maxTokens: 50, maxCostUsd: null })
      const spend: ScriptedModel.Step = {
        run: () =>
          Effect.andThen(
            Effect.flatMap(ledger.admit({ tokens: 1, costUsd: 0 }), (place) =>
              ledger.settle(place, { tokens: 60, costUsd: 0 })
            ),
            Effect.fail(failureOf({ kind: "overloaded", status: 529, code: "busy" }))
          ).pipe(Effect.catchTag("BudgetExceeded", Effect.die))
      }
      const world = worldOf(policyOf(), [spend, whole("never")])
      const ended = yield* toEnd(
        world,
        complete().pipe(
          Effect.provideService(BudgetLedger, { ...ledger, admit: (worst) => ledger.admit({ ...worst, tokens: 1 }) }),
          Effect.provideService(TokenEstimate, () => 10)
        )
      )
      const failure = errorOf(ended)
      if (failure._tag !== "BudgetExceeded") throw new Error(failure._tag)
      assert.deepStrictEqual(
        [failure.attempts, failure.lastOutcome, failure.lastCause, failure.lastStatus, failure.code, failure.model],
        [1, "BudgetRefused", "ModelOverloadedError", 529, "busy", "primary"]
      )
      assert.isTrue(isModelError(failure.cause))
      assert.strictEqual(failure.firstCause, failure.cause)
    })
  )

  it.effect("tells of a wait hint it cannot read and passes it over; strict stops at it", () =>
    Effect.gen(function* () {
      const unreadable: ScriptedModel.Step = {
        fail: { kind: "rate_limited", status: 429, hints: [{ _tag: "Invalid", source: "retry-after" }] }
      }
      const world = worldOf(broad, [unreadable, unreadable, whole("fine")])
      const exit = yield* toEnd(world, complete())
      const warning = "A wait hint could not be read and was passed over (retry-after)."
      assert.deepStrictEqual(Exit.isSuccess(exit) ? exit.value.warnings : null, [warning])
      assert.deepStrictEqual(
        world.events.flatMap((event) => (event._tag === "Noted" ? [event.note] : [])),
        [warning, warning]
      )
      const strict = worldOf(policyOf(), [unreadable])
      assert.strictEqual(errorOf(yield* toEnd(strict, complete()))._tag, "InvalidRetryAfterError")
      assert.isFalse(strict.events.some((event) => event._tag === "Noted"))
    })
  )

  it.effect("reserves the prompt and the reply of a summary before it is sent", () =>
    Effect.gen(function* () {
      const long = "word ".repeat(2_000)
      const messages: ReadonlyArray<Message> = [
        { role: "user", content: long },
        { role: "user", content: "and now?" }
      ]
      const ledger = yield* BudgetMemory.make({ maxTokens: 100_000, maxCostUsd: null })
      let reserved = 0
      const summary: ScriptedModel.Step = {
        run: () =>
          Effect.map(ledger.balance, (balance) => {
            reserved = balance.reserved.tokens
            return ScriptedModel.makeReply({ text: "SUMMARY" })
          })
      }
      const world = worldOf(policyOf({ compaction: { mode: "once", keepRecentMessages: 1 } }), [
        tooLong,
        summary,
        whole("fine")
      ])
      const exit = yield* toEnd(world, Effect.provideService(complete(messages), BudgetLedger, ledger))
      assert.isTrue(Exit.isSuccess(exit))
      assert.isAbove(reserved, 4_000 + long.length / 5)
    })
  )

  it.effect.each([
    { why: "is cut", step: cut("half a summary") },
    { why: "is refused", step: { reply: { text: null, refusal: "no" } } },
    { why: "is empty", step: whole("  ") }
  ])("never replaces history with a summary that $why", ({ step }) =>
    Effect.gen(function* () {
      const world = worldOf(policyOf({ compaction: { mode: "once", keepRecentMessages: 2 } }), [tooLong, step])
      const failure = errorOf(yield* toEnd(world, complete()))
      assert.isTrue(failure._tag === "PromptTooLongRetryError" && failure.reason === "SummaryFailed")
      assert.strictEqual(world.model.requests.length, 2)
    })
  )

  it.effect("folds a long history in several summary requests", () =>
    Effect.gen(function* () {
      const long: ReadonlyArray<Message> = [
        ...Array.from({ length: 6 }, (_, at): Message => ({
          role: at % 2 === 0 ? "user" : "assistant",
          content: `${at} ${"word ".repeat(8_000)}`
        })),
        { role: "user", content: "now" }
      ]
      const world = worldOf(policyOf({ compaction: { mode: "once", keepRecentMessages: 1 } }), [
        tooLong,
        whole("S1"),
        whole("S2"),
        whole("S3"),
        whole("fine")
      ])
      const exit = yield* toEnd(world, complete(long))
      assert.isTrue(Exit.isSuccess(exit))
      assert.include(JSON.stringify(world.model.requests[2]?.messages), "S1")
    })
  )

  it.effect("gives a fallback with another client its turn", () =>
    Effect.gen(function* () {
      const first = ScriptedModel.make([overloaded, overloaded, overloaded])
      const second = ScriptedModel.make([whole("from the backup")])
      const policy = policyOf({ routes: [{ model: "primary" }, { model: "primary", client: "backup" }] })
      const world = worldOver(policy, first.client, { recovery: { clients: { backup: second.client } } })
      const exit = yield* toEnd(world, complete())
      assert.isTrue(Exit.isSuccess(exit) && exit.value.text === "from the backup")
      assert.strictEqual(second.requests.length, 1)
    })
  )

  it.effect("refuses a layer whose route names no client", () =>
    Effect.gen(function* () {
      const policy = policyOf({ routes: [{ model: "a", client: "nobody" }] })
      const exit = yield* Effect.exit(
        Effect.provide(
          complete(),
          RecoveryLive.layer(policy).pipe(
            Layer.provide(ModelSummarizer.layer({ model: "a" })),
            Layer.provide(ScriptedModel.layer([]))
          )
        )
      )
      const failure = errorOf(exit)
      assert.isTrue(failure._tag === "ConfigurationError" && failure.field === "routes[0].client")
    })
  )

  it.effect("refuses to send a tool call without its result, before any request", () =>
    Effect.gen(function* () {
      const world = worldOf(policyOf(), [])
      const messages: ReadonlyArray<Message> = [
        { role: "user", content: "go" },
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "c1", type: "function", function: { name: "f", arguments: "{}" } }]
        },
        { role: "user", content: "and?" }
      ]
      const failure = errorOf(yield* toEnd(world, complete(messages)))
      assert.isTrue(failure._tag === "ModelRequestError" && failure.code === "unpaired_tool_calls")
      assert.isTrue(isModelError(failure) && failure.providerMessage?.includes("c1") === true)
      assert.strictEqual(world.model.requests.length, 0)
    })
  )

  it.effect("steps a schedule of the caller's, once per failure", () =>
    Effect.gen(function* () {
      const world = worldOf(policyOf({ maxAttempts: 10 }), [limited, limited, limited])
      const own = Schedule.spaced("7 seconds").pipe(Schedule.upTo({ times: 2 }))
      const exit = yield* toEnd(world, complete().pipe(Effect.provideService(BackoffSchedule, own)))
      const failure = errorOf(exit)
      assert.strictEqual(failure._tag, "RecoveryRetriesExhausted")
      assert.deepStrictEqual(
        world.events.flatMap((event) => (event._tag === "Waiting" ? [event.remainingMs] : [])),
        [7_000, 7_000]
      )
    })
  )

  it.effect("takes policy and deadline of the call", () =>
    Effect.gen(function* () {
      const world = worldOf(policyOf(), [limited, limited])
      const failure = errorOf(
        yield* toEnd(world, complete().pipe(Effect.provideService(PolicyOverride, { maxAttempts: 1 })))
      )
      assert.strictEqual(failure._tag, "RecoveryRetriesExhausted")
      const late = errorOf(yield* toEnd(world, complete().pipe(Effect.provideService(DeadlineOverride, "400 millis"))))
      assert.strictEqual(late._tag, "RecoveryDeadlineExceeded")
    })
  )

  it.effect("takes the deadline around a turn for all requests of it, whatever the policy says of its own", () =>
    Effect.gen(function* () {
      const reply = ScriptedModel.makeReply({ text: "whole" })
      const slow: ScriptedModel.Step = { run: () => Effect.delay(Effect.succeed(reply), "3 seconds") }
      const two = Effect.flatMap(Recovery, (recovery) => recovery.turn(Effect.andThen(complete(), complete())))
      assert.isTrue(Exit.isSuccess(yield* toEnd(worldOf(broad, [slow, slow]), two)))
      const ofTurn = two.pipe(Effect.provideService(DeadlineOverride, "4 seconds"))
      const failure = errorOf(yield* toEnd(worldOf(broad, [slow, slow]), ofTurn, "4 seconds"))
      assert.strictEqual(failure._tag, "RecoveryDeadlineExceeded")
      const ofCall = Effect.flatMap(Recovery, (recovery) =>
        recovery.turn(Effect.andThen(complete(), complete().pipe(Effect.provideService(DeadlineOverride, "4 seconds"))))
      )
      assert.isTrue(Exit.isSuccess(yield* toEnd(worldOf(broad, [slow, slow]), ofCall)))
    })
  )

  it.effect("can be printed with one call, without the provider's words or a key", () =>
    Effect.gen(function* () {
      const step: ScriptedModel.Step = {
        fail: { kind: "rate_limited", status: 429, code: "slow", providerMessage: "WORDS of the provider" }
      }
      const world = worldOf(policyOf({ maxAttempts: 2 }), [step, step])
      const failure = errorOf(yield* toEnd(world, complete()))
      const text = renderFailure(failure)
      assert.include(text, "RecoveryRetriesExhausted")
      assert.include(text, "#2 primary")
      assert.notInclude(text + JSON.stringify(failure) + String(failure), "WORDS")
    })
  )
})

describe("a turn", () => {
  const slow = (millis: number, step: ScriptedModel.Step): ScriptedModel.Step => ({
    run: () =>
      Effect.andThen(
        Effect.sleep(millis),
        "fail" in step
          ? Effect.fail(failureOf(step.fail))
          : Effect.succeed(ScriptedModel.makeReply("reply" in step ? step.reply : { text: "" }))
      )
  })

  it.effect("shares one deadline between its requests and does not count tool time", () =>
    Effect.gen(function* () {
      const world = worldOf(policyOf({ deadline: "10 seconds" }), [
        slow(6_000, whole("one")),
        slow(3_999, whole("two")),
        slow(2_000, whole("three"))
      ])
      const program = Effect.gen(function* () {
        const recovery = yield* Recovery
        return yield* recovery.turn(
          Effect.gen(function* () {
            yield* complete()
            yield* Effect.sleep("1 hour")
            yield* complete()
            return yield* complete()
          })
        )
      })
      const failure = errorOf(yield* toEnd(world, program))
      assert.strictEqual(failure._tag, "RecoveryDeadlineExceeded")
      assert.strictEqual(world.model.requests.length, 3)
    })
  )

  it.effect("stays on the fallback, and a new turn begins with the primary", () =>
    Effect.gen(function* () {
      const world = worldOf(policyOf(), [
        overloaded,
        overloaded,
        overloaded,
        whole("one"),
        whole("two"),
        whole("three")
      ])
      const program = Effect.gen(function* () {
        const recovery = yield* Recovery
        yield* recovery.turn(Effect.andThen(complete(), complete()))
        yield* complete()
      })
      assert.isTrue(Exit.isSuccess(yield* toEnd(world, program)))
      assert.deepStrictEqual(
        world.model.requests.map((request) => request.model),
        ["primary", "primary", "primary", "second", "second", "primary"]
      )
    })
  )

  it.effect("stays on the fallback when another of its requests retries on the primary, in the background or not", () =>
    Effect.gen(function* () {
      const world = worldOf(policyOf(), [
        overloaded,
        slow(5_000, limited),
        slow(5_000, limited),
        overloaded,
        overloaded,
        whole("one"),
        whole("two"),
        whole("three"),
        whole("four")
      ])
      const program = Effect.gen(function* () {
        const recovery = yield* Recovery
        yield* recovery.turn(
          Effect.andThen(
            Effect.all([complete(), complete(), recovery.complete({ messages: ask, priority: "background" })], {
              concurrency: "unbounded"
            }),
            complete()
          )
        )
      })
      assert.isTrue(Exit.isSuccess(yield* toEnd(world, program)))
      assert.deepStrictEqual(
        world.model.requests.map((request) => request.model),
        ["primary", "primary", "primary", "primary", "primary", "second", "primary", "primary", "second"]
      )
    })
  )

  it.effect("does not touch another turn that runs beside it", () =>
    Effect.gen(function* () {
      const world = worldOf(policyOf({ deadline: "10 seconds" }), [
        slow(9_000, whole("one")),
        slow(9_000, whole("two"))
      ])
      const program = Effect.gen(function* () {
        const recovery = yield* Recovery
        return yield* Effect.all([recovery.turn(complete()), recovery.turn(complete())], { concurrency: "unbounded" })
      })
      assert.isTrue(Exit.isSuccess(yield* toEnd(world, program)))
    })
  )
})

const failureOf = (failure: Failure) => {
  const step = ScriptedModel.make([{ fail: failure }])
  return Effect.runSync(
    Effect.flip(step.client.generate({ messages: [], model: "m", maxOutputTokens: 1, role: "main" }))
  )
}

describe("time, to the millisecond", () => {
  const hanging: ScriptedModel.Step = { run: () => Effect.never }

  it.effect.each([
    { field: "attemptTimeout" as const, millis: 600_000 },
    { field: "deadline" as const, millis: 300_000 }
  ])("ends an attempt at its $field and not before", ({ field, millis }) =>
    Effect.gen(function* () {
      const world = worldOf(policyOf({ deadline: null, [field]: millis }), [hanging])
      const fiber = yield* Effect.forkChild(Effect.exit(Effect.provide(complete(), world.layer)))
      yield* TestClock.adjust(Duration.millis(millis - 1))
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust(Duration.millis(1))
      const failure = errorOf(yield* Fiber.join(fiber))
      assert.strictEqual(failure._tag, field === "deadline" ? "RecoveryDeadlineExceeded" : "ModelTimeoutError")
      // The request that was broken off was sent, too.
      assert.strictEqual(failure.attempts, 1)
      assert.propertyVal(world.events.at(-1), "attempts", 1)
    })
  )

  it.effect("sends nothing after it was interrupted, in a call or in a wait, and says Finished once", () =>
    Effect.gen(function* () {
      for (const [script, at] of [
        [[hanging, whole("never")], 1_000],
        [[limited, whole("never")], 100]
      ] as const) {
        const world = worldOf(policyOf(), script)
        const fiber = yield* Effect.forkChild(Effect.provide(complete(), world.layer))
        yield* TestClock.adjust(Duration.millis(at))
        yield* Fiber.interrupt(fiber)
        yield* TestClock.adjust("10 minutes")
        assert.strictEqual(world.model.requests.length, 1)
        const ends = world.events.filter((event) => event._tag === "Finished")
        assert.isTrue(ends.length === 1 && ends[0]?.ok === false)
      }
    })
  )

  it.effect("beats every 30 s while waiting and in flight under unattended", () =>
    Effect.gen(function* () {
      const wait: ScriptedModel.Step = {
        fail: { kind: "rate_limited", status: 429, hints: [{ _tag: "Delay", source: "retry-after", millis: 75_000 }] }
      }
      const late: ScriptedModel.Step = {
        run: () => Effect.as(Effect.sleep("65 seconds"), ScriptedModel.makeReply({ text: "late" }))
      }
      const world = worldOf(policyOf({ ...RecoveryPolicy.unattended, routeHealth: null }), [wait, late])
      assert.isTrue(Exit.isSuccess(yield* toEnd(world, complete())))
      const beats = world.events.filter((event) => event._tag === "Heartbeat")
      assert.deepStrictEqual(
        beats.map((beat) => ("remainingMs" in beat ? beat.remainingMs : null)),
        [45_000, 15_000, null, null]
      )
    })
  )
})

/** Random faults as a provider would serve them; the text of the i-th answer names it. */
const Fault = Schema.Struct({
  pick: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 11 })),
  hint: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 90 })),
  text: Schema.String.check(Schema.isMaxLength(12))
})

const stepOf = (raw: typeof Fault.Type, at: number, words: string): ScriptedModel.Step => {
  const hints =
    raw.hint > 60
      ? [{ _tag: "Delay" as const, source: "retry-after", millis: raw.hint * 1_000 }]
      : raw.hint > 55
        ? [{ _tag: "Invalid" as const, source: "retry-after" }]
        : []
  const usage = {
    promptTokens: 10,
    completionTokens: 5,
    cachedTokens: null,
    cacheWriteTokens: null,
    reasoningTokens: null
  }
  const fail = (failure: Failure): ScriptedModel.Step => ({ fail: { hints, providerMessage: words, ...failure } })
  switch (raw.pick) {
    case 0:
    case 1:
      return fail({ kind: "rate_limited", status: 429 })
    case 2:
    case 3:
      return fail({ kind: "overloaded", status: 529 })
    case 4:
      return fail({ kind: "server_error", status: 500 })
    case 5:
      return fail({ kind: "connection", status: null })
    case 6:
      return fail({ kind: "prompt_too_long", status: 400, code: "context_length_exceeded" })
    case 7:
    case 8:
      return { reply: { text: `${raw.text}[${at}]`, finishReason: "length", usage } }
    case 9:
      return fail({ kind: "invalid_request", status: 400 })
    default:
      return { reply: { text: `${raw.text}[${at}]`, usage } }
  }
}

interface Played {
  readonly exit: Exit.Exit<ModelReply, RequestFailure>
  readonly world: ScriptedWorld
  readonly parts: ReadonlyArray<ReplyPart>
}

const playScript = (script: ReadonlyArray<typeof Fault.Type>, policy: RecoveryPolicy, words: string, stream: boolean) =>
  Effect.gen(function* () {
    const steps = [
      ...script.map((raw, at) => stepOf(raw, at, words)),
      ...Array.from({ length: 30 }, (): ScriptedModel.Step => ({ fail: { kind: "auth", status: 401 } }))
    ]
    const world = worldOf(policy, steps)
    const parts: Array<ReplyPart> = []
    const program = stream
      ? Effect.gen(function* () {
          const recovery = yield* Recovery
          yield* Stream.runForEach(recovery.stream({ messages: ask }), (part) => Effect.sync(() => parts.push(part)))
          const last = parts.at(-1)
          return last?._tag === "Finish" ? last.reply : yield* Effect.die(new Error("no Finish"))
        })
      : complete()
    const exit = yield* toEnd(world, program)
    return { exit, world, parts } satisfies Played
  })

const shapeOf = (events: ReadonlyArray<RecoveryEvent>): string =>
  JSON.stringify(events.flatMap((event) => (event._tag === "Transitioned" ? [[event.outcome, event.action]] : [])))

/** What a consumer of parts has in front of it at the end. */
const consume = (parts: ReadonlyArray<ReplyPart>): string =>
  parts.reduce((text, part) => (part._tag === "Reset" ? "" : part._tag === "TextDelta" ? text + part.text : text), "")

describe("for any script of faults", () => {
  const policies = [
    policyOf(),
    broad,
    policyOf({ ...RecoveryPolicy.unattended, routeHealth: null, compaction: { mode: "once", keepRecentMessages: 2 } })
  ]
  const input = {
    script: Schema.Array(Fault).check(Schema.isMaxLength(14)),
    which: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 }))
  }

  it.effect.prop(
    "complete ends, keeps its promises and can be replayed",
    input,
    ({ script, which }) =>
      Effect.gen(function* () {
        const policy = policies[which] ?? broad
        const { exit, world } = yield* playScript(script, policy, "some words", false)
        const main = world.model.requests.filter((request) => request.role === "main")
        const started = world.events.filter((event) => event._tag === "AttemptStarted")
        assert.strictEqual(started.length, main.length)
        assert.strictEqual(world.events.filter((event) => event._tag === "Finished").length, 1)
        if (Exit.isSuccess(exit)) {
          // The text is exactly the kept fragments: those in the last request, then the last answer.
          const last = main.at(-1)?.messages ?? []
          const kept = last.flatMap((message, at) => {
            const next = last[at + 1]
            return message.role === "assistant" && next?.role === "user" && next.content === policy.continuationPrompt
              ? [message.content]
              : []
          })
          const text = exit.value.text ?? ""
          assert.isTrue(text.startsWith(kept.join("")))
          assert.match(text.slice(kept.join("").length), /\[\d+\]$/)
        } else {
          const failure = errorOf(exit)
          assert.isAbove(failure.guidance.length, 10)
          assert.strictEqual(failure.trail.filter((entry) => entry.role === "main").length, main.length)
          assert.strictEqual(failure.attempts, main.length)
        }
        const log = yield* Effect.forEach(world.events, (event) =>
          Effect.map(Event.encode(event), (line) => JSON.stringify(line))
        )
        const replayed = replayLog(log.join("\n"))
        assert.deepStrictEqual(
          replayed.steps.filter((step) => !step.isSame),
          []
        )
        assert.strictEqual(replayed.steps.length, world.events.filter((event) => event._tag === "Transitioned").length)
        const other = yield* playScript(script, policy, "rate limit, overloaded, context length exceeded, quota", false)
        assert.strictEqual(shapeOf(other.world.events), shapeOf(world.events))
      }),
    { arbitrary: { runs: runs(2_000) } }
  )

  it.effect.prop(
    "a stream ends with Finish or a failure, and its consumer has exactly the final text",
    input,
    ({ script, which }) =>
      Effect.gen(function* () {
        const policy = policies[which] ?? broad
        const streamed = yield* playScript(script, policy, "w", true)
        const finishes = streamed.parts.filter((part) => part._tag === "Finish")
        assert.strictEqual(finishes.length, Exit.isSuccess(streamed.exit) ? 1 : 0)
        if (!Exit.isSuccess(streamed.exit)) return
        assert.strictEqual(streamed.parts.at(-1)?._tag, "Finish")
        assert.strictEqual(consume(streamed.parts), streamed.exit.value.text ?? "")
        // Without a length stop the stream gives what complete gives.
        if (script.some((raw) => raw.pick === 7 || raw.pick === 8)) return
        const { exit } = yield* playScript(script, policy, "w", false)
        assert.isTrue(Exit.isSuccess(exit))
        if (Exit.isSuccess(exit)) assert.deepStrictEqual(streamed.exit.value, exit.value)
      }),
    { arbitrary: { runs: runs(2_000) } }
  )
})
