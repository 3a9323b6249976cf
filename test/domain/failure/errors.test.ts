import { assert, describe, it } from "@effect/vitest"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { exitCodeOf } from "../../../src/domain/failure/exitCode.ts"
import { FaultKind, isLegal, kindOfStatus } from "../../../src/domain/failure/FaultKind.ts"
import { BudgetExceeded } from "../../../src/domain/failure/AgentError.ts"
import * as Errors from "../../../src/domain/failure/ModelError.ts"
import * as RecoveryErrors from "../../../src/domain/failure/RecoveryError.ts"
import { faultWords, reasonWords } from "../../../src/domain/failure/words.ts"
import { renderFailure } from "../../../src/domain/failure/renderFailure.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as RecoveryState from "../../../src/domain/recovery/RecoveryState.ts"
import { replayLog } from "../../../src/programs/commands/replay/replayLog.ts"
import type { TrailEntry } from "../../../src/domain/failure/Trail.ts"
import * as Usage from "../../../src/domain/chat/Usage.ts"

const kinds = FaultKind.literals

/** A status each kind may have. */
const statusOf = (kind: FaultKind): number | null =>
  isLegal(kind, kindOfStatus(400) === kind ? 400 : 200) ? (kindOfStatus(400) === kind ? 400 : 200) : null

const entry: TrailEntry = {
  role: "main",
  attempt: 1,
  model: "m",
  maxOutputTokens: 8,
  startedMs: 0,
  durationMs: 10,
  status: 529,
  outcome: "overloaded",
  code: "x",
  requestId: "mine-1",
  providerRequestId: null,
  waitMs: 500,
  waitOrigin: "backoff",
  usage: Usage.unknown,
  usageFinal: true,
  costUsd: null
}

describe("a model error", () => {
  it.each(kinds)("of kind %s has a class, a sentence and guidance", (kind) => {
    const error = Errors.makeModelError({
      kind,
      status: statusOf(kind),
      code: "c",
      model: "m",
      providerMessage: "WORDS"
    })
    assert.strictEqual(error.kind, kind)
    assert.isTrue(Errors.isModelError(error))
    assert.isAbove(error.guidance.length, 20)
    assert.include(error.message, "m")
    assert.strictEqual(error.providerMessage, "WORDS")
    assert.notInclude(`${String(error)} ${error.stack} ${JSON.stringify(error)}`, "WORDS")
    const handed = Errors.handOn(error, { requestId: "mine-1", attempts: 2, elapsedMs: 5, trail: [entry], shed: true })
    assert.deepStrictEqual(
      [
        handed._tag,
        handed.attempts,
        handed.elapsedMs,
        handed.shed,
        handed.trail.length,
        handed.stack,
        handed.providerMessage
      ],
      [error._tag, 2, 5, true, 1, error.stack, "WORDS"]
    )
  })

  it("cannot be made with a status its kind does not allow", () => {
    for (const [kind, status] of [
      ["rate_limited", 500],
      ["overloaded", 500],
      ["connection", 200],
      ["auth", 500],
      ["payload_too_large", 400],
      ["server_error", 404],
      ["malformed_response", 500]
    ] as const)
      assert.isTrue(Result.isFailure(Result.try(() => Errors.makeModelError({ kind, status }))), `${kind} ${status}`)
  })

  it("of a reply that is none tells an empty one, which is repeated, in either adapter", () => {
    for (const Class of [Errors.AnthropicResponseError, Errors.OpenAIResponseError]) {
      const reply = (code: string) => new Class({ status: 200, code, model: "m" })
      assert.strictEqual(reply("empty_reply").kind, "empty_reply")
      assert.strictEqual(reply("no_choice").kind, "malformed_response")
      assert.isNull(reply("no_choice").providerMessage)
    }
  })

  it("of the Anthropic adapter keeps its own class", () => {
    const error = Errors.makeModelError({ kind: "malformed_response", status: 200 }, Errors.AnthropicResponseError)
    assert.strictEqual(error._tag, "AnthropicResponseError")
    assert.strictEqual(
      Errors.handOn(error, { requestId: "mine-1", attempts: 1, elapsedMs: 1, trail: [], shed: false })._tag,
      "AnthropicResponseError"
    )
  })

  it("is told from other things", () => {
    for (const other of [null, 1, new Error("x"), { _tag: "ModelServerError" }])
      assert.isFalse(Errors.isModelError(other))
  })
})

describe("a status", () => {
  it.each([
    [401, "auth"],
    [402, "quota_exhausted"],
    [403, "permission"],
    [404, "not_found"],
    [410, "not_found"],
    [408, "timeout"],
    [504, "timeout"],
    [522, "timeout"],
    [524, "timeout"],
    [413, "payload_too_large"],
    [429, "rate_limited"],
    [529, "overloaded"],
    [500, "server_error"],
    [599, "server_error"],
    [400, "invalid_request"],
    [418, "invalid_request"],
    [302, "malformed_response"],
    [600, "malformed_response"]
  ] as const)("%i without a code means %s", (status, kind) => {
    assert.strictEqual(kindOfStatus(status), kind)
  })

  it("table allows what the kinds document", () => {
    const statuses = [
      200, 400, 401, 402, 403, 404, 408, 410, 412, 413, 422, 424, 429, 498, 500, 502, 503, 504, 522, 524, 529
    ]
    const allowed = (kind: FaultKind): ReadonlyArray<number> => statuses.filter((status) => isLegal(kind, status))
    assert.deepStrictEqual(allowed("rate_limited"), [200, 402, 429])
    assert.deepStrictEqual(allowed("quota_exhausted"), [200, 400, 402, 403, 412, 429])
    assert.deepStrictEqual(allowed("overloaded"), [200, 429, 498, 503, 529])
    assert.deepStrictEqual(
      statuses.filter((status) => !allowed("prompt_too_long").includes(status)),
      [429, 529]
    )
    assert.deepStrictEqual(allowed("not_found"), [200, 400, 401, 403, 404, 410])
    assert.deepStrictEqual(allowed("server_error"), [200, 424, 500, 502, 503, 504, 522, 524, 529])
    assert.deepStrictEqual(allowed("timeout"), [200, 408, 504, 522, 524])
    assert.deepStrictEqual(allowed("content_filtered"), [200, 400, 403])
    assert.deepStrictEqual(allowed("connection"), [])
    assert.deepStrictEqual(allowed("malformed_response"), [200])
    assert.deepStrictEqual(allowed("payload_too_large"), [200, 413])
  })
})

const fields = {
  attempts: 2,
  elapsedMs: 1_500,
  trail: [entry, { ...entry, role: "summarizer" as const, attempt: null, status: null, code: null, waitMs: null }],
  lastOutcome: "overloaded",
  lastCause: "ModelOverloadedError",
  lastStatus: 529,
  code: null,
  model: "m",
  guidance: "Do this now."
}

describe("a recovery error", () => {
  const all = [
    new RecoveryErrors.RecoveryCancelledError(fields),
    new RecoveryErrors.RecoveryDeadlineExceeded({ ...fields, requestedWaitMs: 9_000, remainingMs: 10, retryAt: 1 }),
    new RecoveryErrors.RecoveryDeadlineExceeded({ ...fields, requestedWaitMs: null, remainingMs: 0, retryAt: null }),
    new RecoveryErrors.RecoveryRetriesExhausted({
      ...fields,
      reason: "Continuations",
      partialText: Redacted.make("SECRET TEXT")
    }),
    new RecoveryErrors.InvalidRetryAfterError(fields),
    new RecoveryErrors.PromptTooLongRetryError({ ...fields, reason: "NotSmaller" })
  ]

  it.each(all.map((error) => [error._tag, error] as const))(
    "%s is printed with guidance and trail, without content",
    (_, error) => {
      assert.isTrue(RecoveryErrors.isRecoveryError(error))
      const text = renderFailure(error)
      for (const part of [
        error._tag,
        "Do this now.",
        "#1 m",
        "HTTP 529 x",
        "then waited 500 ms (backoff)",
        "summarizer m"
      ])
        assert.include(text, part)
      assert.notInclude(`${text}${JSON.stringify(error)}${String(error)}`, "SECRET")
    }
  )

  it("names the client of a route that is not the default one, in its sentence and in its trail", () => {
    const trail = [{ ...entry, client: "backup" }]
    const error = new RecoveryErrors.InvalidRetryAfterError({ ...fields, model: "m", client: "backup", trail })
    assert.include(error.message, "(m by backup)")
    assert.include(renderFailure(error), "#1 m by backup, budget 8")
    assert.notInclude(renderFailure(new RecoveryErrors.InvalidRetryAfterError(fields)), " by ")
  })

  it("gives the partial text to who asks for it", () => {
    const partial = all.map((error) => ("partial" in error ? error.partial : undefined))
    assert.deepStrictEqual(partial, [undefined, undefined, undefined, "SECRET TEXT", undefined, undefined])
    assert.isNull(new RecoveryErrors.RecoveryRetriesExhausted({ ...fields, reason: "Attempts" }).partial)
  })

  it("is told from other things", () => {
    for (const other of [null, new Error("x"), { _tag: "InvalidRetryAfterError" }])
      assert.isFalse(RecoveryErrors.isRecoveryError(other))
  })
})

describe("rendering", () => {
  it("shows the provider's words only when asked", () => {
    const error = Errors.makeModelError({ kind: "invalid_request", status: 400, providerMessage: "WORDS" })
    assert.notInclude(renderFailure(error), "WORDS")
    assert.include(renderFailure(error, { providerMessage: true }), "WORDS")
    assert.notInclude(
      renderFailure(Errors.makeModelError({ kind: "invalid_request", status: 400 }), { providerMessage: true }),
      "says"
    )
  })

  it("shows what was tried before the session's budget ended a request", () => {
    const error = new BudgetExceeded({
      ...fields,
      partialText: Redacted.make("SECRET TEXT"),
      limit: "tokens",
      allowed: 100,
      spent: 90,
      reserved: 10
    })
    const text = renderFailure(error)
    for (const part of ["BudgetExceeded: ", "100 tokens", "Do this now.", "What was tried:", "HTTP 529 x"])
      assert.include(text, part)
    assert.notInclude(`${text}${JSON.stringify(error)}`, "SECRET")
    assert.strictEqual(error.partial, "SECRET TEXT")
  })

  it("shows foreign failures as they are", () => {
    assert.strictEqual(renderFailure("text"), "text")
    assert.strictEqual(renderFailure(new TypeError("bad")), "TypeError: bad")
    assert.include(renderFailure(Object.assign(new Error("bad"), { guidance: "Do that." })), "Do that.")
  })
})

describe("the exit code", () => {
  const of = (tag: string, more: Partial<Parameters<typeof exitCodeOf>[0]> = {}): number =>
    exitCodeOf({ tag, lastCause: null, reason: null, resetAt: null, ...more })
  it.each([
    [of("ConfigurationError"), 2],
    [of("RecoveryCancelledError"), 130],
    [of("RecoveryDeadlineExceeded"), 75],
    [of("ModelQuotaExhaustedError"), 1],
    [of("ModelQuotaExhaustedError", { resetAt: 1 }), 75],
    [of("RecoveryRetriesExhausted", { lastCause: "ModelServerError", reason: "Attempts" }), 75],
    [of("RecoveryRetriesExhausted", { lastCause: "ModelRequestError", reason: "Attempts" }), 1],
    [of("RecoveryRetriesExhausted", { lastCause: "ModelServerError", reason: "Continuations" }), 1],
    [of("RecoveryRetriesExhausted"), 1],
    [of("ModelRequestError"), 1]
  ])("is as documented (%i)", (code, expected) => {
    assert.strictEqual(code, expected)
  })
})

describe("a log that cannot be replayed", () => {
  it.each([
    ["not json", "line 1"],
    ["{}", "line 1"],
    ['{"_tag":"Started"}', "line 1"],
    ['\n{"_tag":"Transitioned"}', "line 2"]
  ])("%j is named by its line", (text, line) => {
    const result = Result.try(() => replayLog(text))
    assert.isTrue(Result.isFailure(result) && String(result.failure).includes(line))
  })

  it("is named by the request whose beginning is missing", () => {
    const line = JSON.stringify({
      _tag: "Transitioned",
      requestId: "r-7",
      outcome: { _tag: "Refused" },
      tick: { now: 0, wall: 0, backoffMillis: null, spread: 0, progressMillis: 0 },
      action: { _tag: "Done" },
      state: RecoveryState.initial(new RecoveryPolicy({ routes: [{ model: "m" }] }), {
        now: 0,
        deadline: null,
        route: 0,
        callerCap: null,
        streaming: false,
        background: false
      })
    })
    const result = Result.try(() => replayLog(line))
    assert.isTrue(Result.isFailure(result) && /line 1.* r-7, whose Started event/.test(String(result.failure)))
  })

  it("skips events that decide nothing", () => {
    assert.deepStrictEqual(replayLog('{"_tag":"Finished"}\n\n').steps, [])
  })
})

describe("the words of failures", () => {
  it("are said of every kind and every reason, what happened and what to do", () => {
    for (const { said, advice } of [...Object.values(faultWords), ...Object.values(reasonWords)]) {
      assert.match(said, /^[a-z].*[^.]$/)
      assert.match(advice, /^[A-Z].*\.$/)
    }
  })

  it("are decoded with the class of their kind", () => {
    const error = Errors.makeModelError({ kind: "rate_limited", status: 429, model: "m" })
    const codec = Schema.toCodecJson(Errors.ModelRateLimitError)
    const json: unknown = JSON.parse(JSON.stringify(Schema.encodeUnknownSync(codec)(error)))
    const read = Schema.decodeUnknownSync(codec)(json)
    assert.isTrue(read instanceof Errors.ModelRateLimitError)
    assert.deepStrictEqual([read.message, read.guidance, read.kind], [error.message, error.guidance, error.kind])
  })

  it("name the model that was asked last", () => {
    const ended = { ...RecoveryErrors.notBegun, attempts: 3, model: "large", lastOutcome: "overloaded", guidance: "" }
    const exhausted = new RecoveryErrors.RecoveryRetriesExhausted({ ...ended, reason: "Attempts" })
    assert.strictEqual(exhausted.message, "all retries are used up after 3 requests (large); last: overloaded")
    const tooLong = new RecoveryErrors.PromptTooLongRetryError({ ...ended, reason: "NotSmaller" })
    assert.include(tooLong.message, "the summary was not shorter (large)")
  })
})
