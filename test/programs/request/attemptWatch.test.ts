import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { RecoveryPolicy, type RecoveryPolicyInput } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import { makeReply } from "../../../src/layers/ScriptedModel.ts"
import { makeProgress, underTimers, type Progress } from "../../../src/programs/request/attemptWatch.ts"

/** A clock whose n-th sleep ends so much too late, as in a process that was busy; `onWake` is told the instant. */
const lateClock = (lateness: ReadonlyArray<number>, onWake: (at: number) => void = () => undefined) => {
  let millis = 0
  let slept = 0
  const nanos = (): bigint => BigInt(Math.round(millis * 1e6))
  const clock: Clock.Clock = {
    currentTimeMillisUnsafe: () => millis,
    currentTimeMillis: Effect.sync(() => millis),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: nanos,
    monotonicTimeNanos: Effect.sync(nanos),
    sleep: (duration) =>
      Effect.sync(() => {
        millis += Duration.toMillis(duration) + (lateness[slept] ?? 0)
        slept += 1
        onWake(millis)
      })
  }
  return { clock, now: () => millis }
}

const quiet: Partial<RecoveryPolicyInput> = {
  firstTokenTimeout: null,
  idleTimeout: null,
  contentTimeout: null,
  attemptTimeout: null,
  heartbeat: null
}

interface Watched {
  readonly policy: Partial<RecoveryPolicyInput>
  readonly lateness?: ReadonlyArray<number>
  readonly deadline?: number
  readonly prepared?: (progress: Progress) => void
}

/** Watches an attempt that never ends; at what instant, and how, the watch ended it. */
const watch = ({ policy, lateness = [], deadline, prepared }: Watched) => {
  const { clock, now } = lateClock(lateness)
  const beats: Array<number> = []
  const limits = {
    policy: new RecoveryPolicy({ ...RecoveryPolicy.broad, routes: [{ model: "m" }], ...quiet, ...policy }),
    streaming: true,
    deadline: deadline ?? null,
    hardCap: null
  }
  const progress = makeProgress(0)
  prepared?.(progress)
  const beat = Effect.sync(() => {
    beats.push(now())
  })
  const watched = underTimers(Effect.never, { limits, progress, now, pulse: { lastAt: 0 }, beat })
  return Effect.map(Effect.exit(Effect.provideService(watched, Clock.Clock, clock)), (exit) => {
    const how = Exit.isSuccess(exit) ? exit.value.text : (/"what":"(\w+)"/.exec(JSON.stringify(exit))?.[1] ?? "?")
    return { how, at: now(), beats }
  })
}

const headers = (progress: Progress): void => {
  progress.headersAt = 0
}
const delta = (progress: Progress): void => {
  headers(progress)
  progress.firstDeltaAt = 0
}

describe("a process that could not run", () => {
  it.effect.each<{ readonly timer: string; readonly watched: Watched; readonly at: number }>([
    {
      timer: "firstToken",
      watched: { policy: { firstTokenTimeout: 1_000 }, lateness: [7_000] },
      at: 9_000
    },
    { timer: "idle", watched: { policy: { idleTimeout: 1_000 }, lateness: [7_000], prepared: headers }, at: 9_000 },
    { timer: "content", watched: { policy: { contentTimeout: 1_000 }, lateness: [7_000], prepared: delta }, at: 9_000 },
    {
      timer: "idle",
      watched: { policy: { idleTimeout: 1_000 }, lateness: [7_000, 100], prepared: headers },
      at: 10_100
    }
  ])("was not told of what came meanwhile: $timer begins again, until $at ms", ({ timer, watched, at }) =>
    Effect.gen(function* () {
      const { how, at: found } = yield* watch(watched)
      assert.deepStrictEqual([how, found], [timer, at])
    })
  )

  it.effect("is not assumed for the little that a timer is always late", () =>
    Effect.gen(function* () {
      const { how, at } = yield* watch({ policy: { idleTimeout: 1_000 }, lateness: [99], prepared: headers })
      assert.deepStrictEqual([how, at], ["idle", 1_099])
    })
  )

  it.effect("does not move the end of the attempt, nor a deadline that nothing was shown before", () =>
    Effect.gen(function* () {
      const attempt = yield* watch({ policy: { attemptTimeout: 1_000, idleTimeout: 900 }, lateness: [7_000] })
      assert.deepStrictEqual([attempt.how, attempt.at], ["attempt", 7_900])
      const deadline = yield* watch({ policy: { idleTimeout: 900 }, deadline: 1_000, lateness: [7_000] })
      assert.deepStrictEqual([deadline.how, deadline.at], ["deadline", 7_900])
    })
  )
})

describe("a whole reply whose line stays open", () => {
  const whole = (progress: Progress): void => {
    delta(progress)
    progress.whole = Effect.succeed(makeReply({ text: "whole" }))
  }
  it.effect("is no silence, and is the end when the time is up", () =>
    Effect.gen(function* () {
      const timers = { firstTokenTimeout: 10, idleTimeout: 20, contentTimeout: 30 }
      const attempt = yield* watch({ policy: { ...timers, attemptTimeout: 1_000 }, prepared: whole })
      assert.deepStrictEqual([attempt.how, attempt.at], ["whole", 1_000])
      const deadline = yield* watch({ policy: timers, deadline: 500, prepared: whole })
      assert.deepStrictEqual([deadline.how, deadline.at], ["whole", 500])
    })
  )
})

describe("heartbeats", () => {
  it.effect("come first on the tie, so that silence is never longer than one", () =>
    Effect.gen(function* () {
      const { how, at, beats } = yield* watch({ policy: { heartbeat: 500, attemptTimeout: 1_000 } })
      assert.deepStrictEqual([how, at, beats], ["attempt", 1_000, [500, 1_000]])
    })
  )
})

describe("a blocked consumer", () => {
  it.effect("stops the timers of silence and a deadline per request, not the hard end of the attempt", () =>
    Effect.gen(function* () {
      const blocked = (progress: Progress): void => {
        delta(progress)
        progress.blocked = true
      }
      const timers = { idleTimeout: 20, contentTimeout: 30, attemptTimeout: 5_000 }
      const { how, at } = yield* watch({ policy: timers, deadline: 100, prepared: blocked })
      assert.deepStrictEqual([how, at], ["attempt", 5_000])
      const perTurn = yield* watch({
        policy: { ...timers, deadlinePer: "turn" },
        deadline: 100,
        prepared: blocked
      })
      assert.deepStrictEqual([perTurn.how, perTurn.at], ["deadline", 100])
    })
  )
})
