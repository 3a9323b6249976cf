import { assert, describe, it } from "@effect/vitest"
import * as Usage from "../../../src/domain/chat/Usage.ts"
import { makeModelError, type ModelError } from "../../../src/domain/failure/ModelError.ts"
import { makeReply } from "../../../src/layers/ScriptedModel.ts"
import { TimeUp } from "../../../src/programs/request/attemptWatch.ts"
import {
  billOf,
  endAttributes,
  makeMeter,
  outcomeOf,
  usageOf,
  type Ending,
  type Sent
} from "../../../src/programs/request/httpRequest.ts"

const counts: Usage.Usage = { ...Usage.unknown, promptTokens: 3, completionTokens: 4 }
const failed = (error: ModelError | TimeUp): Ending => ({ reply: null, error })
const replied = (usage = counts): Ending => ({ reply: makeReply({ text: "x", usage }), error: null })
const overloaded = makeModelError({ kind: "overloaded", status: 529 })
const inBand = makeModelError({ kind: "overloaded", status: 200, code: "in_band" })
const broken = (usage?: Usage.Usage): ModelError =>
  makeModelError({ kind: "interrupted", status: null, ...(usage === undefined ? {} : { usage }) })
const interrupted: Ending = { reply: null, error: null }
const meter = (began: boolean, usage = Usage.unknown) => ({ ...makeMeter(), began, usage })

const billed = (ending: Ending, began = false, seen = Usage.unknown) =>
  billOf(meter(began, seen), usageOf(meter(began, seen), ending), ending)

describe("the bill of a request", () => {
  it("is final with the usage of a whole reply, and unknown without it", () => {
    assert.strictEqual(billed(replied()), "final")
    assert.strictEqual(billed(replied(Usage.unknown)), "unknown")
  })

  it("is nothing where the provider refused, and no 200 had begun", () => {
    assert.strictEqual(billed(failed(overloaded)), "nothing")
    assert.strictEqual(billed(failed(overloaded), true), "unknown")
    assert.strictEqual(billed(failed(inBand)), "unknown")
  })

  it("is unknown for a stream that broke off, unless its end told what it used", () => {
    assert.strictEqual(billed(failed(broken())), "unknown")
    assert.strictEqual(billed(failed(broken(counts))), "final")
    assert.strictEqual(billed(failed(broken()), true, counts), "unknown")
  })

  it("is unknown when nobody knows the end", () => {
    assert.strictEqual(billed(interrupted), "unknown")
    assert.strictEqual(billed(failed(new TimeUp("deadline"))), "unknown")
  })
})

describe("the end of a request", () => {
  it("is named by what it was", () => {
    assert.deepStrictEqual(
      [replied(), interrupted, failed(new TimeUp("deadline")), failed(overloaded)].map(outcomeOf),
      ["ok", "interrupted", "deadline", "overloaded"]
    )
  })

  it("knows more of its usage than what came on the way", () => {
    const late = { ...Usage.unknown, completionTokens: 9 }
    assert.deepStrictEqual(usageOf(meter(true, counts), replied(late)), { ...counts, completionTokens: 9 })
    assert.deepStrictEqual(usageOf(meter(true, counts), interrupted), counts)
    assert.deepStrictEqual(usageOf(meter(true, counts), failed(broken(late))), { ...counts, completionTokens: 9 })
  })

  it("tells a span status, code, the provider's id and the cost, and never a text", () => {
    const sent: Sent = {
      role: "main",
      attempt: 1,
      model: "m",
      client: null,
      provider: "p",
      prices: { inputPerM: 1_000_000, outputPerM: 2_000_000 },
      maxOutputTokens: 8,
      longestReply: 8,
      promptTokens: 3
    }
    const error = makeModelError({
      kind: "overloaded",
      status: 529,
      code: "busy",
      providerRequestId: "theirs",
      providerMessage: "WORDS"
    })
    const attributes = endAttributes(sent, meter(false), failed(error), "overloaded")
    assert.deepInclude(attributes, {
      "error.type": "overloaded",
      "http.response.status_code": 529,
      "holdfast.error.code": "busy",
      "holdfast.provider_request_id": "theirs",
      "holdfast.cost_usd": 0
    })
    assert.notInclude(JSON.stringify(attributes), "WORDS")
    const ended = endAttributes(sent, meter(true), replied(), null)
    assert.strictEqual(ended["holdfast.cost_usd"], 3 + 8)
    assert.notProperty(ended, "error.type")
    assert.strictEqual(
      endAttributes(sent, meter(true), failed(new TimeUp("deadline")), "other")["error.type"],
      "deadline"
    )
  })
})
