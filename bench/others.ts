/** Other clients' streams, when bench/ has them installed (`npm ci --prefix bench`). */
import { load } from "./load.ts"

export interface Other {
  readonly name: string
  /** Reads a whole stream; the length of its text. */
  readonly read: () => Promise<number>
}

/** The shapes of what is used of packages that may be absent. */
interface LangChain {
  readonly ChatOpenAI: new (options: object) => {
    readonly stream: (input: string) => Promise<AsyncIterable<{ readonly content: unknown }>>
  }
}
interface AiSdk {
  readonly streamText: (options: object) => { readonly textStream: AsyncIterable<string> }
}
interface AiSdkProvider {
  readonly createOpenAICompatible: (options: object) => (model: string) => unknown
}

export const others = async (baseUrl: string, model: string): Promise<ReadonlyArray<Other>> => {
  const found: Array<Other> = []
  const langChain = await load<LangChain>("@langchain/openai")
  if (langChain !== null) {
    const chat = new langChain.ChatOpenAI({
      model,
      apiKey: "bench-key",
      maxRetries: 0,
      configuration: { baseURL: baseUrl }
    })
    found.push({
      name: "LangChain",
      read: async () => {
        let seen = 0
        for await (const chunk of await chat.stream("When does the tide turn?"))
          if (typeof chunk.content === "string") seen += chunk.content.length
        return seen
      }
    })
  }
  const ai = await load<AiSdk>("ai")
  const provider = await load<AiSdkProvider>("@ai-sdk/openai-compatible")
  if (ai !== null && provider !== null) {
    const target = provider.createOpenAICompatible({ name: "bench", baseURL: baseUrl, apiKey: "bench-key" })(model)
    found.push({
      name: "AI SDK",
      read: async () => {
        let seen = 0
        const { textStream } = ai.streamText({ model: target, prompt: "When does the tide turn?", maxRetries: 0 })
        for await (const text of textStream) seen += text.length
        return seen
      }
    })
  }
  return found
}
