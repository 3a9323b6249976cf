import { afterEach, assert, beforeEach, describe, it, vi } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import { makeReply } from "../../../src/layers/ScriptedModel.ts"
import { makeProgress, underTimers } from "../../../src/programs/request/attemptWatch.ts"

/** An attempt of at most a second, on the process's own clock, with a heartbeat every 400 ms. */
const second = (attempt: Effect.Effect<ReturnType<typeof makeReply>>, beat: Effect.Effect<void> | null = null) => {
  const policy = new RecoveryPolicy({
    ...RecoveryPolicy.broad,
    routes: [{ model: "m" }],
    attemptTimeout: 1_000,
    heartbeat: 400
  })
  const limits = { policy, streaming: false, deadline: null, hardCap: null }
  const now = (): number => performance.now()
  const at = now()
  return underTimers(attempt, { limits, progress: makeProgress(at), now, pulse: { lastAt: at }, beat })
}

describe("an attempt on the process's own clock", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] })
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  it("leaves no timer behind when it ends first, and sets none when it ends at once", () => {
    const reply = makeReply({ text: "whole" })
    assert.isTrue(Exit.isSuccess(Effect.runSyncExit(second(Effect.succeed(reply)))))
    assert.strictEqual(vi.getTimerCount(), 0)
    let end: (ending: Effect.Effect<typeof reply>) => void = () => undefined
    const running = Effect.runFork(
      second(
        Effect.callback((resume) => {
          end = resume
        })
      )
    )
    assert.strictEqual(vi.getTimerCount(), 1)
    end(Effect.succeed(reply))
    assert.deepStrictEqual([running.pollUnsafe()?._tag, vi.getTimerCount()], ["Success", 0])
  })

  it("is ended to the millisecond, with its heartbeats before, and is waited for", () => {
    const told: Array<string> = []
    const note = (what: string) => Effect.sync(() => void told.push(what))
    const running = Effect.runFork(
      second(
        Effect.onExit(Effect.never, () => note("closed")),
        note("beat")
      )
    )
    vi.advanceTimersByTime(999)
    assert.deepStrictEqual([running.pollUnsafe(), told], [undefined, ["beat", "beat"]])
    vi.advanceTimersByTime(1)
    assert.deepStrictEqual([running.pollUnsafe()?._tag, told], ["Failure", ["beat", "beat", "closed"]])
    assert.strictEqual(vi.getTimerCount(), 0)
  })

  it("that is taken back leaves neither a timer nor a heartbeat that nobody takes", () => {
    let closed = 0
    const close = Effect.sync(() => {
      closed += 1
    })
    const hang = Effect.onExit(Effect.never, () => close)
    const running = Effect.runFork(second(hang, hang))
    vi.advanceTimersByTime(500)
    Effect.runFork(Fiber.interrupt(running))
    assert.deepStrictEqual([running.pollUnsafe()?._tag, closed, vi.getTimerCount()], ["Failure", 2, 0])
  })
})
