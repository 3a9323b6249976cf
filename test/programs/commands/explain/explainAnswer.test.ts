import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { profileNamed } from "../../../../src/domain/provider/Profiles.ts"
import { generic } from "../../../../src/domain/provider/profiles/generic.ts"
import { bareCase, caseOf, pastedCase, type AnswerCase } from "../../../../src/programs/commands/explain/answerCase.ts"
import {
  explainAnswer,
  explainUnnamed,
  type Explanation
} from "../../../../src/programs/commands/explain/explainAnswer.ts"
import { nextLines } from "../../../../src/programs/commands/explain/nextOf.ts"
import { profileShown } from "../../../../src/programs/commands/explain/profileShown.ts"
import { eventTexts, plain as textOf } from "../../../support/nativeScripts.ts"
import { runs } from "../../../support/runs.ts"

interface Expected {
  readonly bestKind: string
  readonly genericKind: string
  readonly retryAfterSeconds: number | null | "invalid"
  readonly hintSeconds: number | null
  readonly hintSource: string | null
  readonly retryableStrict: boolean
  readonly retryableBroad: boolean
  readonly contested?: string
}

interface Recorded {
  readonly id: string
  readonly provider: string
  readonly expected: Expected
}

const recorded = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../../fixtures/corpus/dev.json"), "utf8")
) as ReadonlyArray<Recorded>

const plain = recorded.filter((one) => one.expected.contested === undefined)

const read = (raw: unknown): AnswerCase => caseOf(raw, 1, 0)!

const ownProfile = (one: Recorded) => profileNamed(one.provider) ?? generic

const facts = (found: Explanation) => ({
  kind: found.kind,
  retryAfterSeconds: found.retryAfterSeconds,
  hintSeconds: found.hintSeconds,
  hintSource: found.hintSource,
  strict: found.retryable.strict,
  broad: found.retryable.broad
})

/** Keys whose texts are for people. */
const prose = new Set(["message", "msg", "detail", "description", "status_msg", "remedy_hint", "failed_generation"])

/** The same answer with other words in it; null in `events` texts that are no JSON. */
const reworded = (value: unknown, words: string, key = ""): unknown => {
  if (typeof value === "string") return prose.has(key) || key === "error" ? words : value
  if (Array.isArray(value)) return value.map((entry) => reworded(entry, words, key))
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, reworded(entry, words, name)]))
}

const rewordedEvent = (event: unknown, words: string): unknown =>
  typeof event === "string" && event.startsWith("{") ? JSON.stringify(reworded(JSON.parse(event), words)) : event

const rewordedCase = (one: Recorded, words: string): unknown => {
  const raw = one as unknown as Record<string, unknown>
  const page = typeof raw["body"] === "string" && raw["body"].trim().startsWith("<")
  return {
    ...raw,
    ...(raw["body"] === undefined ? {} : { body: page ? `<html>${words}</html>` : reworded(raw["body"], words) }),
    ...(Array.isArray(raw["events"]) ? { events: raw["events"].map((event) => rewordedEvent(event, words)) } : {})
  }
}

const otherFaults = ["prompt is too long", "429 rate limit reached", "insufficient_quota", "overloaded_error", "529"]

describe("a recorded answer", () => {
  it.each(plain.map((one) => [one.id, one] as const))("%s is read with its provider's profile", (_, one) => {
    assert.deepStrictEqual(facts(explainAnswer(ownProfile(one), read(one))), {
      kind: one.expected.bestKind,
      retryAfterSeconds: one.expected.retryAfterSeconds,
      hintSeconds: one.expected.hintSeconds,
      hintSource: one.expected.hintSource,
      strict: one.expected.retryableStrict,
      broad: one.expected.retryableBroad
    })
  })

  it.each(plain.map((one) => [one.id, one] as const))("%s is read without a profile", (_, one) => {
    assert.strictEqual(explainAnswer(generic, read(one)).kind, one.expected.genericKind)
  })

  it("is read the same whatever its words speak of", () => {
    for (const words of otherFaults)
      for (const one of recorded)
        for (const profile of [ownProfile(one), generic])
          assert.deepStrictEqual(
            explainAnswer(profile, read(rewordedCase(one, words))),
            explainAnswer(profile, read(one)),
            `${one.id}: ${words}`
          )
  })

  it.effect.prop(
    "is read the same with any other words",
    { words: Schema.NonEmptyString, index: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1000 })) },
    ({ words, index }) =>
      Effect.sync(() => {
        const one = recorded[index % recorded.length]!
        assert.deepStrictEqual(
          explainAnswer(ownProfile(one), read(rewordedCase(one, words))),
          explainAnswer(ownProfile(one), read(one))
        )
      }),
    { arbitrary: { runs: runs(200) } }
  )
})

describe("numbers and texts", () => {
  const hello = { choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "hi" } }] }
  it.each([
    ["minimax", 200, { ...hello, base_resp: { status_code: "0" } }, "ok"],
    ["minimax", 200, { ...hello, base_resp: { status_code: 0 } }, "ok"],
    ["minimax", 200, { base_resp: { status_code: "1002" } }, "rate_limited"],
    ["zhipu", 429, { error: { code: 1113 } }, "quota_exhausted"],
    ["zhipu", 429, { error: { code: "1113" } }, "quota_exhausted"],
    ["openai", 200, { error: { code: 429.5 } }, "malformed_response"]
  ] as const)("of %s mean the same in a %i: %j", (provider, status, body, kind) => {
    const given = read({ id: "x", provider, status, body })
    assert.strictEqual(explainAnswer(profileNamed(provider) ?? generic, given).kind, kind)
  })
})

describe("a pasted answer", () => {
  it("is read with its status line and headers", () => {
    const given = pastedCase(
      'HTTP/1.1 100 Continue\r\n\r\nHTTP/2 429\r\nRetry-After: 7\r\nRetry-After-Ms: 6500\r\n\r\n{"error":{"code":"x"}}',
      0
    )!
    assert.deepStrictEqual(facts(explainAnswer(generic, given)), {
      kind: "rate_limited",
      retryAfterSeconds: 7,
      hintSeconds: 6.5,
      hintSource: "retry-after-ms",
      strict: true,
      broad: true
    })
  })

  it("is a stream when its type says so", () => {
    const given = pastedCase(
      'HTTP/2 200\ncontent-type: text/event-stream\n\ndata: {"error":{"code":503}}\n\ndata: [DONE]\n\n',
      0
    )!
    const found = explainAnswer(generic, given)
    assert.deepStrictEqual([found.kind, found.error], ["server_error", "ModelServerError"])
  })

  it("is nothing without a status line", () => assert.isNull(pastedCase('{"error":1}', 0)))

  it.each([100, 304, 307, 600, 999])("with status %i is no valid reply and never retried", (status) => {
    const found = explainAnswer(generic, pastedCase(`HTTP/1.1 ${status} X\nlocation: /login\n\n<html>`, 0)!)
    assert.deepStrictEqual(
      [found.kind, found.error, found.retryable],
      ["malformed_response", "OpenAIResponseError", { strict: false, broad: false }]
    )
  })

  it("is never retried when the server says so", () => {
    const given = pastedCase("HTTP/2 429\nx-should-retry: false\n\n{}", 0)!
    assert.deepStrictEqual(explainAnswer(generic, given).retryable, { strict: false, broad: false })
  })

  it("is read out of what curl -v prints, without the request and its key", () => {
    const given = pastedCase(
      [
        "* Trying 192.0.2.1:443...",
        "  % Total    % Received % Xferd",
        "  0     0    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     0",
        "> POST /v1/chat/completions HTTP/2",
        "> authorization: Bearer sk-pasted-secret",
        "> ",
        "} [70 bytes data]",
        "< HTTP/2 429 \r",
        "< retry-after: 2\r",
        "< \r",
        "{ [40 bytes data]",
        "{",
        '  "error": { "code": "insufficient_quota" }',
        "}* Connection #0 to host example.com left intact"
      ].join("\n"),
      0
    )!
    assert.deepStrictEqual(
      [given.status, given.headers, given.body],
      [429, { "retry-after": "2" }, { error: { code: "insufficient_quota" } }]
    )
    assert.notInclude(JSON.stringify(given), "secret")
  })

  it("may be a body alone: its codes decide, and the reader is told", () => {
    const found = explainAnswer(generic, bareCase({ error: { code: "insufficient_quota" } }, 1, 0)!)
    assert.deepStrictEqual([found.kind, found.notes.length], ["quota_exhausted", 1])
    const flat = { message: "x", type: "too_many_requests_error" }
    assert.strictEqual(explainAnswer(profileNamed("cerebras")!, bareCase(flat, 1, 0)!).kind, "rate_limited")
    assert.strictEqual(explainAnswer(generic, bareCase({ error: {} }, 1, 0)!).kind, "malformed_response")
    assert.isNull(bareCase({ status: 429 }, 1, 0))
  })

  it("tells which of two waits is kept", () => {
    const obeyed = (answer: string) => explainAnswer(profileNamed("openai")!, pastedCase(answer, 0)!).obeyed
    const reset = "x-ratelimit-reset-requests: 6m0s\nx-ratelimit-remaining-requests: 0\n\n{}"
    assert.strictEqual(obeyed(`HTTP/2 429\nretry-after: 2\n${reset}`), "retry-after")
    assert.strictEqual(obeyed(`HTTP/2 429\nretry-after: soon\n${reset}`), "x-ratelimit-reset-requests")
    assert.isNull(obeyed('HTTP/2 429\nretry-after: 2\n\n{"error":{"code":"insufficient_quota"}}'))
  })

  it("tells when its provider has no profile", () => {
    const given = read({ provider: "acme", status: 429, body: {} })
    assert.include(explainAnswer(generic, given).notes[0], '"acme"')
    assert.deepStrictEqual(explainAnswer(generic, read({ provider: "generic-proxy", status: 429, body: {} })).notes, [])
  })
})

describe("an answer of the Responses API", () => {
  const message = (content: object) => ({
    type: "message",
    id: "m",
    role: "assistant",
    status: "completed",
    content: [content]
  })
  const said = message({ type: "output_text", text: "Hi", annotations: [] })
  const body = (fields: object) => ({
    id: "resp_1",
    object: "response",
    model: "m",
    status: "completed",
    output: [said],
    ...fields
  })
  const answers: ReadonlyArray<readonly [what: string, kind: string, code: string | null, fields: object]> = [
    ["whole", "ok", null, {}],
    [
      "cut by its budget",
      "output_truncated",
      null,
      { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } }
    ],
    [
      "stopped by a filter",
      "content_filtered",
      null,
      { status: "incomplete", incomplete_details: { reason: "content_filter" } }
    ],
    ["a refusal", "refusal", null, { output: [message({ type: "refusal", refusal: "no" })] }],
    ["empty", "malformed_response", "empty_reply", { output: [] }],
    ["only reasoning", "malformed_response", "empty_reply", { output: [{ type: "reasoning", id: "r", summary: [] }] }],
    ["in the background still", "malformed_response", "response_not_finished", { status: "queued", output: [] }],
    ["failed", "rate_limited", "rate_limit_exceeded", { status: "failed", error: { code: "rate_limit_exceeded" } }]
  ]

  it.each(answers)("is read when it is %s", (_, kind, code, fields) => {
    const found = explainAnswer(generic, read({ status: 200, body: body(fields) }))
    assert.deepStrictEqual([found.kind, found.code], [kind, code])
    const pasted = pastedCase(`HTTP/2 200\n\n${JSON.stringify(body(fields))}`, 0)!
    assert.strictEqual(explainAnswer(profileNamed("openai")!, pasted).kind, kind)
  })

  it("says of one that is not finished that it is asked for again by its id", () => {
    assert.include(
      explainAnswer(generic, read({ status: 200, body: body({ status: "in_progress" }) })).guidance,
      "by its id"
    )
  })

  it("is read as a stream, whole or broken off", () => {
    const events = eventTexts("responses", textOf(["a ", "b"]))
    const headers = { "content-type": "text/event-stream" }
    const given = (count: number): AnswerCase => ({
      ...read({ status: 200, headers }),
      sse: events.slice(0, count).join("")
    })
    assert.strictEqual(explainAnswer(generic, given(events.length)).kind, "ok")
    const cut = explainAnswer(generic, given(events.findIndex((event) => event.includes('"b"')) + 1))
    assert.deepStrictEqual([cut.code, cut.error], ["no_finish_reason", "ModelStreamInterruptedError"])
    // What was shown decides whether it may be asked for again.
    assert.notDeepEqual(nextLines(cut.next), nextLines(explainAnswer(generic, given(1)).next))
  })
})

describe("an answer without a profile", () => {
  const unnamed = (answer: string) => explainUnnamed(pastedCase(answer, 0)!)

  it.each([
    ["openai", "HTTP/2 429\nopenai-organization: o\n\n{}"],
    ["openai", 'HTTP/2 200\n\n{"object":"response","status":"completed","output":[]}'],
    ["azure", "HTTP/2 429\napim-request-id: a\nopenai-organization: o\n\n{}"],
    ["anthropic", "HTTP/2 529\nanthropic-organization-id: o\n\n{}"],
    [
      "anthropic",
      'HTTP/2 529\n\n{"type":"error","error":{"type":"overloaded_error"},"request_id":"req_011CSHoEeqs5C35K2UUqR7Fy"}'
    ],
    [
      "gemini",
      'HTTP/2 429\n\n{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure"}]}}'
    ],
    ["bedrock", "HTTP/2 429\nx-amzn-errortype: ThrottlingException\n\n{}"],
    ["openrouter", 'HTTP/2 429\n\n{"error":{"code":429,"metadata":{"provider_name":"p"}}}'],
    ["groq", "HTTP/2 429\nx-groq-region: r\n\n{}"],
    ["litellm", "HTTP/2 429\nx-litellm-call-id: c\nopenai-organization: o\n\n{}"]
  ])("names the profile %s where headers or body show it: %s", (name, answer) => {
    const found = unnamed(answer)
    assert.strictEqual(found.profile, "generic")
    assert.include(found.notes.join(), `this looks like an answer of ${name}: with --profile ${name} it is `)
  })

  it("names none where nothing shows one, and says what the answer is there", () => {
    for (const answer of [
      "HTTP/2 429\nserver: nginx\n\n{}",
      'HTTP/2 200\n\n{"choices":[]}',
      "HTTP/2 502\n\n<html></html>"
    ])
      assert.notInclude(unnamed(answer).notes.join(), "--profile")
    assert.include(
      unnamed('HTTP/2 429\nopenai-version: 1\n\n{"error":{"code":"insufficient_quota"}}').notes.join(),
      "it is quota_exhausted (insufficient_quota)"
    )
  })

  it("is never taken for another provider's in the recorded answers", () => {
    const shown = recorded.flatMap((one) => {
      const name = profileShown(read(one))
      return name === null || one.provider === "generic-proxy" ? [] : [[name, ownProfile(one).name]]
    })
    assert.isAbove(shown.length, 15)
    for (const [name, own] of shown) assert.strictEqual(name, own)
  })
})

describe("what comes next", () => {
  const lines = (answer: string) => nextLines(explainAnswer(profileNamed("openai")!, pastedCase(answer, 0)!).next)
  const code = (word: string) => JSON.stringify({ error: { code: word } })
  const cut = (finish: string) =>
    JSON.stringify({ choices: [{ index: 0, finish_reason: finish, message: { role: "assistant", content: "Hi" } }] })
  const oneOf = (finish: string) => `HTTP/2 200\n\n${cut(finish)}`

  it.each<readonly [string, string, ReadonlyArray<string>]>([
    [
      "an overflow is compacted, whatever x-should-retry says",
      `HTTP/2 400\nx-should-retry: true\n\n${code("context_length_exceeded")}`,
      [
        "strict, broad, unattended: the input is shortened, once, and asked again",
        "background: not retried, handed on as it is"
      ]
    ],
    [
      "a 529 is retried, and sheds background work",
      "HTTP/2 529\n\n{}",
      [
        "strict, broad, unattended: retried in 500 ms",
        "background: ends: the request was given up to make room for others"
      ]
    ],
    [
      "a long wait is kept by nobody but unattended",
      "HTTP/2 429\nretry-after: 3600\n\n{}",
      [
        "strict, broad, background: ends: the time for this request is used up (a wait of 1 h)",
        "unattended: retried after the wait the provider asks for, 1 h"
      ]
    ],
    [
      "a bad hint ends strict",
      "HTTP/2 429\nretry-after: soon\n\n{}",
      ["strict: ends: the provider's wait hint cannot be read", "broad, unattended, background: retried in 500 ms"]
    ],
    [
      "a bad request that may be retried",
      "HTTP/2 400\nx-should-retry: true\n\n{}",
      ["strict: not retried, handed on as it is", "broad, unattended, background: retried in 500 ms"]
    ],
    [
      "a cut answer is raised where there is a raise",
      oneOf("length"),
      [
        "strict, broad, unattended: asked again with a budget of 64000 tokens",
        "background: continued from where the text stopped, with a budget of 8000 tokens"
      ]
    ],
    ["a whole answer", oneOf("stop"), ["every preset: a result, handed over as it is"]],
    [
      "a used-up quota",
      `HTTP/2 429\n\n${code("insufficient_quota")}`,
      ["every preset: not retried, handed on as it is"]
    ]
  ])("%s", (_, answer, expected) => assert.deepStrictEqual(lines(answer), expected))

  it("counts what a stream has shown before it broke off", () => {
    const chunk = 'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}'
    assert.deepStrictEqual(lines(`HTTP/2 200\ncontent-type: text/event-stream\n\n${chunk}\n\n`), [
      "strict, background: not retried, handed on as it is",
      "broad, unattended: retried in 500 ms"
    ])
  })
})

describe("an answer that is malformed to the letter", () => {
  const answer = (body: object): AnswerCase => read({ id: "a", status: 200, headers: {}, body })
  const withoutId = answer({
    choices: [
      {
        index: 0,
        finish_reason: "tool_calls",
        message: { role: "assistant", content: null, tool_calls: [{ type: "function", function: { name: "f" } }] }
      }
    ]
  })

  it("says so when recovery reads it all the same, and with which warnings", () => {
    const found = explainAnswer(generic, withoutId)
    assert.strictEqual(found.kind, "malformed_response")
    assert.deepStrictEqual(found.notes, [
      "recovery reads this answer as a reply under the profile generic, and warns: A tool call came without arguments: it is read as one with none. A tool call came without an id and was given one."
    ])
  })

  it("says so of a stream, too", () => {
    const chunk = { choices: [{ index: 0, delta: { content: [{ type: "text", text: "x" }] }, finish_reason: "stop" }] }
    const found = explainAnswer(generic, { ...withoutId, body: null, sse: `data: ${JSON.stringify(chunk)}\n\n` })
    assert.strictEqual(found.kind, "malformed_response")
    assert.deepStrictEqual(found.notes, [
      "recovery reads this answer as a reply under the profile generic, and warns: The content came as a list of parts; its texts were joined."
    ])
  })

  it("says nothing where recovery does not read it either", () => {
    assert.deepStrictEqual(explainAnswer(profileNamed("openai")!, withoutId).notes, [])
    assert.deepStrictEqual(explainAnswer(generic, answer({ choices: [] })).notes, [])
  })
})
