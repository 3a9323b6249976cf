/** What a server in front of the seam may hear of a request and say to its client meanwhile. */
import { assert, describe, it } from "vitest"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import { addressOf } from "../../../src/domain/wires/native/addresses.ts"
import type { NativeHooks, NativeReceipt } from "../../../src/layers/native/callNative.ts"
import { makeNativeCalls, sendingOver } from "../../../src/layers/native/nativeCalls.ts"
import { toResponse } from "../../../src/layers/native/NativeResponse.ts"
import { providerOf, type Answer } from "../../support/nativeProvider.ts"
import {
  bodyOf,
  errorOf,
  eventTexts,
  pathOf,
  plain,
  requestOf,
  wireNames,
  type WireName
} from "../../support/nativeScripts.ts"

const policy = { ...RecoveryPolicy.broad, backoff: { base: 1, cap: 1, jitter: 0 }, maxAttempts: 2, routeHealth: null }

const hello = plain(["one ", "two"])

const ask = async (wire: WireName, stream: boolean, answers: ReadonlyArray<Answer>, hooks: NativeHooks) => {
  const { fetch } = providerOf(answers)
  const calls = makeNativeCalls(policy, {}, sendingOver(fetch))
  const url = `http://p.test${pathOf[wire]}`
  const address = addressOf(url)
  const body = requestOf(wire, { stream })
  const text = JSON.stringify(body)
  const view = address.wire?.view(body, text)
  if (address.wire === null || view === null || view === undefined) throw new Error("no request of the three APIs")
  const headers = { authorization: "Bearer sk-test-12345678" }
  const incoming = { url, address, wire: address.wire, view, text, headers, init: {}, signal: null }
  return toResponse(await calls.call(incoming, "r-1", hooks))
}

describe.each(wireNames)("a server before %s", (wire) => {
  it("hears once of the end: the reply, the trail, and what all requests have used", async () => {
    const receipts: Array<NativeReceipt> = []
    const answers = [{ status: 503, body: errorOf(wire) }, { body: bodyOf(wire, hello) }]
    await ask(wire, false, answers, { onEnd: (receipt) => receipts.push(receipt) })
    assert.strictEqual(receipts.length, 1)
    assert.deepInclude(receipts[0], { requestId: "r-1", failure: null })
    assert.strictEqual(receipts[0]?.reply?.text, "one two")
    assert.strictEqual(receipts[0]?.trail.length, 2)
    assert.strictEqual(receipts[0]?.billed.promptTokens, 10)
  })

  it("hears of a failure before its client does, and of the end then", async () => {
    const heard: Array<string> = []
    const answers = [1, 2].map(() => ({ status: 503, body: errorOf(wire) }))
    const response = await ask(wire, false, answers, {
      onFailed: ({ _tag }) => heard.push(_tag),
      onEnd: ({ reply, failure }) => heard.push(`end ${String(reply)} ${String(failure?._tag)}`)
    })
    assert.isFalse(response.ok)
    assert.deepStrictEqual(heard, ["RecoveryRetriesExhausted", "end null RecoveryRetriesExhausted"])
  })

  it("hears of a caller who left as of an end without reply and failure", async () => {
    const receipts: Array<NativeReceipt> = []
    const reads = eventTexts(wire, hello)
    const half = reads.slice(0, reads.findIndex((event) => event.includes('"one ')) + 1)
    const response = await ask(wire, true, [{ reads: half, end: "hang" }], {
      onEnd: (receipt) => receipts.push(receipt)
    })
    await response.body?.cancel()
    for (let tries = 0; tries < 200 && receipts.length === 0; tries += 1)
      await new Promise((resolve) => setTimeout(resolve, 5))
    assert.strictEqual(receipts.length, 1)
    assert.deepInclude(receipts[0], { reply: null, failure: null })
  })

  it("puts its comment before the last event, where clients still read, and it says what was needed", async () => {
    const answers: ReadonlyArray<Answer> = [{ status: 503, body: errorOf(wire) }, { reads: eventTexts(wire, hello) }]
    const response = await ask(wire, true, answers, { closing: (trail) => `requests ${trail.length}` })
    const text = await response.text()
    const last = eventTexts(wire, hello).at(-1) ?? ""
    assert.isTrue(text.endsWith(`: requests 2\n\n${last}`), text)
    assert.strictEqual(text.replace(": requests 2\n\n", ""), eventTexts(wire, hello).join(""))
  })

  it("shows a waiting client that its stream lives, and the answer follows", async () => {
    const events = eventTexts(wire, hello)
    const { fetch } = providerOf([{ reads: events }])
    const late = async (...given: Parameters<typeof fetch>): Promise<Response> => {
      await new Promise((resolve) => setTimeout(resolve, 150))
      return fetch(...given)
    }
    const calls = makeNativeCalls(policy, {}, sendingOver(late))
    const url = `http://p.test${pathOf[wire]}`
    const address = addressOf(url)
    const body = requestOf(wire, { stream: true })
    const text = JSON.stringify(body)
    const view = address.wire?.view(body, text)
    if (address.wire === null || view === null || view === undefined) throw new Error("no request of the three APIs")
    const incoming = { url, address, wire: address.wire, view, text, headers: {}, init: {}, signal: null }
    const response = toResponse(await calls.call(incoming, "r-2", { keepAlive: { afterMillis: 40 } }))
    const got = await response.text()
    const sign = address.wire.keepAlive
    assert.isTrue(got.startsWith(sign + sign), got.slice(0, 200))
    assert.strictEqual(got.replaceAll(sign, ""), events.join("").replaceAll(sign, ""))
  })

  it("says nothing to a client that waits for a body", async () => {
    const response = await ask(wire, false, [{ body: bodyOf(wire, hello) }], { keepAlive: { afterMillis: 1 } })
    assert.deepStrictEqual(await response.json(), bodyOf(wire, hello))
  })
})
