import { assert, describe, it } from "@effect/vitest"
import { classifyAnswer, inBandFault, type Answer } from "../../../src/domain/provider/classify.ts"
import { makeModelError } from "../../../src/domain/failure/ModelError.ts"
import { nativeFinish } from "../../../src/programs/commands/explain/nativeReply.ts"
import { profileNamed } from "../../../src/domain/provider/Profiles.ts"
import { makeProfile, resetHeader } from "../../../src/domain/provider/ProviderProfile.ts"

const answer = (status: number, code: unknown = null, headers: Answer["headers"] = {}): Answer => ({
  status,
  headers,
  body: { error: { code, message: "words" } }
})
const kind = (profile: string, status: number, code: unknown = null): string =>
  classifyAnswer(profileNamed(profile)!, answer(status, code)).kind

describe("a verdict", () => {
  it.each([
    // Overflow words count on every status but the two that say by themselves to wait.
    ["generic", 400, "context_length_exceeded", "prompt_too_long"],
    ["generic", 413, "context_length_exceeded", "prompt_too_long"],
    ["generic", 422, "context_length_exceeded", "prompt_too_long"],
    ["generic", 500, "context_length_exceeded", "prompt_too_long"],
    ["generic", 502, "prompt_too_long", "prompt_too_long"],
    ["openai", 403, "context_length_exceeded", "prompt_too_long"],
    ["copilot", 413, "tokens_limit_reached", "prompt_too_long"],
    ["generic", 429, "context_length_exceeded", "rate_limited"],
    ["openai", 529, "context_length_exceeded", "overloaded"],
    // A model that is gone.
    ["generic", 410, null, "not_found"],
    ["generic", 410, "model_not_found", "not_found"],
    ["xai", 410, null, "not_found"],
    ["azure", 410, "ModelDeprecated", "not_found"],
    // A 503 that the provider's page calls an overload, and one that it does not.
    ["deepseek", 503, null, "overloaded"],
    ["together", 503, null, "overloaded"],
    ["siliconflow", 503, null, "overloaded"],
    ["dashscope", 503, "ModelServingError", "overloaded"],
    ["dashscope", 503, "ModelUnavailable", "server_error"],
    ["openai", 503, "server_is_overloaded", "overloaded"],
    ["openai", 503, "server_error", "server_error"],
    ["generic", 503, null, "server_error"],
    ["generic", 503, "server_is_overloaded", "overloaded"],
    // Money that running requests hold comes back; a spent balance does not.
    ["openrouter", 402, "in_flight_budget_exhausted", "rate_limited"],
    ["openrouter", 402, "weight_exceeds_budget", "quota_exhausted"],
    ["openrouter", 403, "openrouter_guardrail_budget", "quota_exhausted"],
    // Statuses that mean more in a profile, and nothing special elsewhere.
    ["groq", 498, null, "overloaded"],
    ["generic", 498, null, "invalid_request"],
    ["fireworks", 412, null, "quota_exhausted"],
    ["generic", 412, null, "invalid_request"],
    ["tgi", 424, null, "server_error"],
    ["bedrock", 424, null, "server_error"],
    ["generic", 424, null, "invalid_request"],
    ["groq", 498, "model_not_found", "overloaded"]
  ])("of %s on HTTP %i with %j is %s", (profile, status, code, expected) =>
    assert.strictEqual(kind(profile, status, code), expected)
  )

  it("of a status that its profile gives an impossible meaning falls back to the status", () => {
    const odd = makeProfile({ name: "odd", statuses: { 500: "rate_limited" } })
    assert.strictEqual(classifyAnswer(odd, answer(500)).kind, "server_error")
  })

  it.each([
    [529, "overloaded"],
    ["529", "overloaded"],
    ["429", "rate_limited"],
    [503, "server_error"],
    ["404", "not_found"],
    ["413", "payload_too_large"],
    [600, "malformed_response"],
    [399, "malformed_response"],
    ["5290", "malformed_response"]
  ] as const)("inside a 200 reads the number %j like a status: %s", (code, expected) => {
    const verdict = inBandFault(profileNamed("generic")!, answer(200, code))
    assert.deepInclude(verdict, { kind: expected, status: 200, code: String(code), inBand: true })
  })

  it.each([
    ["true", true],
    ["false", false],
    ["yes", null],
    [undefined, null]
  ])("hears x-should-retry: %s as %s", (value, expected) => {
    const headers = value === undefined ? {} : { "x-should-retry": value }
    assert.strictEqual(classifyAnswer(profileNamed("generic")!, answer(500, null, headers)).shouldRetry, expected)
  })
})

describe("a hint", () => {
  const resets = makeProfile({ name: "resets", hints: [resetHeader("x-reset", "reset")] })
  const hintOf = (headers: Answer["headers"], body: unknown = null, profile = resets) =>
    classifyAnswer(profile, { status: 429, headers, body }).hints

  it.each([
    ["999999999", "x-reset"],
    ["1000000000", "x-reset (epoch seconds)"],
    ["99999999999", "x-reset (epoch seconds)"],
    ["100000000000", "x-reset (epoch milliseconds)"],
    ["2026-03-01T00:00:00Z", "x-reset"],
    ["6m0s", "x-reset"]
  ])("of a reset header that says %s is named %s: how a bare number was understood", (value, name) =>
    assert.deepStrictEqual(
      hintOf({ "x-reset": value }).map((hint) => hint.source),
      [name]
    )
  )

  it("keeps the server's own clock beside an instant, when it has a date that can be read", () => {
    const retryAfter = "Sun, 01 Mar 2026 00:00:30 GMT"
    const at = (date: Record<string, string>) => hintOf({ "retry-after": retryAfter, ...date })[0]
    const hint = { _tag: "At", source: "retry-after", epochMillis: Date.UTC(2026, 2, 1, 0, 0, 30) } as const
    assert.deepStrictEqual(at({}), { ...hint, serverEpochMillis: null })
    assert.deepStrictEqual(at({ date: "Sun, 01 Mar 2026 00:00:00 GMT" }), {
      ...hint,
      serverEpochMillis: Date.UTC(2026, 2, 1)
    })
    assert.deepStrictEqual(at({ date: "today" }), { ...hint, serverEpochMillis: null })
  })

  it("of the body is named by its place where it has no name of its own", () => {
    const source = { header: null, pointer: "/wait", format: "seconds", exhausted: null } as const
    const profile = makeProfile({ name: "body", hints: [source, { ...source, label: "wait in the body" }] })
    assert.deepStrictEqual(
      hintOf({}, { wait: 5 }, profile).map((hint) => hint.source),
      ["body /wait", "wait in the body"]
    )
    assert.isEmpty(hintOf({}, { wait: { seconds: 5 } }, profile))
    assert.isEmpty(hintOf({}, { wait: null }, profile))
  })

  it("beyond every calendar is no reset time, and guidance can be given", () => {
    const verdict = classifyAnswer(resets, answer(429, "insufficient_quota", { "x-reset": "9".repeat(25) }))
    assert.deepInclude(verdict, { kind: "quota_exhausted", resetAt: null })
    assert.isAbove(
      makeModelError({ kind: "quota_exhausted", status: 429, resetAt: verdict.resetAt }).guidance.length,
      20
    )
  })
})

describe("a native reply", () => {
  it.each([
    ["generic", { object: "response", status: "completed" }, "stop"],
    ["generic", { object: "response", status: "in_progress" }, null],
    ["generic", { object: "thing", status: "completed" }, null],
    ["generic", { response: { status: "incomplete" } }, null],
    ["generic", { response: { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } } }, "length"],
    ["generic", { response: { status: "completed" } }, "stop"],
    ["anthropic", { stop_reason: "end_turn" }, "stop"],
    ["generic", { stop_reason: "max_tokens" }, "length"],
    ["openai", { stop_reason: "max_tokens" }, "length"],
    ["generic", { stop_reason: "a word nobody knows" }, "unknown"],
    ["generic", { stop_reason: null }, null],
    ["generic", { promptFeedback: { blockReason: "SAFETY" } }, "content_filter"]
  ])("of %s, %j ends with %s", (profile, body, expected) =>
    assert.strictEqual(nativeFinish(profileNamed(profile)!, body), expected)
  )
})
