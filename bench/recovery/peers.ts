/**
 * Other clients with their default settings, when bench/ has them installed (`npm ci --prefix bench`). Two wrap a call of
 * the bare SDK: p-retry as it comes, cockatiel with the retry of its readme, since without options it retries for ever
 * and at once.
 */
import OpenAI from "openai"
import { load } from "../load.ts"
import { primary } from "./cases.ts"

export interface Subject {
  readonly name: string
  /** Sends a prompt; the text of the reply. */
  readonly ask: (prompt: string) => Promise<string>
}

type Make = (baseUrl: string) => Promise<Subject["ask"] | null>

/** The shapes of what is used of packages that may be absent. */
interface AnthropicSdk {
  readonly default: new (options: object) => {
    readonly messages: {
      readonly create: (body: object) => Promise<{ readonly content: ReadonlyArray<{ readonly text?: string }> }>
    }
  }
}
interface AiSdk {
  readonly generateText: (options: object) => Promise<{ readonly text: string }>
}
interface AiSdkProvider {
  readonly createOpenAICompatible: (options: object) => (model: string) => unknown
}
interface LangChain {
  readonly ChatOpenAI: new (options: object) => {
    readonly invoke: (input: string) => Promise<{ readonly content: unknown }>
  }
}
interface Cockatiel {
  readonly handleAll: unknown
  readonly ExponentialBackoff: new () => unknown
  readonly retry: (
    policy: unknown,
    options: object
  ) => { readonly execute: (work: () => Promise<string>) => Promise<string> }
}
interface PRetry {
  readonly default: (work: () => Promise<string>) => Promise<string>
}

const apiKey = "bench-key"

/** The bare SDK; its own retries unless `maxRetries` says otherwise. */
const askOpenAi = (baseUrl: string, maxRetries?: number): Subject["ask"] => {
  const client = new OpenAI({ apiKey, baseURL: `${baseUrl}/v1`, ...(maxRetries === undefined ? {} : { maxRetries }) })
  return async (prompt) => {
    const reply = await client.chat.completions.create({
      model: primary,
      max_tokens: 100,
      messages: [{ role: "user", content: prompt }]
    })
    return reply.choices[0]?.message.content ?? ""
  }
}

const makers: Readonly<Record<string, Make>> = {
  openai: async (baseUrl) => askOpenAi(baseUrl),
  "@anthropic-ai/sdk": async (baseUrl) => {
    const sdk = await load<AnthropicSdk>("@anthropic-ai/sdk")
    if (sdk === null) return null
    const client = new sdk.default({ apiKey, baseURL: baseUrl })
    return async (prompt) => {
      const reply = await client.messages.create({
        model: primary,
        max_tokens: 100,
        messages: [{ role: "user", content: prompt }]
      })
      return reply.content[0]?.text ?? ""
    }
  },
  ai: async (baseUrl) => {
    const ai = await load<AiSdk>("ai")
    const provider = await load<AiSdkProvider>("@ai-sdk/openai-compatible")
    if (ai === null || provider === null) return null
    const model = provider.createOpenAICompatible({ name: "bench", baseURL: `${baseUrl}/v1`, apiKey })(primary)
    return async (prompt) => (await ai.generateText({ model, prompt })).text
  },
  "@langchain/openai": async (baseUrl) => {
    const langChain = await load<LangChain>("@langchain/openai")
    if (langChain === null) return null
    const chat = new langChain.ChatOpenAI({
      model: primary,
      apiKey,
      configuration: { baseURL: `${baseUrl}/v1` }
    })
    return async (prompt) => String((await chat.invoke(prompt)).content)
  },
  cockatiel: async (baseUrl) => {
    const cockatiel = await load<Cockatiel>("cockatiel")
    if (cockatiel === null) return null
    const { ExponentialBackoff, handleAll, retry } = cockatiel
    const policy = retry(handleAll, { maxAttempts: 3, backoff: new ExponentialBackoff() })
    const ask = askOpenAi(baseUrl, 0)
    return (prompt) => policy.execute(() => ask(prompt))
  },
  "p-retry": async (baseUrl) => {
    const pRetry = await load<PRetry>("p-retry")
    if (pRetry === null) return null
    const ask = askOpenAi(baseUrl, 0)
    return (prompt) => pRetry.default(() => ask(prompt))
  }
}

export const peerNames: ReadonlyArray<string> = Object.keys(makers)

/** null = the package is not installed. */
export const makePeer = async (name: string, baseUrl: string): Promise<Subject | null> => {
  const ask = (await makers[name]?.(baseUrl)) ?? null
  return ask === null ? null : { name, ask }
}
