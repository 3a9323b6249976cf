import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import OpenAI from "openai"
import type { KeySource } from "../../../src/layers/provider/apiKey.ts"
import type { WireRequest } from "../../../src/domain/chat/ModelRequest.ts"
import * as AnthropicModelClient from "../../../src/layers/provider/AnthropicModelClient.ts"
import * as OpenAiModelClient from "../../../src/layers/provider/OpenAiModelClient.ts"
import type { Fetch } from "../../../src/layers/provider/undiciFetch.ts"

const makers = {
  openai: (options: object) => OpenAiModelClient.make(options),
  anthropic: (options: object) => AnthropicModelClient.make(options)
} as const
const names = ["openai", "anthropic"] as const

const saidBy = (work: () => unknown): string => {
  try {
    work()
    return "made"
  } catch (cause) {
    return cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause)
  }
}

const key = "sk-test-12345678"

describe.each(names)("the options of the %s adapter", (name) => {
  it.each([
    ["baseURL", "is not an option: the name is baseUrl"],
    ["base_url", "is not an option: the name is baseUrl"],
    ["apikey", "is not an option: the name is apiKey"],
    ["api_key", "is not an option: the name is apiKey"],
    ["timeout", "is not an option: there are "],
    ["maxRetries", "is not an option: there are "],
    ["constructor", "is not an option: there are "]
  ])("refuses %s, which nobody reads, without its value", (option, reason) => {
    const said = saidBy(() => makers[name]({ apiKey: key, [option]: "http://SECRET.test" }))
    assert.include(said, `ConfigurationError: ${option} ${reason}`)
    assert.notInclude(said, "SECRET")
  })

  it.each([null, "sk", 7, []])("is an object and not %j", (options) => {
    assert.include(
      saidBy(() => makers[name](options as unknown as object)),
      "options must be an object"
    )
  })

  it.each(["", "  ", 42, null, {}])("refuses the key %j before the first request", (apiKey) => {
    assert.match(
      saidBy(() => makers[name]({ apiKey })),
      /^ConfigurationError: apiKey /
    )
  })
})

const request: WireRequest = {
  messages: [{ role: "user", content: "go" }],
  model: "m",
  maxOutputTokens: 100,
  role: "main"
}

/** A provider that keeps what the key travelled in. */
const heard = () => {
  const keys: Array<string> = []
  const fetch: Fetch = async (input, init) => {
    const headers = new Headers(init?.headers)
    keys.push((headers.get("authorization") ?? headers.get("x-api-key") ?? "").replace(/^Bearer /, ""))
    const body = String(input).includes("messages")
      ? { type: "message", role: "assistant", content: [{ type: "text", text: "fine" }], stop_reason: "end_turn" }
      : { choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "fine" } }] }
    return Response.json(body)
  }
  return { keys, fetch }
}

describe.each(names)("a key that is a function, %s", (name) => {
  it.each<readonly [string, (turn: number) => ReturnType<Extract<KeySource, () => unknown>>]>([
    ["at once", (turn) => `token-${turn}`],
    ["later", async (turn) => `token-${turn}`],
    ["redacted", (turn) => Redacted.make(`token-${turn}`)],
    ["redacted, later", async (turn) => Redacted.make(`token-${turn}`)],
    [
      "as a thenable",
      (turn) => ({ then: (resolve) => Promise.resolve(`token-${turn}`).then(resolve) }) as PromiseLike<string>
    ]
  ])("is asked before every request: %s", async (_, give) => {
    const { keys, fetch } = heard()
    let turn = 0
    const apiKey = () => {
      turn += 1
      return give(turn)
    }
    const client = makers[name]({ apiKey, baseUrl: "http://provider.test", fetch })
    assert.strictEqual(turn, 0)
    await Effect.runPromise(client.generate(request))
    await Effect.runPromise(client.generate(request))
    assert.deepStrictEqual(keys, ["token-1", "token-2"])
  })

  it.each<readonly [string, () => unknown]>([
    [
      "throws",
      () => {
        throw new Error("no SECRET")
      }
    ],
    ["rejects", () => Promise.reject(new Error("no SECRET"))],
    ["gives nothing", () => undefined],
    ["gives an empty text", () => ""],
    ["gives what no header can carry", () => "SECRET\u2028"]
  ])("sends nothing when it %s", async (_, apiKey) => {
    const { keys, fetch } = heard()
    const client = makers[name]({ apiKey, baseUrl: "http://provider.test", fetch })
    const failure = await Effect.runPromise(Effect.flip(client.generate(request)))
    assert.deepStrictEqual([failure._tag, failure.status, keys], ["ModelRequestError", null, []])
    assert.notInclude(JSON.stringify(failure), "SECRET")
  })
})

it("takes the profile of the address that the environment names", () => {
  const before = process.env["OPENAI_BASE_URL"]
  process.env["OPENAI_BASE_URL"] = "https://api.groq.com/openai/v1"
  try {
    const own = OpenAiModelClient.make({ apiKey: key })
    assert.include(own.identity ?? "", "api.groq.com")
  } finally {
    if (before === undefined) delete process.env["OPENAI_BASE_URL"]
    else process.env["OPENAI_BASE_URL"] = before
  }
})

it("keeps one account for the clients that ask one function for their key", () => {
  const apiKey = () => key
  const identityOf = (given: KeySource) => OpenAiModelClient.make({ apiKey: given, baseUrl: "http://a.test" }).identity
  assert.strictEqual(identityOf(apiKey), identityOf(apiKey))
  assert.notStrictEqual(
    identityOf(apiKey),
    identityOf(() => key)
  )
  assert.notStrictEqual(OpenAiModelClient.make({ client: new OpenAI({ apiKey: key }) }).identity, identityOf(apiKey))
})
