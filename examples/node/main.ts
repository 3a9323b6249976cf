/** Plain Node: the SDK you know, with one line under it. */
import OpenAI from "openai"
import { failureOf, holdfast } from "holdfast/fetch"

const client = holdfast(new OpenAI())

try {
  const stream = await client.chat.completions.create({
    model: "large",
    messages: [{ role: "user", content: process.argv[2] ?? "Say hello." }],
    stream: true
  })
  for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? "")
  process.stdout.write("\n")
} catch (error) {
  // Still the SDK's own error; behind it is what was tried and what to do.
  console.error(failureOf(error)?.guidance ?? error)
  process.exitCode = 1
}
