import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import type { Message } from "../../../src/domain/chat/Message.ts"
import { makeModelError } from "../../../src/domain/failure/ModelError.ts"
import { nothingSeen } from "../../../src/domain/recovery/Outcome.ts"
import { planOf } from "../../../src/domain/recovery/AttemptPlan.ts"
import { RecoveryPolicy, routeAt } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import { initial } from "../../../src/domain/recovery/RecoveryState.ts"
import { makeReply } from "../../../src/layers/ScriptedModel.ts"
import { makeExchange, type ExchangeOptions } from "../../../src/programs/request/exchange.ts"

const policy = new RecoveryPolicy({ ...RecoveryPolicy.broad, routes: [{ model: "m" }], seamRepair: 20 })
const messages: ReadonlyArray<Message> = [{ role: "user", content: "go" }]
const route = routeAt(policy, 0)
const start = { now: 0, deadline: null, route: 0, callerCap: null, streaming: false, background: false }
const plan = planOf(policy, initial(policy, start), 3, null)

const exchangeOf = (options: Partial<ExchangeOptions> = {}) =>
  makeExchange({
    policy,
    request: { messages },
    requestId: "r",
    role: "main",
    estimate: (all) => all.length * 10,
    summarizer: { summarize: () => assert.fail("nothing is summarised here") },
    transcript: null,
    ...options
  })

describe("the window of a request", () => {
  it("is measured once as long as it stays the same", () => {
    let calls = 0
    const exchange = exchangeOf({ estimate: (all) => ((calls += 1), all.length * 10) })
    assert.deepStrictEqual([exchange.promptTokens(route), exchange.promptTokens(route), calls], [10, 10, 1])
    exchange.keepShown("half")
    assert.deepStrictEqual([exchange.promptTokens(route), exchange.promptTokens(route), calls], [30, 30, 2])
  })

  it("says once that an estimate failed, and goes on with the built-in one", () => {
    const exchange = exchangeOf({
      estimate: () => {
        throw new Error("no")
      }
    })
    assert.isAbove(exchange.promptTokens(route), 0)
    exchange.keepShown("half")
    exchange.promptTokens(route)
    const { warnings } = exchange.merge(makeReply({ text: "more" }))
    assert.strictEqual(warnings.filter((warning) => warning.includes("estimate")).length, 1)
  })

  it("joins its fragments and the last reply, without what a continuation repeats, and says so", () => {
    const exchange = exchangeOf()
    exchange.keep("one two three")
    const whole = exchange.merge(makeReply({ text: "two three four" }))
    assert.strictEqual(whole.text, "one two three four")
    assert.deepStrictEqual(whole.warnings, ["9 repeated characters were dropped where a continuation began."])
  })

  it("keeps as it is what a consumer has seen", () => {
    const exchange = exchangeOf()
    exchange.keepShown("one two three")
    exchange.keepShown("two three four")
    assert.strictEqual(exchange.partial(null), "one two threetwo three four")
  })

  it("changes nothing of a whole reply, and joins nothing to a refusal", () => {
    const reply = makeReply({ text: "all" })
    assert.strictEqual(exchangeOf().merge(reply), reply)
    const exchange = exchangeOf()
    exchange.keep("half")
    assert.isNull(exchange.merge({ ...makeReply({ text: null }), refusal: "no" }).text)
    assert.strictEqual(exchange.merge(makeReply({ text: null })).text, "half")
  })

  it("has a partial text once there is some", () => {
    const exchange = exchangeOf()
    assert.deepStrictEqual([exchange.partial(null), exchange.partial(""), exchange.partial("x")], [null, null, "x"])
    exchange.keep("a")
    assert.deepStrictEqual([exchange.partial(null), exchange.partial("b")], ["a", "ab"])
  })

  it("goes on in another process where it stood, without the caller's messages in what is kept", () => {
    const exchange = exchangeOf()
    exchange.keep("one two three")
    exchange.keep("two three four")
    const kept = exchange.snapshot()
    assert.deepStrictEqual([kept.base, kept.fragments.length, kept.notes.length], [null, 2, 1])
    const again = exchangeOf()
    again.restore(kept)
    assert.strictEqual(again.partial(null), "one two three four")
    assert.deepStrictEqual(again.window().base, messages)
    assert.strictEqual(again.merge(makeReply({ text: "." })).warnings.length, 1)
    const shorter: ReadonlyArray<Message> = [{ role: "user", content: "summary" }]
    again.restore({ ...kept, base: shorter })
    assert.deepStrictEqual([again.window().base, again.snapshot().base], [shorter, shorter])
  })

  it("names each attempt to the provider where the request is kept, and only there", () => {
    assert.notProperty(exchangeOf().wire(plan), "idempotencyKey")
    const wire = exchangeOf().wire(plan)
    assert.deepStrictEqual([wire.model, wire.role, wire.maxOutputTokens], ["m", "main", plan.maxOutputTokens])
  })

  it("takes a length stop for an outcome, or for a value where the caller asked for the cap", () => {
    const cut = Result.succeed(makeReply({ text: "half", finishReason: "length" }))
    assert.strictEqual(exchangeOf().classify(cut, plan, 5, nothingSeen)._tag, "Truncated")
    assert.strictEqual(exchangeOf({ passTruncated: true }).classify(cut, plan, 5, nothingSeen)._tag, "Completed")
    const failed = Result.fail(makeModelError({ kind: "overloaded", status: 529 }))
    assert.strictEqual(exchangeOf().classify(failed, plan, 5, nothingSeen)._tag, "Faulted")
  })
})
