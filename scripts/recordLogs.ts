/**
 * Records the event logs of test/logs: `node scripts/recordLogs.ts`. Each is a scenario of the drill, played through the
 * real SDK in virtual time. What the machine decided is on record there: record again only when a decision is meant to
 * have changed, and read the difference.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { playEntry } from "../src/programs/commands/drill/play.ts"
import type { Timed } from "../src/programs/commands/drill/ResultLine.ts"
import { parseScenarios } from "../src/programs/commands/drill/Scenario.ts"

const root = join(import.meta.dirname, "..")

/** Name of a log, and the scenario that leaves it behind. */
const recorded: ReadonlyArray<readonly [name: string, id: string]> = [
  ["hint-beyond-the-deadline", "D-RT-01"],
  ["rate-limits-with-hints", "D-RT-03"],
  ["unreadable-hint-in-strict", "D-RT-04"],
  ["six-retries", "D-RT-13"],
  ["quota-is-not-retried", "D-RT-02#1"],
  ["compacted-once", "D-CL-02"],
  ["summary-failed", "D-CX-01"],
  ["cut-stream-restarted", "D-NW-01"],
  ["raise-then-continue", "D-TR-02"],
  ["cut-tool-call", "D-TR-04"],
  ["raise-refused", "D-TR-07"],
  ["raised-on-the-fallback", "D-TR-09"],
  ["third-overload-switches", "D-FB-01"],
  ["background-is-shed", "D-BK-01"],
  ["session-budget-used-up", "D-SM-05"],
  ["cut-stream-resumed", "resumed"],
  ["cut-stream-spliced", "spliced"],
  ["held-by-route-health", "held"]
]

const messages = [{ role: "user", content: "go" }]
const chunk = (content: string, finish_reason: string | null = null) => ({
  data: { choices: [{ index: 0, delta: { content }, finish_reason }] }
})
const sse = (parts: ReadonlyArray<unknown>) => ({
  http: 200,
  headers: { "content-type": "text/event-stream" },
  sse: parts,
  end: "close"
})
const overloaded = { http: 529, body: { error: { type: "overloaded_error" } } }
const fine = { choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "fine" } }] }

/** Decisions that no scenario of the fixtures leads to. */
const own: ReadonlyArray<Record<string, unknown>> = [
  {
    id: "resumed",
    preset: "broad",
    config: { onCut: "resume" },
    request: { messages, stream: true },
    provider: [sse([chunk("one ")]), sse([chunk("two", "stop")])]
  },
  {
    id: "spliced",
    preset: "broad",
    config: { onCut: "splice" },
    request: { messages, stream: true },
    provider: [sse([chunk("one ")]), sse([chunk("other")]), sse([chunk("two", "stop")])]
  },
  {
    id: "held",
    preset: "broad",
    config: { routeHealth: "on", fallback: null },
    parallel: Array.from({ length: 3 }, () => ({ messages })),
    provider: [
      { ...overloaded, repeat: 6 },
      { http: 200, body: fine, repeat: 5 }
    ]
  }
]

const entriesOf = (name: string, text: string) => {
  const parsed = parseScenarios(name, text)
  if (Result.isFailure(parsed)) throw parsed.failure
  return parsed.success
}

const entries = [
  ...entriesOf("dev.json", readFileSync(join(root, "test/fixtures/scenarios/dev.json"), "utf8")),
  ...entriesOf("own", JSON.stringify({ scenarios: own.map((one) => ({ area: "logs", expect: {}, ...one })) }))
]

mkdirSync(join(root, "test/logs"), { recursive: true })
for (const [name, id] of recorded) {
  const entry = entries.find((one) => one.id === id)
  if (entry === undefined) throw new Error(`there is no scenario ${id}`)
  const record: Array<Timed> = []
  const line = await Effect.runPromise(playEntry(entry, { live: false, record }))
  if (line.status !== "ran") throw new Error(`${id} was not played: ${line.why}`)
  // The instants of the drill stand in every event anyway.
  const lines = record.map(({ atMs: _, ...event }) => JSON.stringify(event))
  writeFileSync(join(root, `test/logs/${name}.ndjson`), `${lines.join("\n")}\n`)
}
