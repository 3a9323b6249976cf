/**
 * `npm run clients` (after `npm ci --prefix examples/clients --ignore-scripts`): the AI SDK, LangChain and Agents over
 * `recoveredFetch`, healthy and under five faults. Their own retries are off; the requests at the provider are counted.
 */
import assert from "node:assert/strict"
import { createOpenAI } from "@ai-sdk/openai"
import { ChatOpenAI } from "@langchain/openai"
import { Agent, OpenAIProvider, Runner } from "@openai/agents"
import { streamText } from "ai"
import OpenAI from "openai"
import { wholeText } from "../../bench/wall/answers.ts"
import { startProvider, type Provider } from "../../bench/wall/provider.ts"
import { recoveredFetch } from "../../src/fetch.ts"
import { RecoveryPolicy } from "../../src/domain/recovery/RecoveryPolicy.ts"

/** A healthy answer, a hint, a 500, a reset, a cut and an outage; with the requests each takes. */
const faults: Readonly<Record<string, number>> = { ok: 1, s01: 2, s03: 2, s05: 2, s08: 3, s04: 4 }

const provider: Provider = await startProvider({ unit: 20 })
const fetch = recoveredFetch(
  {
    ...RecoveryPolicy.broad,
    backoff: { base: 10, factor: 2, cap: 100, jitter: 0 },
    fallbackAfter: { overload: 3, serverError: 3, cut: 2 },
    fallbacks: [{ model: "fb-ok" }]
  },
  { health: "own" }
)
const apiKey = "examples"
const baseURL = provider.baseUrl

const ai = createOpenAI({ apiKey, baseURL, fetch })
const runner = (isResponses: boolean): Runner =>
  new Runner({
    tracingDisabled: true,
    modelProvider: new OpenAIProvider({
      openAIClient: new OpenAI({ apiKey, baseURL, fetch, maxRetries: 0 }),
      useResponses: isResponses
    })
  })

const streamed = async (parts: AsyncIterable<string>): Promise<string> => {
  let text = ""
  for await (const part of parts) text += part
  return text
}

const clients: Readonly<Record<string, (model: string) => Promise<string>>> = {
  "AI SDK, streamText over Responses": (model) =>
    streamed(streamText({ model: ai(model), prompt: "Say them.", maxRetries: 0, onError: () => undefined }).textStream),
  "AI SDK, streamText over chat": (model) =>
    streamed(
      streamText({ model: ai.chat(model), prompt: "Say them.", maxRetries: 0, onError: () => undefined }).textStream
    ),
  "LangChain, stream": async (model) => {
    const chat = new ChatOpenAI({ model, apiKey, maxRetries: 0, configuration: { baseURL, fetch } })
    let text = ""
    for await (const chunk of await chat.stream("Say them.")) text += String(chunk.content)
    return text
  },
  "Agents, streamed over Responses": async (model) => {
    const run = await runner(true).run(new Agent({ name: "a", model }), "Say them.", { stream: true })
    await run.completed
    return String(run.finalOutput)
  },
  "Agents, streamed over chat": async (model) => {
    const run = await runner(false).run(new Agent({ name: "a", model }), "Say them.", { stream: true })
    await run.completed
    return String(run.finalOutput)
  }
}

let isGreen = true
for (const [name, ask] of Object.entries(clients))
  for (const [model, most] of Object.entries(faults)) {
    provider.begin()
    let said = ""
    try {
      said = await ask(model)
      assert.equal(said, wholeText)
      assert.ok(provider.asked.length <= most, `${provider.asked.length} requests`)
      console.log(`${name}, ${model}: whole, ${provider.asked.length} requests`)
    } catch (cause) {
      isGreen = false
      console.log(`${name}, ${model}: ${cause instanceof Error ? cause.message.slice(0, 200) : String(cause)}`)
    }
  }
// Refused requests keep each client's own error, asked once.
for (const [name, ask] of Object.entries(clients)) {
  provider.begin()
  await ask("s13").then(
    (said) => console.log(`${name}, s13: ended with ${JSON.stringify(said.slice(0, 40))}`),
    (cause: unknown) =>
      console.log(
        `${name}, s13: ${cause instanceof Error ? cause.constructor.name : "?"}, ${provider.asked.length} requests`
      )
  )
}
await provider.close()
process.exit(isGreen ? 0 : 1)
