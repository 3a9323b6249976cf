import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import type { ModelRequest } from "../../../src/domain/chat/ModelRequest.ts"
import { guarded, local } from "../../../src/domain/chat/TokenEstimate.ts"
import * as Usage from "../../../src/domain/chat/Usage.ts"
import type { RecoveryEvent } from "../../../src/domain/recovery/RecoveryEvent.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as RecoveryLive from "../../../src/layers/RecoveryLive.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import * as EventsMemory from "../../../src/layers/stores/EventsMemory.ts"
import { ModelClient } from "../../../src/services/ModelClient.ts"
import { TokenEstimate } from "../../../src/services/Overrides.ts"
import { Recovery } from "../../../src/services/Recovery.ts"
import { Summarizer } from "../../../src/services/Summarizer.ts"
import { Transcript } from "../../../src/services/Transcript.ts"

const long: ModelRequest = {
  messages: ["first", "second", "third", "fourth", "fifth", "sixth"].map((content, at) =>
    at % 2 === 0 ? { role: "user", content } : { role: "assistant", content }
  )
}
const overflow: ScriptedModel.Step = { fail: { kind: "prompt_too_long", status: 400 } }
const fine: ScriptedModel.Step = { reply: { text: "fine" } }
const summary = { text: "short", usage: Usage.unknown }

interface Guests {
  readonly emit?: (event: RecoveryEvent) => Effect.Effect<void>
  readonly record?: Effect.Effect<void>
  readonly summarize?: (typeof Summarizer)["Service"]["summarize"]
}

/** One request that overflows once, with guests of all kinds; how it ended, and when (milliseconds). */
const play = (guests: Guests, steps: ReadonlyArray<ScriptedModel.Step> = [overflow, fine]) =>
  Effect.gen(function* () {
    const base = RecoveryLive.layer(
      new RecoveryPolicy({
        ...RecoveryPolicy.broad,
        routeHealth: null,
        deadline: "60 seconds",
        routes: [{ model: "m" }]
      })
    ).pipe(
      Layer.provide(Layer.succeed(ModelClient, ScriptedModel.make(steps).client)),
      Layer.provide(
        Layer.succeed(Summarizer, Summarizer.of({ summarize: guests.summarize ?? (() => Effect.succeed(summary)) }))
      )
    )
    const heard = guests.emit === undefined ? base : base.pipe(Layer.provide(EventsMemory.layerTo(guests.emit)))
    const layer =
      guests.record === undefined
        ? heard
        : heard.pipe(
            Layer.provide(Layer.succeed(Transcript, Transcript.of({ record: () => guests.record ?? Effect.void })))
          )
    return yield* Effect.flatMap(Recovery, (recovery) => recovery.complete(long)).pipe(Effect.provide(layer))
  })

/** Lets so much time go by and tells how the call ended; null = it has not. */
const after = <A, E, R>(call: Effect.Effect<A, E, R>, millis: number) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(call, { startImmediately: true })
    yield* TestClock.adjust(millis)
    const exit = fiber.pollUnsafe()
    yield* Fiber.interrupt(fiber)
    return exit ?? null
  })

const textOf = (exit: Exit.Exit<{ readonly text: string | null }, unknown> | null): string | null =>
  exit !== null && Exit.isSuccess(exit) ? exit.value.text : null

const misdeeds: ReadonlyArray<readonly [string, Effect.Effect<never>]> = [
  ["dies", Effect.die(new Error("a bug"))],
  [
    "throws",
    Effect.sync(() => {
      throw new TypeError("a bug")
    })
  ],
  ["interrupts itself", Effect.interrupt]
]

describe("a listener", () => {
  it.effect.each(misdeeds)("that %s does not touch the request", ([, misdeed]) =>
    Effect.map(after(play({ emit: () => misdeed }), 0), (exit) => assert.strictEqual(textOf(exit), "fine"))
  )

  it.effect("that hangs is given up after five seconds and gets nothing more", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const emit = (event: RecoveryEvent) =>
        Effect.andThen(
          Effect.sync(() => seen.push(event._tag)),
          Effect.never
        )
      const fiber = yield* Effect.forkChild(play({ emit }), { startImmediately: true })
      yield* TestClock.adjust(4_999)
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust(1)
      assert.strictEqual(textOf(fiber.pollUnsafe() ?? null), "fine")
      assert.deepStrictEqual(seen, ["Started"])
    })
  )

  it.effect("that is slow is waited for and gets every event in order", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const emit = (event: RecoveryEvent) =>
        Effect.andThen(
          Effect.sleep(1_000),
          Effect.sync(() => seen.push(event._tag))
        )
      assert.strictEqual(textOf(yield* after(play({ emit }, [fine]), 10_000)), "fine")
      assert.deepStrictEqual(
        seen.filter((tag) => tag !== "UsageSeen"),
        ["Started", "AttemptStarted", "Transitioned", "Finished"]
      )
    })
  )

  it.effect("that hangs does not keep a request that is taken back", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(play({ emit: () => Effect.never }), { startImmediately: true })
      const ending = yield* Effect.forkChild(Fiber.interrupt(fiber), { startImmediately: true })
      yield* TestClock.adjust(5_000)
      assert.isDefined(ending.pollUnsafe())
    })
  )
})

describe("a transcript", () => {
  it.effect.each(misdeeds)("that %s does not touch the request", ([, misdeed]) =>
    Effect.map(after(play({ record: misdeed }), 0), (exit) => assert.strictEqual(textOf(exit), "fine"))
  )

  it.effect("that hangs is given up after half a minute", () =>
    Effect.gen(function* () {
      assert.isNull(yield* after(play({ record: Effect.never }), 29_999))
      assert.strictEqual(textOf(yield* after(play({ record: Effect.never }), 30_000)), "fine")
    })
  )
})

describe("a summarizer", () => {
  it.effect.each(misdeeds)("that %s ends the request with a type and its cause", ([how, misdeed]) =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(play({ summarize: () => misdeed }))
      assert.isTrue(error._tag === "PromptTooLongRetryError" && error.reason === "SummaryFailed")
      assert.isTrue(error._tag === "PromptTooLongRetryError" && error.code === "summarizer_broke")
      const cause =
        error._tag === "PromptTooLongRetryError" ? String(JSON.stringify(error.cause) + String(error.cause)) : ""
      assert.notInclude(cause, "undefined", how)
    })
  )

  it.effect("that hangs ends with the deadline, and the failure tells what the time went into", () =>
    Effect.gen(function* () {
      const call = Effect.flip(play({ summarize: () => Effect.never }))
      assert.isNull(yield* after(call, 59_999))
      const exit = yield* after(call, 60_000)
      const error = exit !== null && Exit.isSuccess(exit) ? exit.value : null
      assert.isTrue(error !== null && error._tag === "RecoveryDeadlineExceeded" && error.code === "summary_unfinished")
    })
  )
})

describe("an estimate", () => {
  const bug = (): number => {
    throw new TypeError("a bug")
  }

  it.effect.each<readonly [string, () => number]>([
    ["throws", bug],
    ["gives NaN", () => Number.NaN],
    ["gives infinity", () => Number.POSITIVE_INFINITY]
  ])("that %s is replaced, and the reply says so", ([, estimate]) =>
    Effect.gen(function* () {
      const reply = yield* Effect.provideService(play({}, [fine]), TokenEstimate, estimate)
      assert.strictEqual(reply.warnings.filter((warning) => warning.includes("estimate")).length, 1)
    })
  )

  it("that gives a fraction or less than nothing is rounded to a count", () => {
    assert.deepStrictEqual(
      [guarded(() => 1.2)([], []), guarded(() => -5)([], []), guarded(bug)(long.messages, [])],
      [2, 0, local(long.messages, [])]
    )
  })
})
