import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { makeModelError, type Failure } from "../../../src/domain/failure/ModelError.ts"
import type { ModelPart, ToolCall } from "../../../src/domain/chat/ModelReply.ts"
import type { WireRequest } from "../../../src/domain/chat/ModelRequest.ts"
import { RecoveryPolicy, type RecoveryPolicyInput } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import type { RecoveryEvent } from "../../../src/domain/recovery/RecoveryEvent.ts"
import type { ReplyPart } from "../../../src/domain/chat/ReplyPart.ts"
import * as Usage from "../../../src/domain/chat/Usage.ts"
import { makeReply } from "../../../src/layers/ScriptedModel.ts"
import { ModelClient } from "../../../src/services/ModelClient.ts"
import { Recovery } from "../../../src/services/Recovery.ts"
import { runs } from "../../support/runs.ts"
import { fixedRandom, toEnd, worldOver } from "../../support/world.ts"

type Move =
  | string
  | { readonly wait: number }
  | { readonly think: string }
  | { readonly call: ToolCall }
  | { readonly life: true }
  | { readonly usage: Usage.Usage }
interface Script {
  readonly moves: ReadonlyArray<Move>
  readonly end: "stop" | "length" | "cut" | "hang" | Failure | { readonly refusal: string }
  readonly usage?: Usage.Usage
}

const scripted = (scripts: ReadonlyArray<Script>) => {
  const requests: Array<WireRequest> = []
  const open = { count: 0 }
  const client = ModelClient.of({
    generate: () => Effect.die(new Error("not asked for")),
    stream: (request) =>
      Stream.unwrap(
        Effect.sync(() => {
          const script = scripts[requests.length]
          requests.push(request)
          if (script === undefined) return Stream.die(new Error("the script has ended"))
          open.count += 1
          let text = ""
          const calls: Array<ToolCall> = []
          const moves = Stream.fromIterable(script.moves).pipe(
            Stream.rechunk(1),
            Stream.mapEffect((move): Effect.Effect<ModelPart> => {
              if (typeof move === "string") {
                text += move
                return Effect.succeed({ _tag: "Text", text: move })
              }
              if ("wait" in move) return Effect.as(Effect.sleep(move.wait), { _tag: "Life" })
              if ("think" in move) return Effect.succeed({ _tag: "Reasoning", text: move.think })
              if ("usage" in move) return Effect.succeed({ _tag: "Usage", usage: move.usage })
              if ("life" in move) return Effect.succeed({ _tag: "Life" })
              calls.push(move.call)
              return Effect.succeed({ _tag: "ToolCall", call: move.call })
            })
          )
          const end = Stream.suspend((): Stream.Stream<ModelPart, ReturnType<typeof makeModelError>> => {
            if (script.end === "hang") return Stream.never
            if (script.end === "cut") return Stream.fail(makeModelError({ kind: "interrupted", status: null }))
            const refusal = typeof script.end === "object" && "refusal" in script.end ? script.end.refusal : null
            if (typeof script.end === "object" && "kind" in script.end) return Stream.fail(makeModelError(script.end))
            const reply = makeReply({
              text: text === "" || refusal !== null ? null : text,
              refusal,
              toolCalls: calls,
              finishReason: script.end === "length" ? "length" : calls.length > 0 ? "tool_calls" : "stop",
              usage: script.usage ?? Usage.unknown,
              model: request.model
            })
            return Stream.make<ReadonlyArray<ModelPart>>({ _tag: "End", reply })
          })
          return Stream.concat(moves, end).pipe(Stream.ensuring(Effect.sync(() => (open.count -= 1))))
        })
      )
  })
  return { client, requests, open }
}

interface World {
  readonly layer: Layer.Layer<Recovery>
  readonly requests: ReadonlyArray<WireRequest>
  readonly open: { readonly count: number }
  readonly events: Array<RecoveryEvent>
  readonly parts: Array<ReplyPart>
}

const worldOf = (scripts: ReadonlyArray<Script>, input: Partial<RecoveryPolicyInput> = {}): World => {
  const { client, requests, open } = scripted(scripts)
  const policy = new RecoveryPolicy({
    ...RecoveryPolicy.broad,
    routeHealth: null,
    routes: [{ model: "primary" }, { model: "second" }],
    ...input
  })
  return { ...worldOver(policy, client), requests, open, parts: [] }
}

const ask = (world: World) =>
  Effect.gen(function* () {
    const recovery = yield* Recovery
    yield* Stream.runForEach(recovery.stream({ messages: [{ role: "user", content: "go" }] }), (part) =>
      Effect.sync(() => world.parts.push(part))
    )
  })

const play = (world: World, time: Duration.Input = "3 hours") => toEnd(world, ask(world), time)

const tags = (world: World): string =>
  world.parts
    .filter((part) => part._tag !== "Notice" && part._tag !== "UsageSeen")
    .map((part) => (part._tag === "TextDelta" ? part.text : part._tag))
    .join(" ")

const shown = (parts: ReadonlyArray<ReplyPart>): string =>
  parts.reduce((text, part) => (part._tag === "Reset" ? "" : part._tag === "TextDelta" ? text + part.text : text), "")

const call: ToolCall = { id: "c", name: "f", arguments: "{}" }

describe("after a cut", () => {
  it.effect.each<{
    readonly rule: string
    readonly policy: Partial<RecoveryPolicyInput>
    readonly scripts: ReadonlyArray<Script>
    readonly then: string
  }>([
    {
      rule: "restart drops what was shown and begins again",
      policy: { onCut: "restart" },
      scripts: [
        { moves: ["ab"], end: "cut" },
        { moves: ["xy"], end: "stop" }
      ],
      then: "ab Reset xy Finish"
    },
    {
      rule: "nothing shown means no Reset",
      policy: { onCut: "restart" },
      scripts: [
        { moves: [{ life: true }], end: "cut" },
        { moves: ["xy"], end: "stop" }
      ],
      then: "xy Finish"
    },
    {
      rule: "resume goes on from what was shown",
      policy: { onCut: "resume" },
      scripts: [
        { moves: ["ab"], end: "cut" },
        { moves: ["cd"], end: "stop" }
      ],
      then: "ab cd Finish"
    },
    {
      rule: "splice shows only the rest of the replay",
      policy: { onCut: "splice" },
      scripts: [
        { moves: ["ab"], end: "cut" },
        { moves: ["a", "bc", "d"], end: "stop" }
      ],
      then: "ab c d Finish"
    },
    {
      rule: "splice survives a second cut",
      policy: { onCut: "splice" },
      scripts: [
        { moves: ["ab"], end: "cut" },
        { moves: ["a"], end: "cut" },
        { moves: ["abc"], end: "stop" }
      ],
      then: "ab c Finish"
    },
    {
      rule: "a replay that differs is resumed",
      policy: { onCut: "splice" },
      scripts: [
        { moves: ["ab"], end: "cut" },
        { moves: ["aX"], end: "stop" },
        { moves: ["cd"], end: "stop" }
      ],
      then: "ab cd Finish"
    },
    {
      rule: "a replay that is shorter is resumed",
      policy: { onCut: "splice" },
      scripts: [
        { moves: ["abc"], end: "cut" },
        { moves: ["ab"], end: "stop" },
        { moves: ["d"], end: "stop" }
      ],
      then: "abc d Finish"
    },
    {
      rule: "a replay that turns out a refusal is kept",
      policy: { onCut: "splice" },
      scripts: [
        { moves: ["ab"], end: "cut" },
        { moves: [], end: { refusal: "no" } }
      ],
      then: "ab Reset Finish"
    },
    {
      rule: "a replay that turns out a tool call is kept and not paid for again",
      policy: { onCut: "splice" },
      scripts: [
        { moves: ["ab"], end: "cut" },
        { moves: [{ think: "hm" }, { call }], end: "stop" }
      ],
      then: "ab Reset ToolCallReady Finish"
    },
    {
      rule: "a refused second fragment drops the first, too",
      policy: { onCut: "splice" },
      scripts: [
        { moves: ["ab"], end: "length" },
        { moves: ["cd"], end: "cut" },
        { moves: [], end: { refusal: "no" } }
      ],
      then: "ab cd Reset Finish"
    },
    {
      rule: "a cut tool call is only restarted",
      policy: { onCut: "resume" },
      scripts: [
        { moves: ["ab", { call }], end: "cut" },
        { moves: ["xy"], end: "stop" }
      ],
      then: "ab ToolCallReady Reset xy Finish"
    },
    {
      rule: "bare reasoning is only restarted",
      policy: { onCut: "splice" },
      scripts: [
        { moves: [{ think: "hm" }], end: "cut" },
        { moves: ["xy"], end: "stop" }
      ],
      then: "ReasoningDelta Reset xy Finish"
    },
    {
      rule: "fail never repeats what was shown",
      policy: { onCut: "fail" },
      scripts: [{ moves: ["ab"], end: "cut" }],
      then: "ab"
    },
    {
      rule: "fail still repeats when nothing was shown",
      policy: { onCut: "fail" },
      scripts: [
        { moves: [], end: "cut" },
        { moves: ["xy"], end: "stop" }
      ],
      then: "xy Finish"
    },
    {
      rule: "an error in mid-stream counts like a cut",
      policy: { onCut: "resume" },
      scripts: [
        { moves: ["ab"], end: { kind: "overloaded", status: 200 } },
        { moves: ["cd"], end: "stop" }
      ],
      then: "ab cd Finish"
    }
  ])("$rule", ({ policy, scripts, then }) =>
    Effect.gen(function* () {
      const world = worldOf(scripts, policy)
      const exit = yield* play(world)
      assert.strictEqual(tags(world), then)
      assert.strictEqual(Exit.isSuccess(exit), then.endsWith("Finish"))
      const last = world.parts.at(-1)
      if (last?._tag === "Finish") assert.strictEqual(last.reply.text ?? "", shown(world.parts))
      assert.strictEqual(world.open.count, 0)
    })
  )

  it.effect("a resumed request ends with the continuation prompt, not with the assistant", () =>
    Effect.gen(function* () {
      const world = worldOf(
        [
          { moves: ["ab"], end: "cut" },
          { moves: ["cd"], end: "stop" }
        ],
        { onCut: "resume" }
      )
      yield* play(world)
      assert.deepStrictEqual(
        world.requests[1]?.messages.slice(-2).map((message) => message.role),
        ["assistant", "user"]
      )
      assert.strictEqual(world.requests[1]?.messages.at(-2)?.content, "ab")
    })
  )
})

describe("a length stop", () => {
  it.effect("after delivered text continues with the raised budget and without a Reset", () =>
    Effect.gen(function* () {
      const world = worldOf([
        { moves: ["ab"], end: "length" },
        { moves: ["cd"], end: "stop" }
      ])
      yield* play(world)
      assert.strictEqual(tags(world), "ab cd Finish")
      assert.deepStrictEqual(
        world.requests.map((request) => request.maxOutputTokens),
        [8_000, 64_000]
      )
    })
  )

  it.effect.each([
    {
      what: "with a tool call",
      moves: ["ab", { call }] as ReadonlyArray<Move>,
      then: "ab ToolCallReady Reset xy Finish"
    },
    {
      what: "with only reasoning",
      moves: [{ think: "hm" }] as ReadonlyArray<Move>,
      then: "ReasoningDelta Reset xy Finish"
    }
  ])("$what resets and raises", ({ moves, then }) =>
    Effect.gen(function* () {
      const world = worldOf([
        { moves, end: "length" },
        { moves: ["xy"], end: "stop" }
      ])
      yield* play(world)
      assert.strictEqual(tags(world), then)
    })
  )

  it.effect("followed by a cut shows the kept fragment again behind the Reset", () =>
    Effect.gen(function* () {
      const world = worldOf([
        { moves: ["ab"], end: "length" },
        { moves: ["cd"], end: "cut" },
        { moves: ["xy"], end: "stop" }
      ])
      yield* play(world)
      assert.strictEqual(tags(world), "ab cd Reset ab xy Finish")
      assert.strictEqual(shown(world.parts), "abxy")
    })
  )

  it.effect("repairs the seam of a continuation when told to, and says so", () =>
    Effect.gen(function* () {
      const world = worldOf(
        [
          { moves: ["the quick "], end: "length" },
          { moves: ["qui", "ck fox"], end: "stop" }
        ],
        { seamRepair: 8 }
      )
      yield* play(world)
      const last = world.parts.at(-1)
      assert.strictEqual(shown(world.parts), "the quick fox")
      assert.isTrue(last?._tag === "Finish" && last.reply.text === "the quick fox" && last.reply.warnings.length === 1)
    })
  )
})

describe("every seam", () => {
  it.effect("is repaired in what is shown and in the reply alike", () =>
    Effect.gen(function* () {
      const world = worldOf(
        [
          { moves: ["the quick "], end: "length" },
          { moves: ["qui", "ck brown "], end: "length" },
          { moves: ["brown fox ju"], end: "cut" },
          { moves: ["jumps"], end: "stop" }
        ],
        { seamRepair: 8, onCut: "resume" }
      )
      yield* play(world)
      const last = world.parts.at(-1)
      assert.strictEqual(shown(world.parts), "the quick brown fox jumps")
      assert.isTrue(last?._tag === "Finish" && last.reply.text === "the quick brown fox jumps")
    })
  )
})

describe("faults", () => {
  it.effect("are withheld until recovery has failed", () =>
    Effect.gen(function* () {
      const world = worldOf([
        { moves: [], end: { kind: "server_error", status: 500 } },
        { moves: [], end: { kind: "auth", status: 401 } }
      ])
      const exit = yield* play(world)
      assert.isTrue(Exit.isFailure(exit))
      assert.strictEqual(tags(world), "")
    })
  )

  it.effect("are told as notices in broad and not in strict", () =>
    Effect.gen(function* () {
      const scripts: ReadonlyArray<Script> = [
        ...Array.from({ length: 3 }, (): Script => ({ moves: [], end: { kind: "overloaded", status: 529 } })),
        { moves: ["ok"], end: "stop" }
      ]
      const broad = worldOf(scripts)
      yield* play(broad)
      assert.deepStrictEqual(
        broad.parts.flatMap((part) => (part._tag === "Notice" ? [part.about] : [])),
        ["waiting", "waiting", "switched", "waiting"]
      )
      const strict = worldOf(scripts, { ...RecoveryPolicy.strict })
      yield* play(strict)
      assert.isFalse(strict.parts.some((part) => part._tag === "Notice"))
    })
  )

  it.effect("book what a cut attempt has used, as far as it is known", () =>
    Effect.gen(function* () {
      const seen = { ...Usage.unknown, promptTokens: 10, completionTokens: 2 }
      const world = worldOf([
        { moves: [{ usage: { ...seen, completionTokens: null } }, "ab", { usage: seen }], end: "cut" },
        { moves: ["xy"], end: "stop", usage: { ...seen, completionTokens: 5 } }
      ])
      yield* play(world)
      const booked = world.events.flatMap((event) =>
        event._tag === "UsageSeen" ? [[event.usage.completionTokens, event.final]] : []
      )
      assert.deepStrictEqual(booked, [
        [2, false],
        [5, true]
      ])
    })
  )
})

describe("a refusal", () => {
  const refusing = { refusal: "no" }
  it.effect.each<{ readonly name: string; readonly scripts: ReadonlyArray<Script> }>([
    { name: "after some text", scripts: [{ moves: ["well "], end: refusing }] },
    {
      name: "in a continuation",
      scripts: [
        { moves: ["one "], end: "length" },
        { moves: [], end: refusing }
      ]
    }
  ])("$name drops what was shown, as complete would", ({ scripts }) =>
    Effect.gen(function* () {
      const world = worldOf(scripts)
      assert.isTrue(Exit.isSuccess(yield* play(world)))
      const last = world.parts.at(-1)
      assert.isTrue(last?._tag === "Finish" && last.reply.text === null && last.reply.refusal === "no")
      assert.strictEqual(shown(world.parts), "")
    })
  )
})

describe("the timers, to the millisecond", () => {
  const quiet: Partial<RecoveryPolicyInput> = {
    ...RecoveryPolicy.strict,
    deadline: null,
    firstTokenTimeout: null,
    idleTimeout: null,
    contentTimeout: null,
    attemptTimeout: null
  }
  it.effect.each<{
    readonly rule: string
    readonly policy: Partial<RecoveryPolicyInput>
    readonly moves: ReadonlyArray<Move>
    readonly at: number
    readonly timer: string | null
  }>([
    {
      rule: "first token counts from sending",
      policy: { firstTokenTimeout: 60_000 },
      moves: [{ wait: 10_000 }, { life: true }],
      at: 60_000,
      timer: "firstToken"
    },
    {
      rule: "first token ends with the first reasoning",
      policy: { firstTokenTimeout: 60_000, contentTimeout: 90_000 },
      moves: [{ wait: 59_999 }, { think: "h" }],
      at: 149_999,
      timer: "content"
    },
    {
      rule: "idle counts from the headers",
      policy: { idleTimeout: 30_000 },
      moves: [{ wait: 100_000 }],
      at: 130_000,
      timer: "idle"
    },
    {
      rule: "any byte restarts idle",
      policy: { idleTimeout: 30_000 },
      moves: [{ life: true }, { wait: 29_999 }, { wait: 29_999 }],
      at: 89_998,
      timer: "idle"
    },
    {
      rule: "a byte does not restart content",
      policy: { contentTimeout: 40_000, idleTimeout: 30_000 },
      moves: ["a", { wait: 20_000 }, { wait: 15_000 }],
      at: 40_000,
      timer: "content"
    },
    {
      rule: "a delta restarts content",
      policy: { contentTimeout: 40_000 },
      moves: ["a", { wait: 39_999 }, "b"],
      at: 79_999,
      timer: "content"
    },
    {
      rule: "the whole attempt has a limit",
      policy: { attemptTimeout: 50_000, idleTimeout: 30_000 },
      moves: ["a", { wait: 25_000 }, "b"],
      at: 50_000,
      timer: "attempt"
    },
    {
      rule: "progress moves the deadline on, per request",
      policy: { deadline: 100_000, deadlinePer: "request" },
      moves: [{ wait: 90_000 }, "a", { wait: 90_000 }, "b"],
      at: 280_000,
      timer: null
    },
    {
      rule: "comments are no progress",
      policy: { deadline: 100_000, deadlinePer: "request" },
      moves: [{ wait: 90_000 }, { life: true }],
      at: 100_000,
      timer: null
    },
    {
      rule: "progress does not move a turn's deadline",
      policy: { deadline: 100_000 },
      moves: [{ wait: 90_000 }, "a"],
      at: 100_000,
      timer: null
    },
    {
      rule: "nothing moves the hard cap",
      policy: { deadline: 100_000, deadlinePer: "request", hardCap: 150_000 },
      moves: [{ wait: 90_000 }, "a", { wait: 50_000 }, "b"],
      at: 150_000,
      timer: null
    }
  ])("$rule", ({ policy, moves, at, timer }) =>
    Effect.gen(function* () {
      const world = worldOf([{ moves, end: "hang" }], { ...quiet, ...policy })
      const fiber = yield* Effect.forkChild(Effect.exit(Effect.provide(ask(world), world.layer)))
      yield* TestClock.adjust(Duration.millis(at - 1))
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust(Duration.millis(1))
      const exit = yield* Fiber.join(fiber)
      const text = Exit.isFailure(exit) ? String(exit.cause) : ""
      assert.include(text, timer === null ? "RecoveryDeadlineExceeded" : "ModelTimeoutError")
      if (timer !== null) assert.include(JSON.stringify(exit), `"timer":"${timer}"`)
      assert.strictEqual(world.open.count, 0)
    })
  )

  it.effect.each<{
    readonly rule: string
    readonly moves: ReadonlyArray<Move>
    readonly deadline: number
    readonly field: string | null
    readonly silence: string
  }>([
    { rule: "before the headers", moves: [], deadline: 60_000, field: "firstTokenTimeout", silence: "1 min" },
    {
      rule: "in the midst of it",
      moves: ["a", { wait: 20_000 }, "b"],
      deadline: 50_000,
      field: "idleTimeout",
      silence: "30 s"
    },
    {
      rule: "for less than half of the time",
      moves: ["a", { wait: 30_000 }, "b"],
      deadline: 50_000,
      field: null,
      silence: ""
    }
  ])(
    "a deadline that silence used up names the timer that ends such a silence: $rule",
    ({ moves, deadline, field, silence }) =>
      Effect.gen(function* () {
        const world = worldOf([{ moves, end: "hang" }], { ...quiet, deadline })
        const fiber = yield* Effect.forkChild(Effect.exit(Effect.provide(ask(world), world.layer)))
        yield* TestClock.adjust(Duration.millis(deadline))
        const exit = yield* Fiber.join(fiber)
        const failure = Exit.isFailure(exit) ? Option.getOrNull(Cause.findErrorOption(exit.cause)) : null
        assert.isTrue(failure !== null && failure._tag === "RecoveryDeadlineExceeded")
        if (field === null) assert.notInclude(failure?.guidance, "silence")
        else assert.include(failure?.guidance, `${silence} of the time went in silence: a shorter \`${field}\``)
      })
  )

  it.effect("a slow consumer is not the provider's silence", () =>
    Effect.gen(function* () {
      const world = worldOf([{ moves: Array.from({ length: 60 }, (_, at) => `${at},`), end: "stop" }], {
        idleTimeout: 10_000,
        contentTimeout: 10_000,
        firstTokenTimeout: 10_000,
        deadline: 20_000
      })
      const slow = Effect.gen(function* () {
        const recovery = yield* Recovery
        yield* Stream.runForEach(recovery.stream({ messages: [{ role: "user", content: "go" }] }), (part) =>
          Effect.andThen(
            Effect.sleep("9 seconds"),
            Effect.sync(() => world.parts.push(part))
          )
        )
      })
      const fiber = yield* Effect.forkChild(Effect.exit(Effect.provide(slow, world.layer)))
      yield* TestClock.adjust("20 minutes")
      assert.isTrue(Exit.isSuccess(yield* Fiber.join(fiber)))
      assert.strictEqual(world.parts.at(-1)?._tag, "Finish")
      assert.strictEqual(world.requests.length, 1)
    })
  )
})

const RandomMove = Schema.Struct({
  texts: Schema.Array(Schema.Literals(["a", "b", "ab", "é", "🙂"])).check(Schema.isMaxLength(5)),
  end: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 6 }))
})
const ends: ReadonlyArray<Script["end"]> = [
  "stop",
  "stop",
  "length",
  "cut",
  "cut",
  { kind: "overloaded", status: 529 },
  { kind: "rate_limited", status: 429 }
]

describe("for any script of a stream", () => {
  it.effect.prop(
    "the consumer has exactly the final text, once, and interruption leaves nothing open",
    {
      scripts: Schema.Array(RandomMove).check(Schema.isMaxLength(8)),
      onCut: Schema.Literals(["restart", "resume", "splice", "fail"]),
      leaveAt: Schema.Int.check(Schema.isBetween({ minimum: -1, maximum: 12 }))
    },
    ({ scripts, onCut, leaveAt }) =>
      Effect.gen(function* () {
        const used = (at: number): Usage.Usage => ({ ...Usage.unknown, promptTokens: 3, completionTokens: at })
        const steps = scripts.map((raw, at): Script => ({
          moves: [{ usage: used(at) }, ...raw.texts.flatMap((text) => [text, { wait: 100 }])],
          end: ends[raw.end] ?? "stop"
        }))
        const world = worldOf(
          [
            ...steps,
            ...Array.from({ length: 25 }, (_, at): Script => ({
              moves: [{ usage: used(steps.length + at) }, "end"],
              end: "stop"
            }))
          ],
          { onCut }
        )
        const fiber = yield* Effect.forkChild(
          Effect.exit(Effect.provide(Effect.provideService(ask(world), Random.Random, fixedRandom), world.layer))
        )
        if (leaveAt >= 0) {
          yield* TestClock.adjust(Duration.millis(leaveAt * 150))
          yield* Fiber.interrupt(fiber)
          const sent = world.requests.length
          yield* TestClock.adjust("1 hour")
          assert.strictEqual(world.requests.length, sent)
          assert.strictEqual(world.open.count, 0)
          return
        }
        yield* TestClock.adjust("3 hours")
        const exit = yield* Fiber.join(fiber)
        const finishes = world.parts.filter((part) => part._tag === "Finish")
        assert.strictEqual(finishes.length, Exit.isSuccess(exit) ? 1 : 0)
        assert.strictEqual(world.open.count, 0)
        const last = world.parts.at(-1)
        if (last?._tag === "Finish") assert.strictEqual(shown(world.parts), last.reply.text ?? "")
        // What every attempt used is booked once, also that of attempts which broke off.
        assert.deepStrictEqual(
          world.events.flatMap((event) => (event._tag === "UsageSeen" ? [event.usage] : [])),
          world.requests.map((_, at) => used(at))
        )
        assert.strictEqual(world.events.filter((event) => event._tag === "Finished").length, 1)
      }),
    { arbitrary: { runs: runs(5_000) } }
  )
})
