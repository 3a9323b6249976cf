/**
 * The scripted provider of `holdfast run --provider embedded`: it lists a folder, searches it and answers, and it fails on
 * purpose when a scenario asks for it. Everything on the way is real: the SDK, the sockets, the waits.
 */
import { rewrite } from "../drill/doors/rewrite.ts"
import type { ProviderStep, Scenario, SseData } from "../drill/Scenario.ts"

const usage = (completion: number) => ({
  prompt_tokens: 420,
  completion_tokens: completion,
  total_tokens: 420 + completion
})

const chunk = (delta: unknown, finish: string | null = null): SseData => ({
  data: { id: "embedded", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason: finish }] }
})

const ending = (finish: string, tokens: number): ReadonlyArray<SseData> => [
  chunk({}, finish),
  { data: { id: "embedded", object: "chat.completion.chunk", choices: [], usage: usage(tokens) } },
  { data: "[DONE]" }
]

/** Milliseconds between two words: fast enough to be short, slow enough to be seen. */
const pauseMillis = 25

const words = (text: string): ReadonlyArray<SseData> =>
  (text.match(/\S+\s*/g) ?? []).flatMap((word) => [chunk({ content: word }), { waitMs: pauseMillis }])

const says = (text: string): ProviderStep => ({
  http: 200,
  sse: [chunk({ role: "assistant", content: "" }), ...words(text), ...ending("stop", 60)],
  end: "close"
})

const calls = (
  text: string,
  ...wanted: ReadonlyArray<readonly [id: string, name: string, args: unknown]>
): ProviderStep => ({
  http: 200,
  sse: [
    chunk({ role: "assistant", content: "" }),
    ...words(text),
    ...wanted.map(([id, name, args], index) =>
      chunk({ tool_calls: [{ index, id, type: "function", function: { name, arguments: JSON.stringify(args) } }] })
    ),
    ...ending("tool_calls", 40)
  ],
  end: "close"
})

const overload: ProviderStep = { http: 529, body: { error: { type: "overloaded_error" } } }

/** What may go wrong between the first and the second answer. */
const faults: Readonly<Record<string, ReadonlyArray<ProviderStep>>> = {
  calm: [],
  "rate-limit": [
    { http: 429, headers: { "retry-after": "3" }, body: { error: { code: "rate_limit_exceeded", type: "requests" } } }
  ],
  "long-wait": [
    { http: 429, headers: { "retry-after": "60" }, body: { error: { code: "rate_limit_exceeded", type: "requests" } } }
  ],
  overload: [overload, overload, overload],
  cut: [{ http: 200, sse: [chunk({ role: "assistant", content: "" }), ...words("I am looking at the")], end: "reset" }],
  truncated: [
    {
      http: 200,
      sse: [
        chunk({ role: "assistant", content: "" }),
        ...words("The first half of a sentence "),
        ...ending("length", 8_000)
      ],
      end: "close"
    }
  ],
  loop: Array.from({ length: 8 }, (_, at) => calls("", [`again-${at}`, "list", { path: "." }])),
  "server-error": [{ http: 500, body: { error: { type: "server_error" } } }],
  auth: [{ http: 401, body: { error: { code: "invalid_api_key" } } }]
}

export const embeddedNames: ReadonlyArray<string> = Object.keys(faults)

/** The script in the form of the Responses API, by the one function that writes scripts for another API. */
const onResponses = (script: Scenario): Scenario => {
  const rewritten = rewrite({ ...script }, { name: "stream responses", surface: "stream", adapter: "responses" })
  if (rewritten._tag === "NoLike") throw new Error(`the scenario ${script.id} has no like: ${rewritten.why}`)
  // What is written for another API is a script again.
  return rewritten.script as unknown as Scenario
}

/** null = there is no scenario of that name. */
export const embedded = (name: string, allow: boolean, api: "chat" | "responses"): Scenario | null => {
  const fault = Object.hasOwn(faults, name) ? faults[name] : undefined
  if (fault === undefined) return null
  const note = "This file was written by the embedded provider of holdfast run.\n"
  const script: Scenario = {
    id: name,
    provider: [
      calls("I will look at the folder first. ", ["e1", "list", { path: "." }]),
      ...fault,
      calls("Now I search it. ", ["e2", "search", { text: "TODO" }]),
      ...(allow ? [calls("I leave a note. ", ["e3", "write", { path: "holdfast-note.txt", text: note }])] : []),
      says("Done. I have listed the folder and searched it for open tasks; nothing here came from a real model.")
    ]
  }
  return api === "chat" ? script : onResponses(script)
}
