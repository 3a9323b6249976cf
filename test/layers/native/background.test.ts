/** Responses that their server makes on its own, over sockets: taken up behind the last event, stopped when nobody waits. */
import OpenAI from "openai"
import { afterEach, assert, describe, it } from "vitest"
import { holdfast, RecoveryPolicy, type NativePolicyInput } from "../../../src/fetch.ts"
import { keptServer, type KeptOptions, type KeptServer } from "../../support/keptResponses.ts"
import { eventTexts, plain } from "../../support/nativeScripts.ts"

const policy: NativePolicyInput = {
  ...RecoveryPolicy.broad,
  backoff: { base: 5, cap: 5, jitter: 0 },
  maxAttempts: 6,
  routeHealth: null
}

let server: KeptServer | null = null
afterEach(async () => server?.close())

const script = plain(["one ", "two ", "three ", "four"], "kept")

const clientOf = async (options: Omit<KeptOptions, "script">) => {
  server = await keptServer({ script, ...options })
  const client = holdfast(new OpenAI({ apiKey: "sk-test-12345678", baseURL: server.baseUrl }), policy)
  return { client, asked: server.asked }
}

const background = { model: "m", input: "go", background: true, stream: true } as const

const until = async (isTrue: () => boolean): Promise<void> => {
  for (let tries = 0; tries < 300 && !isTrue(); tries += 1) await new Promise((resolve) => setTimeout(resolve, 10))
}

describe("a background response", () => {
  it("is taken up behind its last event however often its stream breaks, and asked for once", async () => {
    const { client, asked } = await clientOf({ perConnection: 3, cuts: 3 })
    const numbers: Array<number> = []
    let text = ""
    for await (const event of await client.responses.create(background)) {
      numbers.push(event.sequence_number)
      if (event.type === "response.output_text.delta") text += event.delta
    }
    assert.strictEqual(text, "one two three four")
    assert.deepStrictEqual(
      numbers,
      eventTexts("responses", script).map((_, index) => index)
    )
    assert.deepStrictEqual(asked, [
      "POST /v1/responses",
      "GET /v1/responses/resp_kept?stream=true&starting_after=2",
      "GET /v1/responses/resp_kept?stream=true&starting_after=5",
      "GET /v1/responses/resp_kept?stream=true&starting_after=8"
    ])
  })

  it("is waited for when the provider does not give the rest at once", async () => {
    const { client, asked } = await clientOf({ perConnection: 5, cuts: 1, refusals: [503, 429] })
    const stream = client.responses.stream(background)
    assert.strictEqual((await stream.finalResponse()).output_text, "one two three four")
    assert.strictEqual(asked.filter((line) => line.startsWith("POST")).length, 1)
    assert.strictEqual(asked.length, 4)
  })

  it.each([
    ["is given whole by a server that knows no stream of it", ["whole"]],
    ["is waited for while it still runs there", ["running", 503, "running", "whole"]]
  ] as const)("%s: no text twice, and asked for once", async (_, refusals) => {
    const { client, asked } = await clientOf({ perConnection: 5, cuts: 1, refusals })
    let text = ""
    const stream = client.responses.stream(background)
    stream.on("response.output_text.delta", ({ delta }) => {
      text += delta
    })
    const whole = await stream.finalResponse()
    assert.deepStrictEqual(
      [text, whole.output_text, whole.status],
      ["one two three four", "one two three four", "completed"]
    )
    assert.strictEqual(asked.filter((line) => line.startsWith("POST")).length, 1)
    assert.strictEqual(asked.length, 1 + refusals.length)
  })

  it("is an error when the provider does not know it any more, and is not made again", async () => {
    const { client, asked } = await clientOf({ perConnection: 5, cuts: 1, refusals: [404] })
    const failed = await client.responses
      .stream(background)
      .finalResponse()
      .then(
        () => null,
        (cause: unknown) => cause
      )
    assert.instanceOf(failed, Error)
    assert.deepStrictEqual(
      asked.map((line) => line.slice(0, 4)),
      ["POST", "GET "]
    )
  })

  it("is stopped when its caller leaves, once, and its caller does not wait for that", async () => {
    const { client, asked } = await clientOf({ perConnection: 6, cuts: 0, isSlow: true })
    const controller = new AbortController()
    const stream = await client.responses.create(background, { signal: controller.signal })
    for await (const event of stream) if (event.type === "response.output_text.delta") controller.abort()
    await until(() => asked.length > 1)
    assert.deepStrictEqual(asked, ["POST /v1/responses", "POST /v1/responses/resp_kept/cancel"])
  })

  it("is not stopped when it has come to its end", async () => {
    const { client, asked } = await clientOf({ perConnection: 99, cuts: 0 })
    for await (const _ of await client.responses.create(background));
    await new Promise((resolve) => setTimeout(resolve, 50))
    assert.deepStrictEqual(asked, ["POST /v1/responses"])
  })
})

describe("a stored response", () => {
  it("that is no background one is only left when its caller leaves", async () => {
    const { client, asked } = await clientOf({ perConnection: 6, cuts: 0, isSlow: true })
    const stream = await client.responses.create({ model: "m", input: "go", stream: true })
    for await (const event of stream) if (event.type === "response.output_text.delta") break
    await new Promise((resolve) => setTimeout(resolve, 50))
    assert.deepStrictEqual(asked, ["POST /v1/responses"])
  })
})
