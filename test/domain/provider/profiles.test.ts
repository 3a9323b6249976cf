import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { classifyAnswer, finishReasonOf, inBandFault } from "../../../src/domain/provider/classify.ts"
import { isLegal } from "../../../src/domain/failure/FaultKind.ts"
import { profileForBaseUrl, profileNamed, profiles } from "../../../src/domain/provider/Profiles.ts"
import { dashscope } from "../../../src/domain/provider/profiles/dashscope.ts"
import { gemini } from "../../../src/domain/provider/profiles/gemini.ts"
import { groq } from "../../../src/domain/provider/profiles/groq.ts"
import { llamacpp } from "../../../src/domain/provider/profiles/llamacpp.ts"
import { openai } from "../../../src/domain/provider/profiles/openai.ts"
import { openrouter } from "../../../src/domain/provider/profiles/openrouter.ts"
import { checkedProfile, makeProfile } from "../../../src/domain/provider/ownProfile.ts"
import { ProviderProfile, withCodes } from "../../../src/domain/provider/ProviderProfile.ts"

const error = (code: unknown) => ({ error: { code, message: "x" } })

describe("a provider profile", () => {
  it.each(profiles.map((profile) => [profile.name, profile] as const))("%s is plain data", (_, profile) => {
    assert.deepStrictEqual(Schema.decodeUnknownSync(ProviderProfile)(JSON.parse(JSON.stringify(profile))), profile)
  })

  it.each(profiles.map((profile) => [profile.name, profile] as const))(
    "%s has only rows that can match",
    (_, profile) => {
      for (const row of profile.rows)
        if (row.status !== null) assert.isTrue(isLegal(row.kind, row.status), `${row.value} ${row.status} ${row.kind}`)
      for (const [status, kind] of Object.entries(profile.statuses))
        assert.isTrue(isLegal(kind, Number(status)), status)
      for (const kind of Object.values(profile.finishFaults)) assert.isTrue(isLegal(kind, 200), kind)
    }
  )

  it.each([
    ["https://api.openai.com/v1", "openai"],
    ["https://my-resource.openai.azure.com/openai", "azure"],
    ["https://generativelanguage.googleapis.com/v1beta/openai/", "gemini"],
    ["https://bedrock-runtime.eu-west-1.amazonaws.com", "bedrock"],
    ["http://localhost:11434/v1", "ollama"],
    ["https://openai.com.example.net/v1", "generic"],
    ["not a url", "generic"]
  ])("is chosen for %s: %s", (url, name) => assert.strictEqual(profileForBaseUrl(url).name, name))

  it("is found by the names others use", () => {
    assert.strictEqual(profileNamed("azure-openai")?.name, "azure")
    assert.strictEqual(profileNamed("generic-proxy")?.name, "generic")
    assert.isNull(profileNamed("toString"))
  })

  it("refuses a user's row that its status does not allow, and names it", () => {
    assert.throws(() => withCodes(openai, [{ status: 404, code: "x", kind: "rate_limited" }]), /codes\[0\]/)
  })

  const row = { status: 429, at: null, value: "x", kind: "rate_limited" }
  it.each([
    ["profile.name", {}],
    ["profile.rows", { name: "n", rows: "x" }],
    ["profile.rows[0]", { name: "n", rows: [{ ...row, status: 401, kind: "overloaded" }] }],
    ["profile.rows[1].kind", { name: "n", rows: [row, { ...row, kind: "overladed" }] }],
    ["profile.rows[0].bogus", { name: "n", rows: [{ ...row, bogus: 1 }] }],
    ["profile.rows[0].status", { name: "n", rows: [{ value: "x", at: null, kind: "overloaded" }] }],
    ["profile.statuses.401", { name: "n", statuses: { 401: "overloaded" } }],
    ["profile.finishFaults.err", { name: "n", finishFaults: { err: "connection" } }],
    ["profile.budgetParam", { name: "n", budgetParam: "tokens" }],
    ["profile.row", { name: "n", row: [] }]
  ])("of a user's own is refused with the field %s", (field, parts) => {
    const make = makeProfile as (parts: unknown) => ProviderProfile
    try {
      make(parts)
    } catch (cause) {
      assert.deepInclude(cause, { _tag: "ConfigurationError", field })
      return
    }
    throw new Error("it was accepted")
  })

  it("of a user's own is as good as one of ours when nothing is wrong", () => {
    assert.strictEqual(makeProfile({ name: "n", rows: [{ ...row, kind: "rate_limited" }] }).rows.length, 1)
    for (const profile of profiles) assert.strictEqual(checkedProfile(profile), profile)
  })

  it("names a user's code without a known kind", () => {
    const add = withCodes as (profile: ProviderProfile, codes: ReadonlyArray<unknown>) => ProviderProfile
    const good = { status: 429, code: "x", kind: "overloaded" }
    for (const bad of [{ ...good, kind: "overladed" }, { ...good, status: "429" }, { ...good, code: 5 }, null])
      assert.throws(() => add(openai, [good, bad]), /codes\[1\]/)
  })

  it("lets a user's row win over its own", () => {
    const profile = withCodes(openai, [{ status: 429, code: "insufficient_quota", kind: "rate_limited" }])
    const verdict = classifyAnswer(profile, { status: 429, headers: {}, body: error("insufficient_quota") })
    assert.strictEqual(verdict.kind, "rate_limited")
  })

  it("reads one code as its provider means it", () => {
    const answer = { status: 429, headers: {}, body: error("insufficient_quota") }
    assert.strictEqual(classifyAnswer(openai, answer).kind, "quota_exhausted")
    assert.strictEqual(classifyAnswer(dashscope, answer).kind, "rate_limited")
  })

  it("tells a spent day from a full minute by the quota's id", () => {
    const body = (quotaId: string) => ({ error: { code: 429, details: [{ violations: [{ quotaId }] }] } })
    const kind = (quotaId: string) => classifyAnswer(gemini, { status: 429, headers: {}, body: body(quotaId) }).kind
    assert.strictEqual(kind("GenerateRequestsPerDayPerProject"), "quota_exhausted")
    assert.strictEqual(kind("GenerateRequestsPerMinutePerProject"), "rate_limited")
  })

  it("knows the instant at which a quota is full again", () => {
    const headers = { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1741305600000" }
    const body = { error: { code: 429, metadata: { limit_source: "openrouter_free_tier_daily" } } }
    assert.strictEqual(classifyAnswer(openrouter, { status: 429, headers, body }).resetAt, 1_741_305_600_000)
  })

  it("counts a reset header only on a limit, and only of the window that is used up", () => {
    const headers = {
      "x-ratelimit-remaining-requests": "10",
      "x-ratelimit-reset-requests": "1s",
      "x-ratelimit-remaining-tokens": "7",
      "x-ratelimit-reset-tokens": "9s"
    }
    const sources = (status: number, type: string) =>
      classifyAnswer(groq, { status, headers, body: { error: { type } } }).hints.map((hint) => hint.source)
    assert.deepStrictEqual(sources(429, "tokens"), ["x-ratelimit-reset-tokens"])
    assert.deepStrictEqual(sources(429, "other"), [])
    assert.deepStrictEqual(sources(500, "tokens"), [])
  })

  it("takes the server's own counts as an overflow", () => {
    const body = (prompt: number) => ({ error: { code: 400, type: "x", n_prompt_tokens: prompt, n_ctx: 4096 } })
    const kind = (prompt: number) => classifyAnswer(llamacpp, { status: 400, headers: {}, body: body(prompt) }).kind
    assert.strictEqual(kind(4097), "prompt_too_long")
    assert.strictEqual(kind(4096), "invalid_request")
  })

  it("keeps openai's list of finish reasons closed, and no inherited name opens one", () => {
    assert.isNull(finishReasonOf(openai, "max_tokens"))
    assert.strictEqual(finishReasonOf(groq, "max_tokens"), "length")
    for (const profile of profiles) assert.isNull(finishReasonOf(profile, "constructor"))
  })

  it("sees an error in a choice, and none in a whole reply", () => {
    const chunk = { choices: [{ index: 0, delta: {}, finish_reason: "error" }] }
    assert.strictEqual(inBandFault(openrouter, { status: 200, headers: {}, body: chunk })?.kind, "server_error")
    assert.isNull(inBandFault(openai, { status: 200, headers: {}, body: { choices: [{ finish_reason: "stop" }] } }))
  })
})

describe("an error inside a 200", () => {
  const kind = (name: string, body: unknown): string | null =>
    inBandFault(profileNamed(name)!, { status: 200, headers: {}, body })?.kind ?? null

  it.each<readonly [string, unknown, string | null]>([
    ["dashscope", { code: "Throttling.RateQuota", message: "x" }, "rate_limited"],
    ["dashscope", { code: "", output: {} }, null],
    ["siliconflow", { code: 50505, message: "x", data: null }, "overloaded"],
    ["cloudflare", { success: false, errors: [{ code: 3040 }] }, "overloaded"],
    ["minimax", { base_resp: { status_code: 0 } }, null],
    ["minimax", { base_resp: { status_code: 4711 } }, "server_error"],
    ["bedrock", { throttlingException: { message: "x" } }, "rate_limited"],
    ["openrouter", { error: { code: 403, metadata: { reasons: ["violence"] } } }, "content_filtered"],
    ["generic", { error: { code: 503 } }, "server_error"],
    ["generic", { error: { type: "a word nobody knows" } }, "malformed_response"],
    ["openai", { error: { type: "server_error", code: null } }, "server_error"]
  ])("of %s: %j is %s", (name, body, expected) => assert.strictEqual(kind(name, body), expected))
})
