/** What the SDKs' own examples do, unchanged but for the line that wraps the client. */
import Anthropic, {
  APIUserAbortError as AnthropicAbort,
  InternalServerError as AnthropicServerError
} from "@anthropic-ai/sdk"
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema"
import OpenAI, {
  APIConnectionTimeoutError,
  APIUserAbortError,
  AzureOpenAI,
  InternalServerError,
  RateLimitError
} from "openai"
import { sumFormat } from "../../support/sdkFormats.ts"
import { assert, describe, it } from "@effect/vitest"
import { failureOf, holdfast, RecoveryPolicy } from "../../../src/fetch.ts"
import type { HoldfastOptions } from "../../../src/layers/native/holdfast.ts"
import type { NativePolicyInput } from "../../../src/layers/native/recoveredFetch.ts"
import { providerOf, type Answer, type Asked } from "../../support/nativeProvider.ts"
import { bodyOf, errorOf, eventTexts, plain, type Script } from "../../support/nativeScripts.ts"

const policy: NativePolicyInput = {
  ...RecoveryPolicy.broad,
  backoff: { base: 1, cap: 1 },
  maxAttempts: 3,
  routeHealth: null
}

type Answers = Parameters<typeof providerOf>[0]

const openAi = (answers: Answers, options: HoldfastOptions = {}, timeout?: number, by = policy) => {
  const provider = providerOf(answers)
  const base = { apiKey: "sk-test-12345678", baseURL: "http://provider.test/v1", fetch: provider.fetch as never }
  const client = holdfast(new OpenAI({ ...base, ...(timeout === undefined ? {} : { timeout }) }), by, options)
  return { client, asked: provider.asked }
}

const anthropic = (answers: Answers) => {
  const provider = providerOf(answers)
  const base = { apiKey: "sk-test-12345678", baseURL: "http://provider.test", fetch: provider.fetch as never }
  return { client: holdfast(new Anthropic(base), policy), asked: provider.asked }
}

const calling: Script = { reasoning: [], text: [], calls: [{ id: "c1", name: "add", args: ['{"a":1,', '"b":2}'] }] }
const done = plain(["three"], "z")
const messages = [{ role: "user" as const, content: "go" }]

const add = (ran: Array<unknown>) => ({
  type: "function" as const,
  function: {
    name: "add",
    description: "adds",
    parameters: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } } },
    parse: JSON.parse,
    function: (args: { a: number; b: number }) => {
      ran.push(args)
      return String(args.a + args.b)
    }
  }
})

describe("openai's client", () => {
  it("keeps its class and every option", () => {
    const { client } = openAi([])
    assert.instanceOf(client, OpenAI)
    assert.strictEqual(client.baseURL, "http://provider.test/v1")
    assert.strictEqual(client.maxRetries, 0)
  })

  it("throws what the busy model said, when its fallback cannot serve and the retries are used up", async () => {
    const wrong: Answer = { status: 400, body: { error: { message: "NOT HERE", code: "unsupported_value" } } }
    const busy: Answer = { status: 503, body: { error: { message: "BUSY", code: "overloaded", of: "the provider" } } }
    const once = { fallbackAfter: { serverError: 1, overload: 1 }, fallbacks: [{ model: "other" }] }
    for (const [answers, maxAttempts, rest] of [
      [[busy, wrong], 2, {}],
      [[busy, wrong, busy], 3, {}],
      [[busy, wrong], 5, { deadline: "1 second", backoff: { base: 1, cap: "1 minute", factor: 60_000 } }]
    ] as const) {
      const { client, asked } = openAi(answers, {}, undefined, { ...policy, ...once, ...rest, maxAttempts })
      const error = await client.responses.create({ model: "m", input: "go" }).catch((thrown: unknown) => thrown)
      assert.instanceOf(error, InternalServerError)
      assert.include(String(error), "503 BUSY")
      assert.propertyVal(Reflect.get(Object(error), "error"), "of", "the provider")
      assert.deepStrictEqual(
        [asked.length, failureOf(error)?.trail.map(({ status }) => status)],
        [answers.length, answers.map(({ status }) => status)]
      )
    }
  })

  it("completes, with the provider's request id", async () => {
    const { client } = openAi([
      { status: 429, body: errorOf("chat", "rate_limit_exceeded"), headers: { "retry-after-ms": "1" } },
      { body: bodyOf("chat", done), headers: { "x-request-id": "req_1" } }
    ])
    const { data, request_id: id } = await client.chat.completions.create({ model: "m", messages }).withResponse()
    assert.strictEqual(data.choices[0]?.message.content, "three")
    assert.strictEqual(id, "req_1")
  })

  it("iterates a stream that breaks in its midst", async () => {
    const events = eventTexts("chat", plain(["one ", "two"]))
    const { client } = openAi([{ reads: events.slice(0, 2), end: "reset" }, { reads: events }])
    let text = ""
    for await (const chunk of await client.chat.completions.create({ model: "m", messages, stream: true }))
      text += chunk.choices[0]?.delta.content ?? ""
    assert.strictEqual(text, "one two")
  })

  it.each([false, true])("runs tools once each, faults between (stream: %s)", async (stream) => {
    const ran: Array<unknown> = []
    const turn = (script: Script): Answer =>
      stream ? { reads: eventTexts("chat", script) } : { body: bodyOf("chat", script) }
    const cut: Answer = stream ? { reads: eventTexts("chat", calling).slice(0, 3), end: "reset" } : { network: "reset" }
    const { client, asked } = openAi([cut, turn(calling), { status: 503, body: {} }, turn(done)])
    const runner = stream
      ? client.chat.completions.runTools({ model: "m", messages, tools: [add(ran)], stream: true })
      : client.chat.completions.runTools({ model: "m", messages, tools: [add(ran)] })
    assert.strictEqual(await runner.finalContent(), "three")
    assert.deepStrictEqual(ran, [{ a: 1, b: 2 }])
    assert.strictEqual(asked.length, 4)
  })

  it("parses a structured answer, also on responses", async () => {
    const json = plain(['{"sum":', "3}"])
    const { client } = openAi([
      { status: 500, body: {} },
      { body: bodyOf("chat", json) },
      { status: 500, body: {} },
      { body: bodyOf("responses", json) }
    ])
    const chat = await client.chat.completions.parse({ model: "m", messages, response_format: sumFormat.chat })
    assert.deepStrictEqual(chat.choices[0]?.message.parsed, { sum: 3 })
    const response = await client.responses.parse({
      model: "m",
      input: "go",
      text: { format: sumFormat.responses }
    })
    assert.deepStrictEqual(response.output_parsed, { sum: 3 })
  })

  it("throws the class of the status, once, with the typed failure behind it", async () => {
    const { client, asked } = openAi(() => ({ status: 429, body: errorOf("chat", "rate_limit_exceeded") }))
    const error = await client.chat.completions.create({ model: "m", messages }).catch((cause: unknown) => cause)
    assert.instanceOf(error, RateLimitError)
    assert.strictEqual((error as RateLimitError).code, "rate_limit_exceeded")
    assert.strictEqual(asked.length, 3)
    const failure = failureOf(error)
    assert.strictEqual(failure?._tag, "RecoveryRetriesExhausted")
    assert.strictEqual(failure?.trail.length, 3)
    assert.isString(failure?.guidance)
  })

  it("obeys a call's own time-out and signal", async () => {
    const { client } = openAi(() => ({ network: "hang" }))
    const late = await client.responses
      .create({ model: "m", input: "go" }, { timeout: 20 })
      .catch((cause: unknown) => cause)
    assert.instanceOf(late, APIConnectionTimeoutError)
    const controller = new AbortController()
    const left = client.responses
      .create({ model: "m", input: "go" }, { signal: controller.signal })
      .catch((cause: unknown) => cause)
    controller.abort()
    assert.instanceOf(await left, APIUserAbortError)
  })

  it("obeys a time-out that the client was made with", async () => {
    const { client } = openAi(() => ({ network: "hang" }), {}, 20)
    const late = await client.responses.create({ model: "m", input: "go" }).catch((cause: unknown) => cause)
    assert.instanceOf(late, APIConnectionTimeoutError)
  })

  it("repeats what only reads and sends once what creates", async () => {
    const { client, asked } = openAi([
      { status: 503, body: {} },
      { body: { object: "list", data: [] } },
      { status: 503, body: {} }
    ])
    await client.models.list()
    assert.strictEqual(asked.length, 2)
    const refused = await client.batches
      .create({ input_file_id: "f", endpoint: "/v1/responses", completion_window: "24h" })
      .catch((cause: unknown) => cause)
    assert.instanceOf(refused, InternalServerError)
    assert.strictEqual(asked.length, 3)
  })
})

describe("Azure's client", () => {
  it("changes the deployment in the path for a fallback", async () => {
    const provider = providerOf([{ status: 503, body: errorOf("chat") }, { body: bodyOf("chat", done) }])
    const azure = new AzureOpenAI({
      apiKey: "k-12345678",
      endpoint: "https://x.openai.azure.com",
      apiVersion: "2026-01-01",
      fetch: provider.fetch as never
    })
    const client = holdfast(azure, { ...policy, fallbackAfter: { overload: 1 }, fallbacks: [{ model: "spare one" }] })
    assert.instanceOf(client, AzureOpenAI)
    const reply = await client.chat.completions.create({ model: "main", messages })
    assert.strictEqual(reply.choices[0]?.message.content, "three")
    assert.deepStrictEqual(
      provider.asked.map(({ url }: Asked) => new URL(url).pathname),
      ["/openai/deployments/main/chat/completions", "/openai/deployments/spare%20one/chat/completions"]
    )
  })
})

describe("Anthropic's client", () => {
  it("creates, and throws the class of the status", async () => {
    const { client } = anthropic((_asked, number) =>
      number === 2 ? { body: bodyOf("messages", done) } : { status: 529, body: errorOf("messages") }
    )
    const message = await client.messages.create({ model: "m", max_tokens: 10, messages })
    assert.deepInclude(message.content[0], { type: "text", text: "three" })
    const error = await client.messages
      .create({ model: "m", max_tokens: 10, messages })
      .catch((cause: unknown) => cause)
    assert.instanceOf(error, AnthropicServerError)
    assert.strictEqual((error as { status?: number }).status, 529)
    assert.strictEqual(failureOf(error)?._tag, "RecoveryRetriesExhausted")
  })

  it("ends its loop at once when its caller leaves", async () => {
    const events = eventTexts("messages", plain(["one ", "two"]))
    const { client } = anthropic([{ reads: events.slice(0, 4), end: "hang" }])
    const controller = new AbortController()
    const stream = client.messages.stream({ model: "m", max_tokens: 10, messages }, { signal: controller.signal })
    stream.on("text", () => controller.abort())
    const error = await stream.finalMessage().catch((cause: unknown) => cause)
    assert.instanceOf(error, AnthropicAbort)
  })

  it("runs tools once each, faults between", async () => {
    const ran: Array<unknown> = []
    const tool = betaTool({
      name: "add",
      description: "adds",
      inputSchema: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } } },
      run: (input) => {
        ran.push(input)
        return "3"
      }
    })
    const { client, asked } = anthropic([
      { network: "reset" },
      { body: bodyOf("messages", calling) },
      { status: 529, body: errorOf("messages") },
      { body: bodyOf("messages", done) }
    ])
    const runner = client.beta.messages.toolRunner({ model: "m", max_tokens: 10, messages, tools: [tool] })
    const final = await runner.runUntilDone()
    assert.deepInclude(final.content[0], { type: "text", text: "three" })
    assert.deepStrictEqual(ran, [{ a: 1, b: 2 }])
    assert.strictEqual(asked.length, 4)
  })
})
