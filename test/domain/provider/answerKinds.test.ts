import { assert, describe, it } from "@effect/vitest"
import { classifyAnswer, inBandFault } from "../../../src/domain/provider/classify.ts"
import { profileNamed, profiles } from "../../../src/domain/provider/Profiles.ts"

/** Every kind of place where an answer names its failure: under a profile of its own, and under none. */

type Row = readonly [profile: string, body: unknown, kind: string | null]

const kindInside = (profile: string, body: unknown): string | null =>
  inBandFault(profileNamed(profile)!, { status: 200, headers: {}, body })?.kind ?? null

const kindAt = (profile: string, status: number, body: unknown): string =>
  classifyAnswer(profileNamed(profile)!, { status, headers: {}, body }).kind

const title = "%s: %j is %s"

describe("a word that any profile knows, inside a 200", () => {
  it.each<Row>([
    ["generic", { type: "error", error: { type: "overloaded_error" } }, "overloaded"],
    ["generic", { type: "error", error: { type: "rate_limit_error" } }, "rate_limited"],
    ["generic", { type: "error", error: { type: "api_error" } }, "server_error"],
    ["generic", { type: "error", error: { type: "timeout_error" } }, "timeout"],
    ["generic", { type: "error", error: { type: "authentication_error" } }, "auth"],
    ["generic", { type: "error", error: { type: "permission_error" } }, "permission"],
    ["generic", { type: "error", error: { type: "not_found_error" } }, "not_found"],
    ["generic", { type: "error", error: { type: "billing_error" } }, "quota_exhausted"],
    ["generic", { type: "error", error: { type: "request_too_large" } }, "payload_too_large"],
    ["generic", { type: "error", error: { type: "invalid_request_error" } }, "invalid_request"],
    ["generic", { error: { type: "request_forbidden", code: "unsupported_country_region_territory" } }, "permission"],
    ["openai", { error: { type: "request_forbidden" } }, "permission"],
    ["groq", { choices: [], x_groq: { id: "r", error: "over_capacity" } }, "server_error"],
    ["groq", { choices: [], x_groq: { id: "r", error: null } }, null],
    ["cloudflare", { success: false, errors: [{ code: 3041 }] }, "permission"],
    ["dashscope", { code: "access_denied", message: "x" }, "permission"],
    ["bedrock", { message: "x", __type: "com.amazon.coral.service#IncompleteSignature" }, "auth"],
    ["lmstudio", { error: { type: "rate_limit_error" } }, "rate_limited"],
    ["openai", { type: "error", error: { type: "overloaded_error" } }, "overloaded"],
    ["vllm", { error: { code: "ServerOverloaded" } }, "overloaded"],
    ["openrouter", { error: { code: "Throttling.RateQuota" } }, "rate_limited"],
    ["generic", { error: { type: "ThrottlingException" } }, "rate_limited"],
    ["generic", { error: { code: "queue_exceeded" } }, "overloaded"],
    ["generic", { error: { code: "EndpointTPMExceeded.RateLimitExceeded" } }, "rate_limited"],
    ["generic", { error: { __type: "x", code: "com.amazon.coral.service#AccessDeniedException" } }, "permission"],
    ["litellm", { error: { code: "Arrearage" } }, "quota_exhausted"],
    ["generic", { error: { status: "RESOURCE_EXHAUSTED" } }, "rate_limited"],
    ["generic", { error: { type: "server_error" } }, "server_error"],
    ["generic", { choices: [{ index: 0, error: { type: "overloaded_error" } }] }, "overloaded"],
    // Numbers and sentences mean something under their own profile only, and a word of two meanings nothing.
    ["generic", { error: { code: "1113" } }, "malformed_response"],
    ["zhipu", { error: { code: "1113" } }, "quota_exhausted"],
    ["generic", { error: { code: "The service is currently unavailable" } }, "malformed_response"],
    ["generic", { error: { code: "insufficient_quota" } }, "quota_exhausted"],
    ["dashscope", { error: { code: "insufficient_quota" } }, "rate_limited"],
    ["generic", { error: { type: "a_word_nobody_knows" } }, "malformed_response"]
  ])(title, (profile, body, kind) => assert.strictEqual(kindInside(profile, body), kind))
})

describe("a whole answer that is a failure and does not call itself an error", () => {
  it.each<Row>([
    ["generic", { errors: [{ code: "rate_limit_exceeded" }] }, "rate_limited"],
    ["vllm", { errors: [{ code: "rate_limit_exceeded" }] }, "rate_limited"],
    ["generic", { errors: [{ status: "503" }] }, "server_error"],
    ["generic", { success: false, errors: [{ code: 429, message: "x" }] }, "rate_limited"],
    ["generic", { detail: { status_code: 503 } }, "server_error"],
    ["tgi", { detail: { status_code: 503 } }, "server_error"],
    ["generic", { detail: { code: "context_length_exceeded" } }, "prompt_too_long"],
    ["generic", { detail: [{ type: "too_long", loc: ["body", "messages"] }] }, "prompt_too_long"],
    ["generic", { message: "x", code: 503 }, "server_error"],
    ["generic", { message: "x", code: "Throttling.RateQuota" }, "rate_limited"],
    ["generic", { msg: "x", code: "429" }, "rate_limited"],
    ["generic", { message: "x", __type: "ThrottlingException" }, "rate_limited"],
    ["generic", { message: "x", type: "overloaded_error" }, "overloaded"],
    ["generic", { status: 502, path: "/v1" }, "server_error"],
    ["generic", { fault: { detail: { errorcode: "rate_limit" } } }, "rate_limited"],
    ["generic", { error: 429 }, "rate_limited"],
    ["generic", { error: [{ code: "rate_limit_exceeded" }] }, "rate_limited"],
    // Nobody knows the word: it may be a page of something else.
    ["generic", { detail: "x" }, null],
    ["generic", { message: "x", code: "E1" }, null],
    ["generic", { message: "ok", code: 0, data: {} }, null],
    ["generic", { type: "tokens" }, null],
    ["generic", { errors: [] }, null],
    ["xai", { errors: ["x"] }, null],
    // What has a part of a reply is one.
    ["generic", { message: "x", code: 503, choices: [] }, null],
    ["generic", { errors: [{ code: "rate_limit_exceeded" }], content: [] }, null],
    ["generic", { status: 503, output: [] }, null]
  ])(title, (profile, body, kind) => assert.strictEqual(kindInside(profile, body), kind))
})

describe("a finish reason that reports a failure", () => {
  it.each<Row>([
    ["anthropic", { type: "message_delta", delta: { stop_reason: "error" } }, "server_error"],
    ["anthropic", { type: "message", content: [], stop_reason: "MALFORMED_FUNCTION_CALL" }, "malformed_response"],
    ["generic", { choices: [{ finish_reason: "error" }] }, "server_error"],
    ["gemini", { choices: [{ finish_reason: "function_call_filter: MALFORMED_FUNCTION_CALL" }] }, "malformed_response"],
    ["anthropic", { type: "message_delta", delta: { stop_reason: "end_turn" } }, null],
    ["generic", { choices: [{ finish_reason: "stop" }] }, null]
  ])(title, (profile, body, kind) => assert.strictEqual(kindInside(profile, body), kind))
})

describe("a response that failed", () => {
  const failed = (error: unknown) => ({ type: "response.failed", response: { status: "failed", error } })
  it.each<Row>([
    ["openai", failed({ code: "rate_limit_exceeded" }), "rate_limited"],
    ["openai", failed({ code: "context_length_exceeded" }), "prompt_too_long"],
    ["openai", failed({ code: "server_error" }), "server_error"],
    ["openai", failed({ code: "insufficient_quota" }), "quota_exhausted"],
    ["azure", failed({ code: "content_filter" }), "content_filtered"],
    ["generic", failed({ code: "server_is_overloaded" }), "overloaded"],
    ["generic", failed({ code: "rate_limit_exceeded" }), "rate_limited"],
    ["generic", failed({ code: "a_word_nobody_knows" }), "server_error"],
    ["generic", failed(null), "server_error"],
    ["generic", { status: "failed", error: { code: "rate_limit_exceeded" } }, "rate_limited"],
    ["generic", { type: "response.completed", response: { status: "completed", error: null } }, null]
  ])(title, (profile, body, kind) => assert.strictEqual(kindInside(profile, body), kind))
})

describe("a number that is a status, inside a 200", () => {
  it.each<Row>([
    ["generic", { error: { code: "context_length_exceeded", status: 400 } }, "prompt_too_long"],
    [
      "openai",
      { error: { code: "context_length_exceeded", type: "invalid_request_error", status: 400 } },
      "prompt_too_long"
    ],
    [
      "mistral",
      { object: "error", type: "invalid_request_error", code: "3051", raw_status_code: 400 },
      "prompt_too_long"
    ],
    ["generic", { error: { type: "insufficient_quota", code: 429 } }, "quota_exhausted"],
    ["generic", { error: { type: "rate_limit_error", code: 500 } }, "rate_limited"],
    ["generic", { error: { code: "server_error", status: 400 } }, "server_error"],
    ["generic", { error: { code: 503 } }, "server_error"],
    ["generic", { error: { message: "x", status: 429 } }, "rate_limited"],
    ["generic", { error: { message: "x", status_code: "529" } }, "overloaded"],
    ["generic", { error: { type: "invalid_request_error", status: 429 } }, "rate_limited"],
    ["generic", { error: { type: "invalid_request_error", code: 500 } }, "server_error"],
    ["generic", { error: "x", status: 500 }, "server_error"],
    ["generic", { error: "x", statusCode: 429 }, "rate_limited"],
    ["ollama", { error: "x", StatusCode: 503 }, "server_error"],
    ["tgi", { error: { message: "x", http_status_code: 422 } }, "invalid_request"],
    ["minimax", { type: "error", error: { type: "api_error", http_code: "500" } }, "server_error"],
    ["generic", { error: { message: "x", status: 200 } }, "malformed_response"],
    ["generic", { error: { message: "x", status: 410 } }, "not_found"]
  ])(title, (profile, body, kind) => assert.strictEqual(kindInside(profile, body), kind))

  it("is told as the code when there is no other", () => {
    const code = (error: unknown) =>
      inBandFault(profileNamed("generic")!, { status: 200, headers: {}, body: { error } })?.code
    assert.strictEqual(code({ status: 429 }), "429")
    assert.strictEqual(code({ status: 429, type: "rate_limit_error" }), "rate_limit_error")
    assert.isNull(code({ message: "429" }))
  })
})

describe("the cause inside an error", () => {
  it.each<readonly [profile: string, status: number, body: unknown, kind: string]>([
    ["anthropic", 429, { error: { details: { error_code: "enforced_spend_limit_reached" } } }, "quota_exhausted"],
    ["anthropic", 400, { error: { details: { error_code: "context_length_exceeded" } } }, "prompt_too_long"],
    ["azure", 400, { error: { code: "x", innererror: { code: "ResponsibleAIPolicyViolation" } } }, "content_filtered"],
    [
      "litellm",
      400,
      { error: { code: "400", provider_specific_fields: { error: { code: "context_length_exceeded" } } } },
      "prompt_too_long"
    ],
    [
      "openrouter",
      400,
      { error: { code: 400, metadata: { error_type: "context_length_exceeded" } } },
      "prompt_too_long"
    ],
    [
      "openrouter",
      502,
      { error: { code: 502, metadata: { raw: { error: { code: "context_length_exceeded" } } } } },
      "prompt_too_long"
    ],
    ["generic", 400, { error: { details: { error_code: "context_length_exceeded" } } }, "prompt_too_long"],
    [
      "generic",
      429,
      { error: { type: "rate_limit_error", details: { code: "insufficient_quota" } } },
      "quota_exhausted"
    ],
    ["generic", 400, { error: { innererror: { code: "ResponsibleAIPolicyViolation" } } }, "content_filtered"],
    ["generic", 429, { error: { inner_error: { code: "engine_overloaded_error" } } }, "overloaded"],
    [
      "generic",
      400,
      { error: { code: "400", provider_specific_fields: { innererror: { code: "content_filter" } } } },
      "content_filtered"
    ],
    ["generic", 400, { detail: { code: "context_length_exceeded" } }, "prompt_too_long"],
    ["generic", 400, { detail: { error: { type: "prompt_too_long" } } }, "prompt_too_long"],
    // Metadata beside an HTTP status is a provider's own; a text that holds JSON is a text.
    ["generic", 400, { error: { metadata: { error_type: "context_length_exceeded" } } }, "invalid_request"],
    [
      "openrouter",
      400,
      { error: { metadata: { raw: '{"error":{"code":"context_length_exceeded"}}' } } },
      "invalid_request"
    ]
  ])("of %s in a %i: %j is %s", (profile, status, body, kind) =>
    assert.strictEqual(kindAt(profile, status, body), kind)
  )

  it.each<Row>([
    ["generic", { error: { code: 400, metadata: { error_type: "context_length_exceeded" } } }, "prompt_too_long"],
    ["generic", { error: { code: 502, metadata: { provider_code: "overloaded_error" } } }, "overloaded"],
    ["openrouter", { error: { code: 502, metadata: { error_type: "rate_limit_exceeded" } } }, "rate_limited"],
    ["litellm", { error: { code: 500, details: { error_code: "rate_limit_error" } } }, "rate_limited"],
    ["generic", { error: { details: [{ reason: "MODEL_CAPACITY_EXHAUSTED" }], code: 503 } }, "overloaded"]
  ])("%s, inside a 200: %j is %s", (profile, body, kind) => assert.strictEqual(kindInside(profile, body), kind))
})

describe("the field that a refusal names", () => {
  const openai = (param: unknown, code: unknown = null) => ({
    error: { type: "invalid_request_error", param, code, message: "x" }
  })
  it.each<readonly [profile: string, status: number, body: unknown, kind: string]>([
    ["vllm", 400, { error: { type: "BadRequestError", param: "input_tokens", code: 400 } }, "prompt_too_long"],
    ["vllm", 400, { object: "error", type: "BadRequestError", param: "input_tokens", code: 400 }, "prompt_too_long"],
    ["vllm", 400, { error: { type: "BadRequestError", param: "max_tokens", code: 400 } }, "invalid_request"],
    ["generic", 400, { error: { type: "BadRequestError", param: "input_tokens", code: 400 } }, "prompt_too_long"],
    ["generic", 422, { error: { param: "prompt_tokens" } }, "prompt_too_long"],
    ["openai", 400, openai("messages[3].content", "string_above_max_length"), "prompt_too_long"],
    ["openai", 400, openai("input", "string_above_max_length"), "prompt_too_long"],
    ["generic", 400, openai("messages", "array_above_max_length"), "prompt_too_long"],
    ["openai", 400, openai("prompt_cache_key", "string_above_max_length"), "invalid_request"],
    ["openai", 400, openai("input[0].encrypted_content", "string_above_max_length"), "invalid_request"],
    ["openai", 400, openai("messages[1].tool_calls[0].id", "string_above_max_length"), "invalid_request"],
    ["openai", 400, openai("messages", "invalid_type"), "invalid_request"],
    ["generic", 400, openai("messages"), "invalid_request"],
    ["generic", 400, openai("max_tokens", "integer_above_max_value"), "invalid_request"],
    ["mistral", 422, { detail: [{ type: "too_long", loc: ["body", "messages"] }] }, "prompt_too_long"],
    [
      "generic",
      422,
      { detail: [{ type: "string_too_long", loc: ["body", "messages", 0, "content"] }] },
      "prompt_too_long"
    ],
    ["generic", 422, { detail: [{ type: "string_too_long", loc: ["body", "user"] }] }, "invalid_request"],
    ["generic", 429, openai("input_tokens"), "rate_limited"],
    ["generic", 500, openai("input_tokens"), "server_error"]
  ])("of %s in a %i: %j is %s", (profile, status, body, kind) =>
    assert.strictEqual(kindAt(profile, status, body), kind)
  )

  it.each<Row>([
    ["vllm", { error: { type: "BadRequestError", param: "input_tokens", code: 400 } }, "prompt_too_long"],
    ["generic", { error: { code: "string_above_max_length", param: "input[2].content[0].text" } }, "prompt_too_long"]
  ])("%s, inside a 200: %j is %s", (profile, body, kind) => assert.strictEqual(kindInside(profile, body), kind))

  it.each<readonly [param: unknown, told: string | null]>([
    ["max_tokens", "max_tokens"],
    ["messages[0].content", "messages[0].content"],
    ["None", null],
    [null, null],
    ["a sentence that may hold a prompt", null],
    [7, null]
  ])("is told by name, when it is a name: %j is told as %j", (param, told) =>
    assert.strictEqual(
      classifyAnswer(profileNamed("generic")!, { status: 400, headers: {}, body: openai(param) }).param,
      told
    )
  )
})

describe("a 413", () => {
  const anthropic = (type: string) => ({ type: "error", error: { type, message: "x" } })
  it.each([
    ["anthropic", anthropic("invalid_request_error"), "prompt_too_long"],
    ["anthropic", anthropic("request_too_large"), "payload_too_large"],
    ["anthropic", "<html>too large</html>", "payload_too_large"],
    ["generic", anthropic("invalid_request_error"), "payload_too_large"],
    ["generic", anthropic("prompt_too_long"), "prompt_too_long"]
  ])("of %s: %j is %s", (profile, body, kind) => assert.strictEqual(kindAt(profile, 413, body), kind))
})

describe("the limit of a provider that keeps 403 for it", () => {
  it.each([
    ["together", { error: { type: "invalid_request_error" } }, "prompt_too_long"],
    ["together", { error: { type: "forbidden" } }, "permission"],
    ["together", "<html>blocked</html>", "permission"],
    ["generic", { error: { type: "invalid_request_error" } }, "permission"]
  ])("%s: %j is %s", (profile, body, kind) => assert.strictEqual(kindAt(profile, 403, body), kind))
})

describe("words of every profile", () => {
  it.each(profiles.map((profile) => [profile.name, profile] as const))(
    "%s means its own rows before any other table",
    (_, profile) => {
      for (const row of profile.rows) {
        if (row.at !== null || row.match !== undefined) continue
        const first = profile.rows.find(
          (other) => other.at === null && other.value === row.value && (other.status ?? 200) === 200
        )
        if (first !== undefined)
          assert.strictEqual(kindInside(profile.name, { error: { code: row.value } }), first.kind, String(row.value))
      }
    }
  )
})
