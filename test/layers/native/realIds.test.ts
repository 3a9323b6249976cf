/** What a client asks of an answer that was repaired is asked of the one that the provider has. */
import Anthropic from "@anthropic-ai/sdk"
import OpenAI from "openai"
import { assert, describe, it } from "vitest"
import { holdfast, RecoveryPolicy, type NativePolicyInput } from "../../../src/fetch.ts"
import { providerOf, type Answer } from "../../support/nativeProvider.ts"
import { bodyOf, eventTexts, plain, type WireName } from "../../support/nativeScripts.ts"

const policy: NativePolicyInput = {
  ...RecoveryPolicy.broad,
  backoff: { base: 1, cap: 1, jitter: 0 },
  routeHealth: null
}

const cut = (wire: WireName, id: string): Answer => {
  const events = eventTexts(wire, plain(["one ", "two ", "three"], id))
  return { reads: events.slice(0, events.findIndex((event) => event.includes('"two ')) + 1), end: "reset" }
}

const whole = (wire: WireName, id: string): Answer => ({
  reads: eventTexts(wire, plain(["one ", "two ", "three"], id))
})

describe("an answer that was repaired", () => {
  it("goes on under the provider's own id, whatever the client does with the one it knows", async () => {
    const { fetch, asked } = providerOf([
      cut("responses", "first"),
      whole("responses", "second"),
      { body: bodyOf("responses", plain(["fine"], "third")) },
      { body: bodyOf("responses", plain(["one two three"], "second")) }
    ])
    const client = holdfast(
      new OpenAI({ apiKey: "sk-test-12345678", baseURL: "http://p.test/v1", fetch: fetch as never }),
      policy
    )
    const answer = await client.responses.stream({ model: "m", input: "go", store: false }).finalResponse()
    assert.strictEqual(answer.id, "resp_first")
    assert.strictEqual(answer.output_text, "one two three")
    await client.responses.create({ model: "m", input: '"resp_first"', previous_response_id: answer.id })
    const sent = JSON.parse(asked[2]?.text ?? "{}") as { previous_response_id?: string; input?: string }
    assert.strictEqual(sent.previous_response_id, "resp_second")
    assert.strictEqual(sent.input, '"resp_first"')
    await client.responses.retrieve(answer.id)
    assert.strictEqual(asked[3]?.url, "http://p.test/v1/responses/resp_second")
  })

  it("goes on in its thread under the provider's own id", async () => {
    const { fetch, asked } = providerOf([
      cut("messages", "mfirst"),
      whole("messages", "msecond"),
      { body: bodyOf("messages", plain(["fine"], "mthird")) }
    ])
    const client = holdfast(
      new Anthropic({ apiKey: "sk-test-12345678", baseURL: "http://p.test", fetch: fetch as never }),
      policy
    )
    const ask = { model: "m", max_tokens: 9, messages: [{ role: "user" as const, content: "go" }] }
    const answer = await client.messages.stream(ask).finalMessage()
    assert.strictEqual(answer.id, "msg_mfirst")
    const thread = { type: "continue", previous_message_id: answer.id }
    await client.messages.create({ ...ask, thread } as typeof ask)
    const sent = JSON.parse(asked[2]?.text ?? "{}") as { thread?: unknown }
    assert.deepStrictEqual(sent.thread, { type: "continue", previous_message_id: "msg_msecond" })
  })

  it("keeps its own id when nothing had been shown of it", async () => {
    const { fetch, asked } = providerOf([
      { reads: eventTexts("responses", plain(["never"], "unseen")).slice(0, 3), end: "reset" },
      whole("responses", "seen"),
      { body: bodyOf("responses", plain(["fine"], "last")) }
    ])
    const client = holdfast(
      new OpenAI({ apiKey: "sk-test-12345678", baseURL: "http://p.test/v1", fetch: fetch as never }),
      policy
    )
    const answer = await client.responses.stream({ model: "m", input: "go", store: false }).finalResponse()
    assert.strictEqual(answer.id, "resp_seen")
    await client.responses.create({ model: "m", input: "x", previous_response_id: answer.id })
    assert.include(asked[2]?.text ?? "", '"previous_response_id":"resp_seen"')
  })
})
