import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import type { Message } from "../../../src/domain/chat/Message.ts"
import { makeModelError, type Failure, type ModelError } from "../../../src/domain/failure/ModelError.ts"
import type { ModelReply } from "../../../src/domain/chat/ModelReply.ts"
import type { WireRequest } from "../../../src/domain/chat/ModelRequest.ts"
import { RecoveryPolicy, type RecoveryPolicyInput } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as ModelSummarizer from "../../../src/layers/ModelSummarizer.ts"
import * as RecoveryLive from "../../../src/layers/RecoveryLive.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import { ModelClient } from "../../../src/services/ModelClient.ts"
import { DeadlineOverride } from "../../../src/services/Overrides.ts"
import { Recovery } from "../../../src/services/Recovery.ts"
import { runs } from "../../support/runs.ts"
import { freeze, worldOver } from "../../support/world.ts"

/** One HTTP request as the provider saw it; instants are milliseconds of the clock. */
interface Seen {
  readonly request: WireRequest
  readonly at: number
  /** When it was answered or given up; null = still open. */
  until: number | null
  isAnswered: boolean
  /** Wait the answer asked for; null = none, or a bad one. */
  readonly hint: number | null
  readonly answer: string
}

interface Answer {
  readonly takes: number
  readonly fail?: Failure
  readonly reply?: Partial<ModelReply> & { readonly text: string | null }
}

const conversation: ReadonlyArray<Message> = [
  { role: "system", content: "rules" },
  { role: "user", content: "first question" },
  {
    role: "assistant",
    content: null,
    tool_calls: [{ id: "c1", type: "function", function: { name: "look", arguments: "{}" } }]
  },
  { role: "tool", tool_call_id: "c1", content: "a view" },
  { role: "assistant", content: "first answer" },
  { role: "user", content: "and now?" }
]

const policyOf = (input: Partial<RecoveryPolicyInput>): RecoveryPolicy =>
  new RecoveryPolicy({
    ...RecoveryPolicy.strict,
    routes: [{ model: "primary" }, { model: "second" }],
    compaction: { mode: "once", keepRecentMessages: 1 },
    ...input
  })

const policies = [
  policyOf({}),
  policyOf({
    ...RecoveryPolicy.broad,
    routeHealth: null,
    compaction: { mode: "once", keepRecentMessages: 1 },
    attemptTimeout: 20_000
  }),
  policyOf({
    ...RecoveryPolicy.unattended,
    routeHealth: null,
    compaction: { mode: "once", keepRecentMessages: 1 }
  })
] as const

/** A provider in virtual time: every answer takes its time, and what is interrupted is known. */
const worldOf = (policy: RecoveryPolicy, answers: ReadonlyArray<Answer>) => {
  const seen: Array<Seen> = []
  const open = { count: 0 }
  const generate = (request: WireRequest): Effect.Effect<ModelReply, ModelError> =>
    Effect.gen(function* () {
      const answer = answers[seen.length] ?? { takes: 0, fail: { kind: "auth", status: 401 } satisfies Failure }
      const hint = answer.fail?.hints?.[0]
      const entry: Seen = {
        request,
        at: yield* Clock.currentTimeMillis,
        until: null,
        isAnswered: false,
        hint: hint?._tag === "Delay" ? hint.millis : null,
        answer: answer.fail?.kind ?? answer.reply?.finishReason ?? "stop"
      }
      seen.push(entry)
      open.count += 1
      yield* Effect.onExit(Effect.sleep(answer.takes), () =>
        Effect.map(Clock.currentTimeMillis, (now) => void (entry.until = now))
      )
      entry.isAnswered = true
      if (answer.fail !== undefined) return yield* Effect.fail(makeModelError(answer.fail))
      return ScriptedModel.makeReply({ text: "summary", model: request.model, ...answer.reply })
    }).pipe(Effect.ensuring(Effect.sync(() => (open.count -= 1))))
  return { seen, open, ...worldOver(policy, Layer.mock(ModelClient, { generate })) }
}

const Raw = Schema.Struct({
  pick: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 13 })),
  hint: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 40 })),
  takes: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 30_000 }))
})

const faults: ReadonlyArray<Failure> = [
  { kind: "rate_limited", status: 429 },
  { kind: "rate_limited", status: 429 },
  { kind: "overloaded", status: 529 },
  { kind: "overloaded", status: 529 },
  { kind: "overloaded", status: 503 },
  { kind: "server_error", status: 500 },
  { kind: "connection", status: null },
  { kind: "prompt_too_long", status: 400, code: "context_length_exceeded" },
  { kind: "invalid_request", status: 400 },
  { kind: "quota_exhausted", status: 429, code: "insufficient_quota" }
]

const answerOf = (raw: typeof Raw.Type, at: number): Answer => {
  const fault = faults[raw.pick]
  if (fault === undefined)
    return { takes: raw.takes, reply: { text: `<${at}>`, finishReason: raw.pick === 13 ? "stop" : "length" } }
  const hints =
    raw.hint > 30
      ? [{ _tag: "Delay" as const, source: "retry-after", millis: (raw.hint - 30) * 5_000 }]
      : raw.hint > 27
        ? [{ _tag: "Invalid" as const, source: "retry-after" }]
        : []
  return { takes: raw.takes, fail: { ...fault, hints } }
}

const complete = Effect.flatMap(Recovery, (recovery) =>
  recovery.complete(freeze({ messages: conversation, params: { stop: ["x"] } }))
)

/** Instants are floats: differences below a microsecond mean nothing. */
const grain = 0.001

/** A route that answers so is not there for this request. */
const gone = new Set(["auth", "permission", "not_found", "quota_exhausted", "invalid_request"])

const retryable = new Set(["rate_limited", "overloaded", "server_error", "connection"])

const play = (world: ReturnType<typeof worldOf>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(Effect.provide(complete, world.layer))
    yield* TestClock.adjust("1 hour")
    return yield* Fiber.join(fiber)
  })

describe("a refusal without a code of its own", () => {
  const bare: ReadonlyArray<Failure> = [
    { kind: "invalid_request", status: 400 },
    { kind: "invalid_request", status: 400, code: "invalid_request_error" },
    { kind: "invalid_request", status: 400, code: "BadRequestError" },
    { kind: "invalid_request", status: 400, code: "400" },
    { kind: "invalid_request", status: 422, code: "INVALID_ARGUMENT" },
    { kind: "payload_too_large", status: 413, code: "request_too_large" }
  ]
  const long = "a view of the harbour ".repeat(200)
  const messages: ReadonlyArray<Message> = [
    { role: "system", content: "rules" },
    ...Array.from({ length: 6 }, (_, at): Message => ({ role: at % 2 === 0 ? "user" : "assistant", content: long })),
    { role: "user", content: "and now?" }
  ]

  /** The first request of the conversation is refused, everything after it is answered. */
  const ask = (failure: Failure, suspectOverflow: boolean, contextWindow: number | null) => {
    const roles: Array<string> = []
    const generate = ({ role, model }: WireRequest): Effect.Effect<ModelReply, ModelError> => {
      roles.push(role)
      if (roles.length === 1) return Effect.fail(makeModelError(failure))
      return Effect.succeed(ScriptedModel.makeReply({ text: role === "main" ? "answer" : "short", model }))
    }
    const policy = policyOf({ suspectOverflow, routes: [{ model: "primary", contextWindow }] })
    const layer = RecoveryLive.layer(policy).pipe(
      Layer.provide(ModelSummarizer.layer({ model: "primary" })),
      Layer.provide(Layer.mock(ModelClient, { generate })),
      Layer.orDie
    )
    const reply = Effect.flatMap(Recovery, (recovery) => recovery.complete({ messages }))
    return { roles, reply: Effect.provide(reply, layer) }
  }

  it.effect.each(bare)("is an overflow while the input fills the window: $status $code", (failure) =>
    Effect.gen(function* () {
      const { roles, reply } = ask(failure, true, 5_000)
      assert.strictEqual((yield* reply).text, "answer")
      assert.include(roles, "summarizer")
      assert.strictEqual(roles.filter((role) => role === "main").length, 2)
    })
  )

  it.effect.each([
    { given: "a code that tells more", failure: { kind: "invalid_request", status: 400, code: "unsupported_value" } },
    { given: "another status", failure: { kind: "permission", status: 403 } },
    { given: "the option off", failure: { kind: "invalid_request", status: 400 }, suspect: false },
    { given: "room in the window", failure: { kind: "invalid_request", status: 400 }, window: 100_000 },
    { given: "an unknown window", failure: { kind: "invalid_request", status: 400 }, window: null }
  ] as const)("passes through with $given", ({ failure, suspect = true, window = 5_000 }) =>
    Effect.gen(function* () {
      const { roles, reply } = ask(failure, suspect, window)
      const failed = yield* Effect.flip(reply)
      assert.strictEqual("kind" in failed ? failed.kind : failed._tag, failure.kind)
      assert.deepStrictEqual(roles, ["main"])
    })
  )
})

describe("a raise", () => {
  const cut = (text: string): Answer => ({ takes: 10, reply: { text, finishReason: "length" } })

  it.effect("that is refused goes back to the old budget and on from the partial that was set aside", () =>
    Effect.gen(function* () {
      const world = worldOf(policies[0], [
        cut("one "),
        { takes: 10, fail: { kind: "invalid_request", status: 400 } },
        { takes: 10, reply: { text: "two" } }
      ])
      assert.strictEqual((yield* play(world)).text, "one two")
      assert.deepStrictEqual(
        world.seen.map(({ request }) => request.maxOutputTokens),
        [8_000, 64_000, 8_000]
      )
      assert.deepStrictEqual(
        world.seen[2]?.request.messages.slice(-2).map(({ content }) => content),
        ["one ", policies[0].continuationPrompt]
      )
    })
  )
})

describe("for any script of slow answers", () => {
  const script = Schema.Array(Raw).check(Schema.isMaxLength(16))
  const which = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 }))

  it.effect.prop(
    "nothing is sent past the deadline, no hint is cut short, and every bound holds",
    {
      script,
      which,
      deadline: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 200_000 }))
    },
    ({ script, which, deadline }) =>
      Effect.gen(function* () {
        const policy = policies[which] ?? policies[0]
        const world = worldOf(policy, script.map(answerOf))
        const begin = yield* Clock.currentTimeMillis
        const ended = { at: 0 }
        const fiber = yield* Effect.forkChild(
          complete.pipe(
            Effect.provideService(DeadlineOverride, deadline),
            Effect.provide(world.layer),
            Effect.exit,
            Effect.tap(() => Effect.map(Clock.currentTimeMillis, (now) => (ended.at = now)))
          )
        )
        yield* TestClock.adjust("2 days")
        const exit = yield* Fiber.join(fiber)

        assert.isAtMost(ended.at - begin, deadline + grain)
        assert.strictEqual(world.open.count, 0)
        for (const { at } of world.seen) assert.isBelow(at - begin, deadline)

        const main = world.seen.filter(({ request }) => request.role === "main")
        main.forEach((entry, index) => {
          const next = main[index + 1]
          if (next === undefined || entry.until === null || !entry.isAnswered) return
          // What is answered with a failure of another kind than these ends the request, unless it refuses a raise, or
          // says that its route is gone and another one is left.
          const isRaised = (entry.request.maxOutputTokens ?? 0) > (policy.initialMaxTokens ?? 0)
          if (!retryable.has(entry.answer))
            assert.isTrue(
              ["length", "prompt_too_long"].includes(entry.answer) ||
                isRaised ||
                (gone.has(entry.answer) && next.request.model !== entry.request.model),
              `went on after ${entry.answer}`
            )
          if (entry.hint !== null && retryable.has(entry.answer) && next.request.model === entry.request.model)
            assert.isAtLeast(next.at - entry.until, entry.hint - grain)
        })

        const budgets = main.map(({ request }) => request.maxOutputTokens)
        const prompts = main.at(-1)?.request.messages.filter(({ content }) => content === policy.continuationPrompt)
        const actions = world.events.flatMap((event) => (event._tag === "Transitioned" ? [event.action._tag] : []))
        assert.isAtMost(actions.filter((action) => action === "Escalate").length, 1)
        assert.isAtMost(actions.filter((action) => action === "Continue").length, policy.maxContinuations)
        assert.isAtMost(prompts?.length ?? 0, policy.maxContinuations)
        for (const budget of budgets) assert.isTrue(budget === 8_000 || budget === 64_000)
        if (policy.maxAttempts !== null)
          assert.isAtMost(actions.filter((tag) => tag === "Retry" || tag === "Fallback").length, policy.maxAttempts - 1)
        assert.isAtMost(world.events.filter((event) => event._tag === "Compacted").length, 1)
        for (const { request } of main) assert.notStrictEqual(request.messages.at(-1)?.role, "assistant")

        // In strict a bad hint is not slept on: the failure comes with the answer.
        if (Exit.isFailure(exit)) {
          const failure = yield* Effect.flip(exit)
          if (failure._tag === "InvalidRetryAfterError") {
            assert.strictEqual(policy, policies[0])
            assert.approximately(ended.at, world.seen.at(-1)?.until ?? 0, grain)
          }
          if (failure._tag === "RecoveryDeadlineExceeded" && failure.requestedWaitMs !== null)
            assert.approximately(ended.at, world.seen.at(-1)?.until ?? 0, grain)
          assert.approximately(failure.elapsedMs, ended.at - begin, grain)
          assert.strictEqual(failure.trail.length, world.seen.length)
        } else assert.isTrue(exit.value.text?.endsWith(`<${world.seen.length - 1}>`))
      }),
    { arbitrary: { runs: runs(2_000) } }
  )

  it.effect.prop(
    "interruption at any instant ends the call in flight and lets nothing follow",
    {
      script,
      which,
      leaveAt: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 120_000 }))
    },
    ({ script, which, leaveAt }) =>
      Effect.gen(function* () {
        const world = worldOf(policies[which] ?? policies[0], script.map(answerOf))
        const fiber = yield* Effect.forkChild(Effect.exit(Effect.provide(complete, world.layer)))
        yield* TestClock.adjust(Duration.millis(leaveAt))
        yield* Fiber.interrupt(fiber)
        assert.strictEqual(world.open.count, 0)
        const sent = world.seen.length
        assert.strictEqual(world.events.filter((event) => event._tag === "Finished").length, 1)
        yield* TestClock.adjust("2 days")
        assert.strictEqual(world.seen.length, sent)
      }),
    { arbitrary: { runs: runs(1_000) } }
  )
})
