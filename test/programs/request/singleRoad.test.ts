import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import * as Fiber from "effect/Fiber"
import { RecoveryCancelledError } from "../../../src/domain/failure/RecoveryError.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as ModelSummarizer from "../../../src/layers/ModelSummarizer.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import { recoverOverflow, recoverTransient, recoverTruncation } from "../../../src/programs/request/singleRoad.ts"
import { createRecovery } from "../../../src/promise.ts"

const policy = new RecoveryPolicy({ routes: [{ model: "m" }], compaction: { mode: "once", keepRecentMessages: 1 } })
const request = {
  messages: [
    { role: "user" as const, content: "a" },
    { role: "assistant" as const, content: "b" },
    { role: "user" as const, content: "c" }
  ]
}
const limited: ScriptedModel.Step = { fail: { kind: "rate_limited", status: 429 } }
const tooLong: ScriptedModel.Step = { fail: { kind: "prompt_too_long", status: 400, code: "prompt_too_long" } }
const cut: ScriptedModel.Step = { reply: { text: "half ", finishReason: "length" } }
const whole: ScriptedModel.Step = { reply: { text: "whole" } }

const tag = <A, E extends { readonly _tag: string }>(effect: Effect.Effect<A, E>) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(
      Effect.match(effect, { onFailure: (error) => error._tag, onSuccess: () => "ok" })
    )
    yield* TestClock.adjust("1 hour")
    return yield* Fiber.join(fiber)
  })

describe("one road alone", () => {
  it.effect("transient retries, hands an overflow on and gives a cut reply as it is", () =>
    Effect.gen(function* () {
      const of = (...steps: ReadonlyArray<ScriptedModel.Step>) =>
        recoverTransient(ScriptedModel.make(steps).client, policy)(request)
      assert.strictEqual(yield* tag(of(limited, whole)), "ok")
      assert.strictEqual(yield* tag(of(tooLong)), "ModelPromptTooLongError")
      assert.strictEqual((yield* of(cut)).finishReason, "length")
    })
  )
  it.effect("overflow compacts and hands a rate limit on", () =>
    Effect.gen(function* () {
      const of = (...steps: ReadonlyArray<ScriptedModel.Step>) => {
        const { client } = ScriptedModel.make(steps)
        return recoverOverflow(client, policy, ModelSummarizer.make(client, { model: "m" }))(request)
      }
      assert.strictEqual((yield* of(tooLong, whole, whole)).text, "whole")
      assert.strictEqual(yield* tag(of(limited)), "ModelRateLimitError")
    })
  )
  it.effect("truncation raises and continues, and hands the rest on", () =>
    Effect.gen(function* () {
      const of = (...steps: ReadonlyArray<ScriptedModel.Step>) =>
        recoverTruncation(ScriptedModel.make(steps).client, policy)(request)
      assert.strictEqual((yield* of(cut, cut, whole)).text, "half whole")
      assert.strictEqual(yield* tag(of(limited)), "ModelRateLimitError")
      assert.strictEqual(yield* tag(of(tooLong)), "ModelPromptTooLongError")
    })
  )
})

describe("at the promise edge", () => {
  const create = (...steps: ReadonlyArray<ScriptedModel.Step>) =>
    createRecovery({ policy: { routes: [{ model: "m" }] }, client: ScriptedModel.layer(steps) })

  it("gives replies and rejects with the same typed errors", async () => {
    const recovery = create(whole, { fail: { kind: "auth", status: 401 } })
    assert.strictEqual((await recovery.complete(request)).text, "whole")
    const failure: unknown = await recovery.complete(request).then(
      () => null,
      (cause: unknown) => cause
    )
    assert.propertyVal(failure, "_tag", "ModelAuthenticationError")
    await recovery.close()
  })

  it("rejects with RecoveryCancelledError when the signal aborts, in a call and in a stream", async () => {
    const hang: ScriptedModel.Step = { run: () => Effect.never }
    const recovery = create(hang, hang)
    const controller = new AbortController()
    const call = recovery.complete(request, { signal: controller.signal }).then(
      () => null,
      (cause: unknown) => cause
    )
    const stream = (async () => {
      for await (const _ of recovery.stream(request, { signal: controller.signal })) continue
    })().then(
      () => null,
      (cause: unknown) => cause
    )
    setImmediate(() => controller.abort())
    for (const failure of [await call, await stream]) {
      if (!(failure instanceof RecoveryCancelledError)) throw new Error(`it ended with ${String(failure)}`)
      assert.deepStrictEqual([failure.attempts, failure.model, failure.trail.length], [1, "m", 1])
      assert.strictEqual(failure.trail[0]?.outcome, "interrupted")
    }
    const before: unknown = await recovery.complete(request, { signal: controller.signal }).catch((cause) => cause)
    assert.propertyVal(before, "_tag", "RecoveryCancelledError")
    assert.propertyVal(before, "attempts", 0)
    await recovery.close()
  })

  it("streams parts, tells events, and throws on a bad policy at once", async () => {
    const events: Array<string> = []
    const recovery = createRecovery({
      policy: { routes: [{ model: "m" }] },
      client: ScriptedModel.layer([whole]),
      onEvent: (event) => events.push(event._tag)
    })
    const tags: Array<string> = []
    for await (const part of recovery.stream(request)) tags.push(part._tag)
    assert.deepStrictEqual(
      [tags.at(0), tags.at(-1), events.at(0), events.at(-1)],
      ["TextDelta", "Finish", "Started", "Finished"]
    )
    await recovery.close()
    assert.throws(() => createRecovery({ policy: { routes: [] }, client: ScriptedModel.layer([]) }), "routes")
  })
})
