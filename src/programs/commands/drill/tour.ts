/** The built-in tour: one request through all three roads. Everything in it has happened to real programs. */
import type { Scenario } from "./Scenario.ts"

const usage = { prompt_tokens: 640, completion_tokens: 8000, total_tokens: 8640 }

const answer = (content: string, finish_reason: string) => ({
  http: 200,
  body: { choices: [{ index: 0, finish_reason, message: { role: "assistant", content } }], usage }
})

const beginning = "A lighthouse keeper does three things every evening: she trims the wick, "
const middle = "she winds the clockwork that turns the lens, "
const end = "and she writes the weather into the log."

/** What the user has to get in the end, to the character. */
export const tourReply = beginning + middle + end

export const tour: Scenario = {
  id: "tour",
  config: { compaction: { mode: "once", keepRecentMessages: 2 } },
  request: {
    messages: [
      { role: "system", content: "You write short, exact descriptions." },
      { role: "user", content: "Here are my notes about lighthouses. ".repeat(40) },
      { role: "assistant", content: "I have read the notes." },
      { role: "user", content: "And here are the notes about the sea. ".repeat(40) },
      { role: "assistant", content: "I have read those too." },
      { role: "user", content: "Now: what does a lighthouse keeper do every evening?" }
    ]
  },
  provider: [
    { http: 429, headers: { "retry-after": "2" }, body: { error: { type: "requests", code: "rate_limit_exceeded" } } },
    { http: 529, body: { error: { type: "overloaded_error" } }, repeat: 3 },
    { http: 400, body: { error: { type: "invalid_request_error", code: "context_length_exceeded" } } },
    { role: "summarizer", ...answer("The user gave notes about lighthouses and the sea; both were read.", "stop") },
    answer("A lighthouse keeper does three", "length"),
    answer(beginning, "length"),
    answer(middle, "length"),
    answer(end, "stop")
  ],
  expect: { result: { reply: tourReply } }
}
