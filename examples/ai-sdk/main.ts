/** The AI SDK over recoveredFetch, with a tool. Its own retries are off: they know no hint and would multiply. */
import { createOpenAI } from "@ai-sdk/openai"
import { stepCountIs, streamText, tool } from "ai"
import { recoveredFetch } from "holdfast/fetch"
import { z } from "zod"

const openai = createOpenAI({ baseURL: process.env["OPENAI_BASE_URL"], fetch: recoveredFetch() })

const weather = tool({
  description: "the weather of a city",
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `It rains in ${city}.`
})

const { textStream } = streamText({
  model: openai.chat("large"),
  prompt: process.argv[2] ?? "How is the weather in Bonn?",
  tools: { weather },
  stopWhen: stepCountIs(5),
  maxRetries: 0
})
for await (const text of textStream) process.stdout.write(text)
process.stdout.write("\n")
