import { assert, describe, it } from "@effect/vitest"
import { differences } from "../../../../src/programs/commands/drill/differences.ts"
import { checkLine, withoutClock } from "../../../../src/programs/commands/drill/scenarioExpect.ts"

type Json = Readonly<Record<string, unknown>>

/** A request of the main conversation. */
const main = (atMs: number, body: unknown = {}, more: Json = {}): Json => ({
  role: "main",
  model: "m",
  atMs,
  body,
  ...more
})
const user = { role: "user", content: "go" }
const assistant = { role: "assistant", content: "fine" }
const calling = (...ids: ReadonlyArray<string>) => ({
  role: "assistant",
  content: null,
  tool_calls: ids.map((id) => ({ id, type: "function", function: { name: "read", arguments: "{}" } }))
})
const result = (id: string) => ({ role: "tool", tool_call_id: id, content: "text" })
const using = (id: string) => ({ role: "assistant", content: [{ type: "tool_use", id, name: "read", input: {} }] })
const used = (id: string) => ({ role: "user", content: [{ type: "tool_result", tool_use_id: id, content: "text" }] })
const marked = (ttl?: string): Json => ({
  type: "text",
  text: "x",
  cache_control: { type: "ephemeral", ...(ttl === undefined ? {} : { ttl }) }
})
const asked = (...messages: ReadonlyArray<unknown>): Json => ({ messages })

/** An expectation, a line for which it holds, and one (or more) for which it does not. */
const rows: ReadonlyArray<readonly [name: string, want: unknown, holds: Json, ...fails: ReadonlyArray<Json>]> = [
  [
    "requests",
    [
      { model: "m", maxOutputTokens: 8 },
      { bodyHas: ["a"], bodyLacks: ["b"] }
    ],
    { requests: [main(0, {}, { maxOutputTokens: 8 }), main(1, { text: "a" })] },
    { requests: [main(0, {}, { maxOutputTokens: 8 })] },
    { requests: [main(0, {}, { maxOutputTokens: 9 }), main(1, { text: "a" })] },
    { requests: [main(0, {}, { maxOutputTokens: 8 }), main(1, { text: "ab" })] },
    { requests: [main(0, {}, { maxOutputTokens: 8 }), main(1, {})] },
    { requests: [main(0, {}, { maxOutputTokens: 8 }), { role: "main", model: "m" }] }
  ],
  // Texts are looked for in the JSON of the body.
  [
    "requests",
    [{ bodyHas: ['say "hi"'] }],
    { requests: [main(0, { text: 'say "hi"' })] },
    { requests: [main(0, { text: "say hi" })] }
  ],
  [
    "requests",
    [{ firstMessage: { role: "system" }, lastMessage: { content: "go" }, systemCount: 1, messageCount: 2 }],
    { requests: [main(0, asked({ role: "system", content: "s" }, user))] },
    { requests: [main(0, asked(user, user))] },
    { requests: [main(0, asked({ role: "system", content: "s" }, assistant))] },
    { requests: [main(0, asked({ role: "system", content: "s" }, { role: "system", content: "t" }, user))] },
    { requests: [main(0, "no JSON")] }
  ],
  ["requestCount", 1, { requests: [main(0), { role: "summarizer" }] }, { requests: [] }, { requests: [main(0), {}] }],
  ["requestModels", ["m"], { requests: [main(0)] }, { requests: [main(0, {}, { model: "n" })] }],
  ["requestAtMs", [0, 500], { requests: [main(500), main(0)] }, { requests: [main(0), main(502)] }],
  [
    "roleCounts",
    { main: 1, summarizer: 2 },
    { requests: [main(0), { role: "summarizer" }, { role: "summarizer" }] },
    { requests: [main(0), { role: "summarizer" }] }
  ],
  [
    "rolesInOrder",
    ["main", "summarizer"],
    { requests: [{}, { role: "summarizer" }] },
    { requests: [{ role: "summarizer" }, {}] }
  ],
  ["sleepsMs", [500, 1_000], { sleepsMs: [0, 500, 1_000.9] }, { sleepsMs: [500] }, { sleepsMs: [500, 1_002] }, {}],
  ["minGapMs", 500, { requests: [main(0), main(500), main(1_000)] }, { requests: [main(0), main(500), main(998)] }],
  [
    "gapsNonDecreasing",
    true,
    { requests: [main(0), main(500), main(1_000), main(2_000)] },
    { requests: [main(0), main(500), main(900), main(2_000)] }
  ],
  ["elapsedMs", 500, { elapsedMs: 501 }, { elapsedMs: 502 }, {}],
  [
    "endsAtMs",
    500,
    { elapsedMs: 900, results: [{ endedAtMs: 500 }] },
    { elapsedMs: 500, results: [{ endedAtMs: 900 }] }
  ],
  ["endsAtMs", 500, { elapsedMs: 500, results: [{}] }, { elapsedMs: 900, results: [] }],
  [
    "result",
    { reply: "fine" },
    { results: [{ reply: "fine", model: "m" }] },
    { results: [{ reply: "wrong" }] },
    { results: [] }
  ],
  // Both wires of a tool call are compared as id, name and JSON arguments.
  [
    "result",
    { toolCalls: [{ id: "c1", name: "read", args: { a: 1, b: [2] } }] },
    { results: [{ toolCalls: [{ id: "c1", function: { name: "read", arguments: '{"b":[2],"a":1}' } }] }] },
    { results: [{ toolCalls: [{ id: "c1", name: "read", args: { a: 1, b: [3] } }] }] },
    { results: [{ toolCalls: [{ id: "c1", name: "read", arguments: "{" }] }] },
    { results: [{ toolCalls: [{ id: "c1", name: "write", arguments: '{"a":1,"b":[2]}' }] }] },
    { results: [{ toolCalls: "none" }] }
  ],
  [
    "results",
    [{ reply: "one" }, { reply: "two" }],
    { results: [{ reply: "one" }, { reply: "two" }] },
    { results: [{ reply: "one" }] },
    { results: [{ reply: "two" }, { reply: "one" }] }
  ],
  [
    "resultCounts",
    [{ like: { error: "X" }, count: 2 }],
    { results: [{ error: "X" }, { reply: "" }, { error: "X" }] },
    { results: [{ error: "X" }] }
  ],
  [
    "anyOf",
    [{ requestCount: 0 }, { elapsedMs: 5 }],
    { elapsedMs: 5, requests: [main(0)] },
    { elapsedMs: 9, requests: [main(0)] }
  ],
  ["history", [user, assistant], { history: [user, assistant] }, { history: [user] }, { history: null }],
  ["historyUnchanged", true, { historyUnchanged: true }, { historyUnchanged: false }],
  ["historyHas", ["fine"], { history: [assistant] }, { history: [user] }, {}],
  [
    "usageTotal",
    { promptTokens: 5, cachedTokens: null },
    { usageTotal: { promptTokens: 5, cachedTokens: null } },
    { usageTotal: { promptTokens: 5, cachedTokens: 0 } }
  ],
  ["costUsd", 0.25, { costUsd: 0.25 }, { costUsd: 0.251 }, { costUsd: null }],
  ["costUsd", null, { costUsd: null }, { costUsd: 0 }],
  ["toolExecutions", [{ name: "read" }], { toolExecutions: [{ name: "read", args: {} }] }, { toolExecutions: [] }],
  ["toolExecutions", [], {}, { toolExecutions: [{ name: "read" }] }],
  [
    "toolExecutionCounts",
    { read: 2, write: 0 },
    { toolExecutions: [{ name: "read" }, { name: "read" }] },
    { toolExecutions: [{ name: "read" }, { name: "write" }] }
  ],
  ["toolResults", [{ kind: "ok" }], { toolResults: [{ kind: "ok", id: "c1" }] }, { toolResults: [{ kind: "failed" }] }],
  ["toolResults", [], {}, { toolResults: [{ kind: "ok" }] }],
  [
    "pairedToolCalls",
    true,
    {
      requests: [main(0, asked(user, calling("a", "b"), result("b"), result("a"), user))],
      history: [user, using("a"), used("a")]
    },
    { requests: [main(0, asked(user, calling("a", "b"), result("a"), user))], history: [] },
    { requests: [main(0, asked(user, result("a")))], history: [] },
    { requests: [main(0, asked(calling("a"), result("a"), result("a")))], history: [] },
    { requests: [main(0, asked(calling("a")))], history: [] },
    { requests: [], history: [using("a"), user] },
    { requests: [], history: [used("a")] },
    { requests: [], history: null }
  ],
  // The summarizer may be asked about anything, and a message that is none pairs nothing.
  [
    "pairedToolCalls",
    true,
    { requests: [{ role: "summarizer", body: asked(result("a")) }], history: ["text"] },
    { requests: [{ role: "background", body: asked(result("a")) }], history: [] }
  ],
  [
    "requestTails",
    [null, [{ content: "fine" }, { role: "user" }]],
    { requests: [main(0), main(1, asked(user, assistant, user))] },
    { requests: [main(0), main(1, asked(user, user, user))] },
    { requests: [main(0), main(1, asked(user))] },
    { requests: [main(0)] }
  ],
  [
    "lastRoleOfEachRequest",
    "user",
    { requests: [main(0, asked(assistant, user))] },
    { requests: [main(0, asked(user, assistant))] },
    { requests: [main(0, asked())] }
  ],
  [
    "sameMessagesAcrossRequests",
    true,
    { requests: [main(0, asked(user)), main(1, asked({ content: "go", role: "user" }))] },
    { requests: [main(0, asked(user)), main(1, asked(user, user))] },
    { requests: [main(0, asked(user)), main(1, asked("go"))] },
    { requests: [main(0, asked(user)), main(1, asked({ ...user, name: "x" }))] }
  ],
  [
    "sameToolsAcrossRequests",
    true,
    { requests: [main(0, { tools: [1] }), main(1, { tools: [1] })] },
    { requests: [main(0, { tools: [1] }), main(1, "none")] },
    { requests: [main(0, { tools: [1] }), main(1, { tools: [2] })] }
  ],
  [
    "eventsInOrder",
    [{ _tag: "A" }, { _tag: "B", n: { $min: 2 } }],
    { events: [{ _tag: "A" }, { _tag: "B", n: 1 }, { _tag: "B", n: 2 }] },
    { events: [{ _tag: "B", n: 2 }, { _tag: "A" }] },
    { events: [{ _tag: "A" }] }
  ],
  [
    "eventsInOrder",
    [{ _tag: "A" }, { _tag: "A" }],
    { events: [{ _tag: "A" }, { _tag: "A" }] },
    { events: [{ _tag: "A" }] }
  ],
  [
    "eventCounts",
    { A: 2, B: 0 },
    { events: [{ _tag: "A" }, { _tag: "A" }, "A"] },
    { events: [{ _tag: "A" }] },
    { events: [{ _tag: "A" }, { _tag: "A" }, { _tag: "B" }] }
  ],
  ["noEvent", [{ _tag: "A", n: 1 }], { events: [{ _tag: "A", n: 2 }] }, { events: [{ _tag: "A", n: 1, m: 3 }] }],
  [
    "partsInOrder",
    [{ _tag: "TextDelta" }, { _tag: "Finish" }],
    { parts: [{ _tag: "TextDelta" }, { _tag: "Notice" }, { _tag: "Finish" }] },
    { parts: [{ _tag: "Finish" }, { _tag: "TextDelta" }] }
  ],
  [
    "textAfterLastReset",
    "bc",
    {
      parts: [
        { _tag: "TextDelta", text: "a" },
        { _tag: "Reset" },
        { _tag: "TextDelta", text: "b" },
        { _tag: "Notice", text: "x" },
        { _tag: "TextDelta", text: "c" },
        { _tag: "TextDelta" }
      ]
    },
    { parts: [{ _tag: "Reset" }, { _tag: "TextDelta", text: "bc" }, { _tag: "Reset" }] }
  ],
  ["textAfterLastReset", "ab", { parts: [{ _tag: "TextDelta", text: "ab" }] }, { parts: [] }],
  ["resets", 1, { parts: [{ _tag: "Reset" }] }, { parts: [] }],
  [
    "heartbeats",
    { maxGapMs: 1_000, atLeast: [1_000, { $min: 1_500 }] },
    {
      requests: [main(0), main(2_000)],
      heartbeatsAtMs: [1_001, 1_600],
      elapsedMs: 3_001
    },
    { requests: [main(0), main(2_000)], heartbeatsAtMs: [1_001], elapsedMs: 3_001 },
    { requests: [main(0), main(2_000)], heartbeatsAtMs: [1_002, 1_600], elapsedMs: 3_001 },
    { requests: [main(0), main(2_000)], heartbeatsAtMs: [1_000, 1_600], elapsedMs: 3_002 },
    { requests: [main(0)], heartbeatsAtMs: [1_000, 1_600], elapsedMs: 2_800 }
  ],
  ["heartbeats", { atLeast: [1_000] }, { heartbeatsAtMs: [1_000], elapsedMs: 99_000, requests: [{}] }, {}],
  ["loopWarnings", 2, { loop: { warnedAtCalls: [5, 9] } }, { loop: { warnedAtCalls: [5] } }, {}],
  ["warnsAtCall", 5, { loop: { warnedAtCalls: [5, 9] } }, { loop: { warnedAtCalls: [9, 5] } }, {}],
  ["breaksAtCall", 8, { loop: { brokenAtCall: 8 } }, { loop: { brokenAtCall: null } }],
  ["detector", "repeat", { loop: { detector: "repeat" } }, { loop: { detector: "ping_pong" } }],
  ["connectionsOpenAtEnd", 0, { connectionsOpen: 0 }, { connectionsOpen: 1 }],
  ["exitCode", 75, { exitCode: 75 }, { exitCode: 1 }],
  ["secretsAbsent", ["key-1"], { results: [{ error: "key-2" }] }, { results: [{ error: "the key-1" }] }],
  [
    "cacheMarkers",
    { min: 2, max: 3 },
    { requests: [main(0, { tools: [marked()], system: [marked()], messages: [] })] },
    { requests: [main(0, { tools: [marked()] })] },
    {
      requests: [main(0, { tools: [marked(), marked()], messages: [marked(), { role: "user", content: [marked()] }] })]
    },
    { requests: [main(0, "none")] },
    {}
  ],
  [
    "cacheMarkers",
    { ttlNonIncreasing: true },
    { requests: [main(0, { tools: [marked("1h")], messages: [{ role: "user", content: [marked("5m"), marked()] }] })] },
    { requests: [main(0, { tools: [marked()], messages: [{ role: "user", content: [marked("1h")] }] })] }
  ],
  [
    "cacheMarkers",
    { sameTtlAcrossRequests: true },
    { requests: [main(0, { tools: [marked("1h")] }), main(1, { tools: [marked("1h"), marked("1h")] })] },
    { requests: [main(0, { tools: [marked("1h")] }), main(1, { tools: [marked()] })] }
  ],
  [
    "cacheMarkers",
    { samePrefixAcrossRequests: true },
    { requests: [main(0, { tools: [1], system: "s" }), main(1, { tools: [1], system: "s", messages: [2] })] },
    { requests: [main(0, { tools: [1], system: "s" }), main(1, { tools: [2], system: "s" })] },
    { requests: [main(0, { tools: [1], system: "s" }), main(1, { tools: [1], system: "t" })] }
  ]
]

describe("an expectation", () => {
  it.each(rows.map(([name, want, holds, ...fails], at) => ({ name, at, want, holds, fails })))(
    "$name (row $at) holds for what it names and for nothing else",
    ({ name, want, holds, fails }) => {
      assert.deepStrictEqual(checkLine({ expect: { [name]: want } }, holds), [])
      for (const line of fails) assert.isNotEmpty(checkLine({ expect: { [name]: want } }, line), JSON.stringify(line))
    }
  )

  it.each([
    { scenario: { request: { messages: [user] } } },
    { scenario: { script: [{ call: { messages: [user] } }] } }
  ])("loopWarningInHistory wants one more user message than $scenario brought", ({ scenario }) => {
    const expecting = { ...scenario, expect: { loopWarningInHistory: true } }
    assert.deepStrictEqual(checkLine(expecting, { history: [user, assistant, user] }), [])
    assert.lengthOf(checkLine(expecting, { history: [user, assistant] }), 1)
  })

  it("counts every user message where the scenario brought none", () => {
    for (const scenario of [{}, { script: [] }, { script: ["say"] }, { request: {} }]) {
      assert.deepStrictEqual(
        checkLine({ ...scenario, expect: { loopWarningInHistory: true } }, { history: [user] }),
        []
      )
      assert.lengthOf(checkLine({ ...scenario, expect: { loopWarningInHistory: true } }, { history: [] }), 1)
    }
  })

  it("cannot hold when a request found no answer", () => {
    assert.lengthOf(checkLine({ expect: { requestCount: 0 } }, { results: [{ error: "ScriptEnded" }] }), 1)
    assert.lengthOf(checkLine({}, { results: [{ error: "ScriptEnded" }] }), 1)
    assert.deepStrictEqual(checkLine({}, { results: [{ error: "Other" }] }), [])
  })

  it.each([
    { requests: [7] },
    { heartbeats: 7 },
    { cacheMarkers: 7 },
    { roleCounts: 7 },
    { resultCounts: [7] },
    { anyOf: [7] },
    { minGapMs: "long" }
  ])("that is none never holds: %j", (expect) => {
    const requests = [main(0), main(1)].slice("requests" in expect ? 1 : 0)
    assert.lengthOf(checkLine({ expect }, { requests }), 1)
  })

  it("of a request may be left out", () =>
    assert.deepStrictEqual(checkLine({ expect: { requests: [null] } }, { requests: [main(0)] }), []))

  it("names none of several ways that fails, with the first difference of each", () => {
    const [sentence = ""] = checkLine(
      { expect: { anyOf: [{ elapsedMs: 5 }, { exitCode: 1 }, 7] } },
      { elapsedMs: 9, exitCode: 0 }
    )
    assert.include(sentence, "elapsedMs")
    assert.include(sentence, "exitCode")
  })
})

describe("a value", () => {
  it.each([
    [{ $any: true }, "x", true],
    [{ $any: true }, 0, true],
    [{ $any: true }, "", false],
    [{ $any: true }, null, false],
    [{ $any: true }, undefined, false],
    [{ $has: "b" }, "abc", true],
    [{ $has: "b" }, ["b"], true],
    [{ $has: "b" }, "ac", false],
    [{ $has: "b" }, null, false],
    [{ $has: "b" }, undefined, false],
    [{ $min: 2, $max: 4 }, 2, true],
    [{ $min: 2, $max: 4 }, 4, true],
    [{ $min: 2, $max: 4 }, 1.9, false],
    [{ $min: 2, $max: 4 }, 4.1, false],
    [{ $min: 2 }, "3", false],
    [{ $max: 2 }, null, false],
    [null, null, true],
    [null, undefined, true],
    [null, 0, false],
    [null, "", false],
    [1, 1, true],
    [1, 1.5, false],
    [1, "1", false],
    ["a", "a", true],
    ["a", "b", false],
    [true, true, true],
    [true, 1, false],
    [[1, 2], [1, 2], true],
    [[1, 2], [2, 1], false],
    [[1], [1, 2], false],
    [[1], "1", false],
    [{ a: 1 }, { a: 1, b: 2 }, true],
    [{ a: 1 }, { b: 1 }, false],
    [{ a: 1 }, [1], false]
  ])("%j is met by %j: %s", (want, have, expected) => {
    assert.strictEqual(differences(want, have, "value").length === 0, expected)
  })

  it.each([
    ["elapsedMs", 500, 501, true],
    ["elapsedMs", 500, 501.5, false],
    ["requestAtMs[2]", 500, 499, true],
    ["delayMillis", 500, 501, true],
    ["attempts", 500, 501, false],
    ["content", null, "", true],
    ["content", null, [], true],
    ["content", null, "x", false],
    ["content", "ab", [{ text: "a" }, { image: 1 }, { text: "b" }], true],
    ["content", "ab", [{ text: "a" }], false],
    ["text", "ab", [{ text: "ab" }], false],
    ["args", { a: [1, { b: null }] }, '{"a":[1,{"b":null}]}', true],
    ["arguments", '{"a":1}', { a: 1 }, true],
    ["arguments", { a: 1 }, { a: 1, b: 2 }, false],
    ["arguments", { a: 1 }, [1], false],
    ["args", [1], [1, 2], false],
    ["args", [1], { 0: 1 }, false],
    ["args", "{", "{", true]
  ])("of %s, %j is met by %j: %s", (path, want, have, expected) => {
    assert.strictEqual(differences(want, have, `line.${path}`).length === 0, expected)
  })

  it("is shown in the difference, cut when it is long", () => {
    assert.deepStrictEqual(differences("a", undefined, "reply"), ['reply is nothing, wanted "a"'])
    const [sentence = ""] = differences("a", "b".repeat(500), "reply")
    assert.isBelow(sentence.length, 150)
  })
})

it("takes instants and spans out of an expectation for runs in real time, and keeps decided waits", () => {
  assert.deepStrictEqual(
    withoutClock({
      sleepsMs: [500],
      elapsedMs: 500,
      endsAtMs: 1,
      requestAtMs: [0],
      minGapMs: 5,
      gapsNonDecreasing: true,
      heartbeats: { maxGapMs: 5 },
      requests: [{ model: "m", atMs: 5 }],
      result: { error: "RecoveryDeadlineExceeded", fields: { retryAt: 5, remainingMs: 5, requestedWaitMs: 7 } }
    }),
    {
      sleepsMs: [500],
      requests: [{ model: "m" }],
      result: { error: "RecoveryDeadlineExceeded", fields: { requestedWaitMs: 7 } }
    }
  )
})
