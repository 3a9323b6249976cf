/**
 * `npm run clients` (after `npm ci --prefix examples/clients --ignore-scripts`): the AI SDK, LangChain and Agents, once over
 * `recoveredFetch` and once through the gateway as a process, healthy and under five faults. Their own retries are off; the
 * requests at the provider are counted.
 */
import assert from "node:assert/strict"
import { createOpenAI } from "@ai-sdk/openai"
import { ChatOpenAI } from "@langchain/openai"
import { Agent, OpenAIProvider, Runner } from "@openai/agents"
import { streamText } from "ai"
import OpenAI from "openai"
import { wholeText } from "../../bench/wall/answers.ts"
import { startGateway } from "../../bench/agents/gatewayProcess.ts"
import { startProvider, type Provider } from "../../bench/wall/provider.ts"
import { recoveredFetch } from "../../src/fetch.ts"
import { RecoveryPolicy } from "../../src/domain/recovery/RecoveryPolicy.ts"

/** A healthy answer, a hint, a 500, a reset, a cut and an outage; with the requests each takes. */
const faults: Readonly<Record<string, number>> = { ok: 1, s01: 2, s03: 2, s05: 2, s08: 3, s04: 4 }

const provider: Provider = await startProvider({ unit: 20 })
const policy = {
  backoff: { base: 10, factor: 2, cap: 100, jitter: 0 },
  fallbackAfter: { overload: 3, serverError: 3, cut: 2 }
}
const gateway = await startGateway(provider.baseUrl.replace(/\/v1$/, ""), {
  fallbacks: [{ upstream: "main", model: "fb-ok" }],
  policy: { ...policy, routeHealth: null }
})
const apiKey = "examples"

/** Where a client's requests go, and what sends them. */
interface Door {
  readonly name: string
  readonly baseURL: string
  readonly fetch: typeof globalThis.fetch
}

const doors: ReadonlyArray<Door> = [
  {
    name: "recoveredFetch",
    baseURL: provider.baseUrl,
    fetch: recoveredFetch({ ...RecoveryPolicy.broad, ...policy, fallbacks: [{ model: "fb-ok" }] }, { health: "own" })
  },
  { name: "gateway", baseURL: `${gateway.origin}/v1`, fetch: globalThis.fetch }
]

const streamed = async (parts: AsyncIterable<string>): Promise<string> => {
  let text = ""
  for await (const part of parts) text += part
  return text
}

type Clients = Readonly<Record<string, (model: string) => Promise<string>>>

const aiSdk = ({ baseURL, fetch }: Door): Clients => {
  const ai = createOpenAI({ apiKey, baseURL, fetch })
  const options = { prompt: "Say them.", maxRetries: 0, onError: () => undefined }
  return {
    "AI SDK, streamText over Responses": (model) => streamed(streamText({ model: ai(model), ...options }).textStream),
    "AI SDK, streamText over chat": (model) => streamed(streamText({ model: ai.chat(model), ...options }).textStream)
  }
}

const langChain = ({ baseURL, fetch }: Door): Clients => ({
  "LangChain, stream": async (model) => {
    const chat = new ChatOpenAI({ model, apiKey, maxRetries: 0, configuration: { baseURL, fetch } })
    let text = ""
    for await (const chunk of await chat.stream("Say them.")) text += String(chunk.content)
    return text
  }
})

const agents = ({ baseURL, fetch }: Door): Clients => {
  const over = (useResponses: boolean) => async (model: string) => {
    const openAIClient = new OpenAI({ apiKey, baseURL, fetch, maxRetries: 0 })
    const runner = new Runner({
      tracingDisabled: true,
      modelProvider: new OpenAIProvider({ openAIClient, useResponses })
    })
    const run = await runner.run(new Agent({ name: "a", model }), "Say them.", { stream: true })
    await run.completed
    return String(run.finalOutput)
  }
  return { "Agents, streamed over Responses": over(true), "Agents, streamed over chat": over(false) }
}

const clientsAt = (door: Door): Clients => ({ ...aiSdk(door), ...langChain(door), ...agents(door) })

const sentenceOf = (cause: unknown): string => (cause instanceof Error ? cause.message.slice(0, 200) : String(cause))

let isGreen = true
for (const door of doors)
  for (const [name, ask] of Object.entries(clientsAt(door))) {
    for (const [model, most] of Object.entries(faults)) {
      provider.begin()
      try {
        assert.equal(await ask(model), wholeText)
        assert.ok(provider.asked.length <= most, `${provider.asked.length} requests`)
        console.log(`${door.name}: ${name}, ${model}: whole, ${provider.asked.length} requests`)
      } catch (cause) {
        isGreen = false
        console.log(`${door.name}: ${name}, ${model}: ${sentenceOf(cause)}`)
      }
    }
    // A refused request keeps each client's own error, asked once.
    provider.begin()
    const ending = await ask("s13").then(
      (said) => `ended with ${JSON.stringify(said.slice(0, 40))}`,
      (cause: unknown) => (cause instanceof Error ? cause.constructor.name : "?")
    )
    if (provider.asked.length !== 1) isGreen = false
    console.log(`${door.name}: ${name}, s13: ${ending}, ${provider.asked.length} requests`)
  }
await gateway.close()
await provider.close()
process.exit(isGreen ? 0 : 1)
