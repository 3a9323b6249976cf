/**
 * Requests, replies and streams made from the SDKs' own types and from fields that none of them knows: what needs no repair
 * goes through byte for byte, in both directions; behind a fault before the first output the second answer does.
 */
import { assert, describe, it } from "vitest"
import { recoveredFetch, RecoveryPolicy, type NativePolicyInput } from "../../../src/fetch.ts"
import { chance, readsOf, type Chance } from "../../support/chance.ts"
import { providerOf, type Answer } from "../../support/nativeProvider.ts"
import { errorEventOf, errorOf, pathOf, wireNames, type WireName } from "../../support/nativeScripts.ts"
import { beginnings, halfBody, replyText, requestText, streamText } from "../../support/nativeValues.ts"
import { isWhole, runs } from "../../support/runs.ts"

const policy: NativePolicyInput = {
  ...RecoveryPolicy.broad,
  backoff: { base: 1, cap: 1, jitter: 0 },
  routeHealth: null
}

/** Three hundred of each on demand. */
const count = Math.ceil(runs(300) / (isWhole ? 1 : 6))
const encoder = new TextEncoder()

const answerOf = (random: Chance, text: string, stream: boolean): Answer => {
  const headers = { "x-of-the-provider": "kept", "x-request-id": "req_1" }
  return stream ? { reads: readsOf(random, encoder.encode(text)), headers } : { body: text, headers }
}

/** A first answer that fails before it has shown anything. */
const faults: { readonly [name: string]: (wire: WireName, stream: boolean) => Answer } = {
  "a refusal": (wire) => ({ status: 503, body: errorOf(wire) }),
  "a limit": () => ({ status: 429, headers: { "retry-after-ms": "1" }, body: { error: { message: "slow" } } }),
  "no answer": () => ({ network: "reset" }),
  "a cut": (wire, stream) => ({ reads: stream ? beginnings[wire] : [halfBody(wire)], end: "reset" }),
  "an end": (wire, stream) => ({ reads: stream ? beginnings[wire] : [halfBody(wire)] }),
  "an error in its midst": (wire, stream) =>
    stream ? { reads: [...beginnings[wire], errorEventOf(wire)] } : { body: errorOf(wire) }
}

const play = async (wire: WireName, seed: number, stream: boolean, fault: string | null): Promise<void> => {
  const random = chance(seed)
  const request = requestText(wire, stream, random, fault === null)
  const reply = stream ? streamText(wire, random) : replyText(wire, random)
  const first = fault === null ? [] : [faults[fault]!(wire, stream)]
  const { fetch, asked } = providerOf([...first, answerOf(random, reply, stream)])
  const recovered = recoveredFetch(policy, { fetch, truncation: "never" })
  const response = await recovered(`http://p.test${pathOf[wire]}?x=1`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer sk-x", "x-of-the-caller": "kept" },
    body: request
  })
  const told = `${wire} seed ${seed} ${String(fault)}`
  const text = await response.text().catch((cause: unknown) => `no text: ${String(cause)}`)
  assert.strictEqual(text, reply, `${told}\n${request}`)
  assert.strictEqual(response.headers.get("x-of-the-provider"), "kept", told)
  assert.strictEqual(asked.length, first.length + 1, told)
  for (const one of asked) {
    assert.strictEqual(one.text, request, told)
    assert.strictEqual(one.headers.get("x-of-the-caller"), "kept", told)
    assert.strictEqual(one.url, `http://p.test${pathOf[wire]}?x=1`, told)
  }
}

describe.each(wireNames)("%s", (wire) => {
  it("passes a request and its reply byte for byte", async () => {
    for (let seed = 1; seed <= count; seed += 1) await play(wire, seed, false, null)
  })

  it("passes a request and its stream byte for byte", async () => {
    for (let seed = 1; seed <= count; seed += 1) await play(wire, seed, true, null)
  })

  it.each(Object.keys(faults))("passes the second answer byte for byte behind %s", async (fault) => {
    for (let seed = 1; seed <= count; seed += 1) await play(wire, seed, seed % 2 === 0, fault)
  })
})
