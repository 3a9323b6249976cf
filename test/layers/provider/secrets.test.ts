import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { inspect } from "node:util"
import { ConfigurationError } from "../../../src/domain/failure/ConfigurationError.ts"
import type { ModelError } from "../../../src/domain/failure/ModelError.ts"
import type { WireRequest } from "../../../src/domain/chat/ModelRequest.ts"
import { renderFailure } from "../../../src/domain/failure/renderFailure.ts"
import * as AnthropicModelClient from "../../../src/layers/provider/AnthropicModelClient.ts"
import * as OpenAiModelClient from "../../../src/layers/provider/OpenAiModelClient.ts"
import type { Fetch } from "../../../src/layers/provider/undiciFetch.ts"

const prompt = "the prompt of the user"
const request: WireRequest = {
  messages: [{ role: "user", content: prompt }],
  model: "m",
  maxOutputTokens: 100,
  role: "main"
}

const key = "sk-secret/key+1234567890"
const password = "password-in-the-address"
const inQuery = "key-in-the-query"
const inHeader = "value-of-a-header"
const secrets = [
  key,
  encodeURIComponent(key),
  password,
  inQuery,
  inHeader,
  prompt,
  Buffer.from(`user:${password}`).toString("base64")
]

const adapters = {
  openai: OpenAiModelClient.make,
  anthropic: AnthropicModelClient.make
} as const

/** What a provider may send back of a request. */
interface Echo {
  readonly authorization: string
  readonly everything: string
}

const clientOf = (name: keyof typeof adapters, answer: (echo: Echo) => Response) => {
  const fetch: Fetch = (input, init) => {
    const headers = new Headers(init?.headers)
    const authorization = headers.get("authorization") ?? headers.get("x-api-key") ?? ""
    const basic = Buffer.from(`user:${password}`).toString("base64")
    const everything = `${[...headers.values()].join(" ")} ${String(input)} ${encodeURIComponent(key)} ${basic}`
    return Promise.resolve(answer({ authorization, everything }))
  }
  return adapters[name]({
    apiKey: key,
    baseUrl: `https://user:${password}@provider.test/v1?key=${inQuery}`,
    headers: () => ({ "x-own": inHeader }),
    fetch
  })
}

const viewsOf = (failure: ModelError): string =>
  [
    JSON.stringify(failure),
    String(failure),
    failure.stack,
    inspect(failure, { depth: 20, showHidden: true }),
    renderFailure(failure),
    JSON.stringify(failure.providerRequestId)
  ].join("\n")

const json = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(body), { status, headers: { "content-type": "application/json", ...headers } })

describe.each(["openai", "anthropic"] as const)("a failure of the %s adapter", (name) => {
  it.effect.each<readonly [string, (echo: Echo) => Response]>([
    [
      "in the code",
      ({ authorization }) => json(401, { error: { code: authorization, type: `no key ${authorization}` } })
    ],
    ["in the code, as part of a word", () => json(401, { error: { code: `key:${key}` } })],
    ["in a code that is the prompt", () => json(400, { error: { code: prompt, type: JSON.stringify(request) } })],
    ["in the code of an error inside a 200", () => json(200, { type: "error", error: { code: prompt, type: key } })],
    [
      "in the headers",
      ({ authorization }) =>
        json(429, {}, { "x-request-id": authorization, "request-id": key, "retry-after": authorization })
    ],
    ["in the message", ({ everything }) => json(401, { error: { message: everything } })],
    ["in a body that is no JSON", ({ everything }) => new Response(everything, { status: 200 })],
    [
      "in the error event of a stream",
      ({ everything }) =>
        new Response(
          `event: error\ndata: ${JSON.stringify({ type: "error", error: { type: key, code: prompt, message: everything } })}\n\n`,
          { status: 200, headers: { "content-type": "text/event-stream" } }
        )
    ]
  ])("shows no key, header or prompt that a provider echoes %s", ([, answer]) =>
    Effect.gen(function* () {
      const client = clientOf(name, answer)
      for (const failure of [
        yield* Effect.flip(client.generate(request)),
        yield* Effect.flip(Stream.runDrain(client.stream(request)))
      ]) {
        for (const secret of secrets) assert.notInclude(viewsOf(failure), secret)
        for (const secret of secrets.filter((other) => other !== prompt))
          assert.notInclude(failure.providerMessage ?? "", secret)
      }
    })
  )

  it("has a client whose identity tells addresses apart and shows no key of them", () => {
    const identityAt = (baseUrl: string) => adapters[name]({ apiKey: key, baseUrl }).identity ?? ""
    const one = identityAt(`https://user:${password}@provider.test/v1?key=${inQuery}`)
    for (const secret of secrets) assert.notInclude(one, secret)
    assert.notStrictEqual(one, identityAt(`https://user:${password}@provider.test/v1?key=another-key`))
    assert.strictEqual(one, identityAt(`https://user:${password}@provider.test/v1?key=${inQuery}`))
  })

  it.effect("keeps codes, request id and words that hold no secret", () =>
    Effect.gen(function* () {
      const answer = () => json(400, { error: { code: "bad_field", message: "field x" } }, { "x-request-id": "req-1" })
      const failure = yield* Effect.flip(clientOf(name, answer).generate(request))
      assert.deepStrictEqual(
        [failure.code, failure.providerRequestId, failure.providerMessage],
        ["bad_field", "req-1", "field x"]
      )
    })
  )

  it.effect.each<readonly [string, Partial<WireRequest>, (request: WireRequest) => Record<string, string>]>([
    ["a header function throws", {}, () => assert.fail("no headers")],
    ["a header has no valid name", {}, () => ({ "not a name": "x" })],
    ["a parameter is no JSON", { params: { count: 1n } }, () => ({})]
  ])("is the request's own, and never a lost connection, when %s", ([, more, headers]) =>
    Effect.gen(function* () {
      let calls = 0
      const fetch: Fetch = () => {
        calls += 1
        return Promise.resolve(json(200, {}))
      }
      const client = adapters[name]({ apiKey: key, baseUrl: "https://provider.test", headers, fetch })
      const failure = yield* Effect.flip(client.generate({ ...request, ...more }))
      assert.deepStrictEqual(
        [failure._tag, failure.status, failure.code],
        ["ModelRequestError", null, "request_not_built"]
      )
      assert.strictEqual(calls, 0)
    })
  )

  it.each(["sk-two\nlines-12345", "sk-dots…-12345", "sk-nul\0-12345"])(
    "is a bad option for the key %j, which is not shown",
    (apiKey) => {
      try {
        adapters[name]({ apiKey, baseUrl: "https://provider.test" })
        assert.fail("it was taken")
      } catch (cause) {
        assert.instanceOf(cause, ConfigurationError)
        assert.include(String(cause), "apiKey")
        assert.notInclude(inspect(cause, { depth: 9 }), "12345")
      }
    }
  )
})
