import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import {
  expandSse,
  expandSteps,
  generatedBody,
  makeStepQueue,
  parseScenario,
  parseScenarios,
  sseText
} from "../../../../src/programs/commands/drill/Scenario.ts"

const call = { messages: [{ role: "user", content: "go" }] }
const scenario = { id: "X-01", request: call, provider: [] }

describe("a scenario", () => {
  it.each([
    { given: { id: "X-01", provider: [] }, says: "needs exactly one of request, script and parallel" },
    { given: { ...scenario, parallel: [call] }, says: "needs exactly one of request, script and parallel" },
    { given: { ...scenario, script: [{ call }] }, says: "needs exactly one of request, script and parallel" },
    { given: { ...scenario, colour: "red" }, says: "colour" },
    { given: { ...scenario, provider: [{ http: "200" }] }, says: "http" }
  ])("is refused under its own name: $given", ({ given, says }) => {
    const parsed = parseScenario(given, 3)
    assert(Result.isFailure(parsed))
    assert.strictEqual(parsed.failure.field, "X-01")
    assert.include(parsed.failure.reason, says)
    assert.notInclude(parsed.failure.reason, "\n")
  })

  it.each([7, null, [scenario], { request: call, provider: [] }, { id: 7, request: call, provider: [] }])(
    "without a name is refused by its place: %j",
    (given) => {
      const parsed = parseScenario(given, 3)
      assert.strictEqual(Result.isFailure(parsed) ? parsed.failure.field : "read", "scenarios[3]")
    }
  )

  it.each([{ request: call }, { script: [{ call }, { say: "more" }, { drop: [1] }] }, { parallel: [call, call] }])(
    "has its call or calls in one way: %j",
    (calls) => assert.isTrue(Result.isSuccess(parseScenario({ id: "X-01", provider: [], ...calls }, 0)))
  )
})

describe("a file of scenarios", () => {
  const read = (value: unknown) => {
    const parsed = parseScenarios("file.json", JSON.stringify(value))
    assert(Result.isSuccess(parsed))
    return parsed.success.map(
      (entry) => `${entry.id} ${Result.isSuccess(entry.scenario) ? "ok" : entry.scenario.failure.reason}`
    )
  }

  it.each([
    { given: { format: 2, scenarios: [scenario, { ...scenario, id: "X-02" }] }, then: ["X-01 ok", "X-02 ok"] },
    { given: [scenario], then: ["X-01 ok"] },
    { given: scenario, then: ["X-01 ok"] },
    { given: [], then: [] }
  ])("is an object with a list, a list, or one scenario: $then", ({ given, then }) =>
    assert.deepStrictEqual(read(given), then)
  )

  it("keeps the others when one is at fault or stands twice", () => {
    const lines = read([scenario, { id: "X-02" }, { ...scenario, id: "X-03" }, { ...scenario, note: "again" }, 7])
    assert.deepStrictEqual(
      lines.map((line) => line.split(" ").slice(0, 2).join(" ")).filter((line) => line.endsWith("ok")),
      ["X-01 ok", "X-03 ok"]
    )
    assert.strictEqual(lines[3], "X-01 stands in the file twice")
    assert.match(lines[4] ?? "", /^scenarios\[4\] /)
  })

  it("that is not JSON is a fault of the whole", () => {
    const parsed = parseScenarios("file.json", "{")
    assert(Result.isFailure(parsed))
    assert.deepInclude({ ...parsed.failure }, { field: "file.json", reason: "is not JSON" })
  })
})

describe("answers", () => {
  it("are handed out in order, one queue per role, repeats and cycles spelled out", () => {
    const queue = makeStepQueue([
      { http: 1, repeat: 2 },
      { role: "summarizer", http: 9 },
      { cycle: [{ http: 2 }, { http: 3, repeat: 2 }], repeat: 2 }
    ])
    const all = (role: string): ReadonlyArray<number | undefined> => {
      const step = queue.take(role)
      return step === null ? [] : [step.http, ...all(role)]
    }
    assert.deepStrictEqual(all("main"), [1, 1, 2, 3, 3, 2, 3, 3])
    assert.deepStrictEqual(all("summarizer"), [9])
    assert.deepStrictEqual(all("background"), [])
  })

  it("that are generated come as often as they count", () => {
    const generate = { count: 3, tool: "read", args: {} }
    assert.lengthOf(expandSteps([{ generate, repeat: 2 }]), 6)
    assert.lengthOf(expandSteps([{ generate: { tool: "read", args: {} } }]), 1)
    assert.isEmpty(expandSteps([{ http: 200, repeat: 0 }]))
  })

  const generate = {
    tool: "read_{i}",
    args: { path: "f{i}", deep: [{ n: "{i}" }, 7, null, true] },
    text: "step {i} of {i}"
  }
  const args = { path: "f4", deep: [{ n: "4" }, 7, null, true] }

  it("that are generated carry their number in every text", () => {
    assert.deepNestedInclude(generatedBody(generate, 4, "openai") as object, {
      "choices[0].finish_reason": "tool_calls",
      "choices[0].message.content": "step 4 of 4",
      "choices[0].message.tool_calls[0].id": "g4",
      "choices[0].message.tool_calls[0].function": { name: "read_4", arguments: JSON.stringify(args) },
      usage: { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 }
    })
    assert.deepInclude(generatedBody(generate, 4, "anthropic") as object, {
      stop_reason: "tool_use",
      content: [
        { type: "text", text: "step 4 of 4" },
        { type: "tool_use", id: "g4", name: "read_4", input: args }
      ],
      usage: { input_tokens: 100, output_tokens: 20 }
    })
  })

  it("that are generated without text have none", () => {
    const silent = { tool: "read", args: {} }
    assert.deepNestedInclude(generatedBody(silent, 1, "openai") as object, { "choices[0].message.content": null })
    assert.deepInclude(generatedBody(silent, 1, "anthropic") as object, {
      content: [{ type: "tool_use", id: "g1", name: "read", input: {} }]
    })
  })
})

describe("an item of a stream", () => {
  it.each([
    [{ data: { a: 1 } }, 'data: {"a":1}\n\n'],
    [{ data: "[DONE]" }, "data: [DONE]\n\n"],
    [{ data: "two\nlines", event: "note" }, "event: note\ndata: two\ndata: lines\n\n"],
    [{ comment: "ping" }, ": ping\n\n"],
    [{ raw: "data: {\r\n" }, "data: {\r\n"],
    [{ raw: "", data: "x" }, ""],
    [{ waitMs: 500 }, ""]
  ])("%j is written as %j", (item, text) => assert.strictEqual(sseText(item), text))

  it("is repeated, sequences within sequences too", () => {
    const data = (text: string) => ({ data: text })
    const items = [data("a"), { repeat: 2, seq: [data("b"), { repeat: 2, seq: [data("c")] }] }, { seq: [data("d")] }]
    assert.deepStrictEqual(
      expandSse(items).map((item) => item.data),
      ["a", "b", "c", "c", "b", "c", "c", "d"]
    )
  })
})
