import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { RecoveryCancelledError } from "../../src/domain/failure/RecoveryError.ts"
import * as ScriptedModel from "../../src/layers/ScriptedModel.ts"
import { CancellationToken, createExecutor } from "../../src/promise.ts"

describe("a cancellation token", () => {
  it("fires once, however often it is cancelled, with the first reason", () => {
    const token = new CancellationToken()
    const heard: Array<unknown> = []
    token.subscribe((reason) => heard.push(reason))
    token.cancel("first")
    token.cancel("second")
    assert.deepStrictEqual([heard, token.reason, token.isCancelled], [["first"], "first", true])
  })
  it("runs who subscribes after it at once", () => {
    const token = new CancellationToken()
    token.cancel("why")
    const heard: Array<unknown> = []
    token.subscribe((reason) => heard.push(reason))()
    assert.deepStrictEqual(heard, ["why"])
  })
  it("refuses a subscriber that is no function", () => {
    for (const bad of [null, undefined, "text", {}])
      assert.throws(() => new CancellationToken().subscribe(bad as never), /is no function/)
  })
  it("tells nobody who has unsubscribed, also one of two subscriptions of one function", () => {
    const token = new CancellationToken()
    let heard = 0
    const listen = (): void => void (heard += 1)
    const off = token.subscribe(listen)
    token.subscribe(listen)
    off()
    off()
    token.cancel()
    off()
    assert.strictEqual(heard, 1)
  })
  it("tells everybody, whatever a listener throws or adds", () => {
    const token = new CancellationToken()
    const heard: Array<string> = []
    token.subscribe(() => {
      throw new Error("mine")
    })
    token.subscribe(() => {
      heard.push("outer")
      token.subscribe(() => heard.push("inner"))
    })
    token.subscribe(async () => {
      throw new Error("later")
    })
    token.subscribe(() => heard.push("last"))
    token.cancel()
    assert.deepStrictEqual(heard, ["outer", "inner", "last"])
  })
  it("follows the signal it was made of", () => {
    const controller = new AbortController()
    const token = new CancellationToken(controller.signal)
    assert.isFalse(token.isCancelled)
    controller.abort("outside")
    assert.strictEqual(token.reason, "outside")
    assert.isTrue(new CancellationToken(AbortSignal.abort("before")).isCancelled)
    token.cancel("late")
    assert.strictEqual(token.reason, "outside")
  })
  it("does not cancel the signal it was made of", () => {
    const controller = new AbortController()
    new CancellationToken(controller.signal).cancel()
    assert.isFalse(controller.signal.aborted)
  })
})

describe("an executor", () => {
  const request = { messages: [{ role: "user" as const, content: "go" }] }
  const make = (steps: ReadonlyArray<ScriptedModel.Step>, more: object = {}) => {
    const scripted = ScriptedModel.make(steps)
    const executor = createExecutor({
      policy: { backoff: { base: 1, cap: 1 }, routes: [{ model: "large" }, { model: "small" }], ...more },
      client: scripted.client,
      health: "own"
    })
    return { executor, models: () => scripted.requests.map((one) => one.model) }
  }
  const overload: ScriptedModel.Step = { fail: { kind: "overloaded", status: 529 } }
  const whole: ScriptedModel.Step = { reply: { text: "whole" } }

  it("stays on a fallback within a turn, and begins the next one with the primary", async () => {
    const { executor, models } = make([overload, overload, overload, whole, whole, whole])
    executor.beginTurn()
    await executor.complete(request)
    await executor.complete(request)
    executor.beginTurn()
    await executor.complete(request)
    assert.deepStrictEqual(models(), ["large", "large", "large", "small", "small", "large"])
    await executor.close()
  })
  it("gives the calls of one turn, for turns that run side by side", async () => {
    const { executor, models } = make([overload, overload, overload, whole, whole, whole])
    const first = executor.beginTurn()
    await first.complete(request)
    const second = executor.beginTurn()
    await second.complete(request)
    await first.complete(request)
    assert.deepStrictEqual(models().slice(3), ["small", "large", "small"])
    await executor.close()
  })
  it("ends a request by the token's signal", async () => {
    const token = new CancellationToken()
    const { executor } = make([
      {
        run: () =>
          Effect.andThen(
            Effect.sync(() => token.cancel("enough")),
            Effect.never
          )
      }
    ])
    const failure = await executor.complete(request, { signal: token.signal }).catch((error: unknown) => error)
    assert.instanceOf(failure, RecoveryCancelledError)
    assert.strictEqual(failure.cause, "enough")
    await executor.close()
  })
  it("streams in the turn, too", async () => {
    const { executor } = make([whole])
    executor.beginTurn()
    const tags: Array<string> = []
    for await (const part of executor.stream(request)) tags.push(part._tag)
    assert.strictEqual(tags.at(-1), "Finish")
    await executor.close()
  })
})
