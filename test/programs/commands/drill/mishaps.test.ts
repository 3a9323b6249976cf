import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { parseScenarios } from "../../../../src/programs/commands/drill/Scenario.ts"
import { checkLine } from "../../../../src/programs/commands/drill/scenarioExpect.ts"
import { playEntry } from "../../../../src/programs/commands/drill/play.ts"

const messages = [{ role: "user", content: "task" }]
const fine = (content: string | null, finish_reason = "stop", message: Record<string, unknown> = {}) => ({
  http: 200,
  body: {
    choices: [{ index: 0, finish_reason, message: { role: "assistant", content, ...message } }],
    usage: { prompt_tokens: 100, completion_tokens: 20 }
  }
})
const look = { id: "c1", type: "function", function: { name: "look", arguments: "{}" } }
const tools = [{ type: "function", function: { name: "look", parameters: { type: "object" } } }]
const text = (content: string) => ({ data: { choices: [{ index: 0, delta: { content }, finish_reason: null }] } })
const stop = { data: { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] } }
const sse = (items: ReadonlyArray<unknown>, end: string) => ({
  http: 200,
  headers: { "content-type": "text/event-stream" },
  sse: items,
  end
})
const agent = { mode: "agent", request: { messages, tools }, tools: { look: { text: "seen" } } }

/** What happened in no recorded report, as scenarios of the same kind. */
const scenarios: ReadonlyArray<Readonly<Record<string, unknown>> & { readonly id: string }> = [
  {
    id: "an attempt that the deadline ends is counted",
    config: { deadlineMs: 10_000 },
    request: { messages },
    provider: [
      { http: 429, headers: { "retry-after": "5" }, body: {} },
      { ...fine("late"), delayMs: 6_000 }
    ],
    expect: { requestCount: 2, result: { error: "RecoveryDeadlineExceeded", fields: { attempts: 2 } } }
  },
  {
    id: "an attempt of a stream that the hard cap ends is counted",
    preset: "broad",
    config: { hardCapMs: 60_000 },
    request: { messages, stream: true },
    provider: [sse([{ repeat: 40, seq: [{ waitMs: 10_000 }, text("x")] }, stop], "close")],
    expect: { requestCount: 1, result: { error: "RecoveryDeadlineExceeded", fields: { attempts: 1 } } }
  },
  {
    id: "a stream that hangs behind its finish reason is a whole reply and paid once",
    preset: "broad",
    request: { messages, stream: true },
    provider: [sse([text("whole"), stop], "hang")],
    expect: { requestCount: 1, result: { reply: "whole" }, resets: 0, connectionsOpenAtEnd: 0 }
  },
  {
    id: "comments behind the finish reason do not prolong the one grace",
    preset: "broad",
    request: { messages, stream: true },
    provider: [sse([text("whole"), stop, { repeat: 20, seq: [{ waitMs: 2_000 }, { comment: "ping" }] }], "hang")],
    expect: { requestCount: 1, result: { reply: "whole" }, resets: 0, elapsedMs: 5_000, connectionsOpenAtEnd: 0 }
  },
  {
    id: "the grace is the same under shorter timers of silence",
    preset: "broad",
    config: { idleTimeoutMs: 1_000, contentTimeoutMs: 2_000 },
    request: { messages, stream: true },
    provider: [
      sse(
        [
          text("whole"),
          stop,
          { waitMs: 4_000 },
          { data: { choices: [], usage: { prompt_tokens: 7, completion_tokens: 3 } } }
        ],
        "hang"
      )
    ],
    expect: {
      requestCount: 1,
      result: { reply: "whole" },
      elapsedMs: 5_000,
      usageTotal: { promptTokens: 7, completionTokens: 3, known: true }
    }
  },
  {
    id: "a reply that is whole when the deadline comes is kept",
    config: { deadlineMs: 3_000 },
    request: { messages, stream: true },
    provider: [sse([text("whole"), stop], "hang")],
    expect: { requestCount: 1, result: { reply: "whole" }, elapsedMs: 3_000, connectionsOpenAtEnd: 0 }
  },
  {
    id: "a tool call that is whole when the attempt's time is over is kept and shown",
    preset: "broad",
    config: { attemptTimeoutMs: 2_000 },
    request: { messages, stream: true },
    provider: [
      sse(
        [
          {
            data: {
              choices: [{ index: 0, delta: { tool_calls: [{ ...look, index: 0 }] }, finish_reason: null }]
            }
          },
          { data: { choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] } }
        ],
        "hang"
      )
    ],
    expect: { requestCount: 1, partsInOrder: [{ _tag: "ToolCallReady" }, { _tag: "Finish" }], elapsedMs: 2_000 }
  },
  {
    id: "the wire's own end is the end, however long the line stays open",
    preset: "broad",
    request: { messages, stream: true },
    provider: [sse([text("whole"), stop, { data: "[DONE]" }, { waitMs: 9_000 }, { comment: "still here" }], "hang")],
    expect: { requestCount: 1, result: { reply: "whole" }, elapsedMs: 0, connectionsOpenAtEnd: 0 }
  },
  {
    id: "usage may come late behind the finish reason",
    request: { messages, stream: true },
    provider: [
      sse(
        [
          text("whole"),
          stop,
          { waitMs: 3_000 },
          { data: { choices: [], usage: { prompt_tokens: 7, completion_tokens: 3 } } },
          { data: "[DONE]" }
        ],
        "hang"
      )
    ],
    expect: { result: { reply: "whole" }, usageTotal: { promptTokens: 7, completionTokens: 3, known: true } }
  },
  {
    id: "an agent that a content filter stops tells how many requests it made",
    ...agent,
    provider: [fine(null, "tool_calls", { tool_calls: [look] }), fine("par", "content_filter")],
    expect: { requestCount: 2, result: { error: "ContentFilteredError", fields: { attempts: 2, partial: "par" } } }
  },
  {
    id: "an agent at its step cap counts repeated requests too",
    ...agent,
    config: { maxSteps: 1 },
    provider: [
      { http: 429, headers: { "retry-after": "1" }, body: {} },
      fine(null, "tool_calls", { tool_calls: [look] })
    ],
    expect: { requestCount: 2, result: { error: "StepLimitReached", fields: { attempts: 2 } } }
  }
]

const parsed = parseScenarios("mishaps", JSON.stringify({ scenarios: scenarios.map((one) => ({ area: "x", ...one })) }))

it.live.each((Result.isSuccess(parsed) ? parsed.success : []).map((entry) => [entry.id, entry] as const))(
  "%s",
  ([, entry]) =>
    Effect.gen(function* () {
      const line = yield* playEntry(entry, { live: false })
      assert.strictEqual(line.status, "ran")
      const scenario = Result.getOrThrow(entry.scenario)
      assert.deepStrictEqual(checkLine({ ...scenario }, { ...line }), [])
    })
)
