import { assert, describe, it } from "@effect/vitest"
import * as Redacted from "effect/Redacted"
import { inspect } from "node:util"
import * as AgentErrors from "../../../src/domain/failure/AgentError.ts"
import { ConfigurationError } from "../../../src/domain/failure/ConfigurationError.ts"
import { guidanceForDeadline, type TimeSpent } from "../../../src/domain/failure/Guidance.ts"
import { AnthropicResponseError, handOn, makeModelError } from "../../../src/domain/failure/ModelError.ts"
import * as RecoveryErrors from "../../../src/domain/failure/RecoveryError.ts"
import { renderFailure } from "../../../src/domain/failure/renderFailure.ts"
import { trailLines } from "../../../src/domain/failure/failureText.ts"
import { costOfTrail, readable, type TrailEntry } from "../../../src/domain/failure/Trail.ts"
import { reasonWords } from "../../../src/domain/failure/words.ts"
import * as Usage from "../../../src/domain/chat/Usage.ts"
import { instantText, requestsText, spanText, tableLines } from "../../../src/domain/failure/wording.ts"

describe("a number in a message", () => {
  it.each([
    [0.4, "0 ms"],
    [625, "625 ms"],
    [999.6, "1 s"],
    [1_640, "1.6 s"],
    [59_949, "59.9 s"],
    [59_960, "1 min"],
    [299_998.20486900024, "5 min"],
    [90_400, "1 min 30 s"],
    [600_000, "10 min"],
    [3_599_600, "1 h"],
    [7_800_000, "2 h 10 min"],
    [21_600_000, "6 h"]
  ])("%d ms is read as %s", (millis, text) => assert.strictEqual(spanText(millis), text))

  it("counts one request as one", () => {
    assert.deepStrictEqual([1, 0, 2].map(requestsText), ["1 request", "0 requests", "2 requests"])
  })

  it("stands in columns as wide as their widest cell", () => {
    assert.deepStrictEqual(
      tableLines(
        [
          ["name", "n"],
          ["a", "100"],
          ["longer", ""]
        ],
        (column) => column > 0
      ),
      ["name      n", "a       100", "longer"]
    )
    assert.deepStrictEqual(tableLines([]), [])
  })

  it("names an instant that a date can name", () => {
    assert.deepStrictEqual(
      [instantText(0), instantText(1e300), instantText(null)],
      ["1970-01-01T00:00:00.000Z", null, null]
    )
  })
})

const entry: TrailEntry = {
  role: "main",
  attempt: 1,
  model: "m",
  maxOutputTokens: 100,
  startedMs: 0,
  durationMs: 5,
  status: 529,
  outcome: "overloaded",
  code: null,
  requestId: "mine-1",
  providerRequestId: "req_7",
  waitMs: null,
  waitOrigin: null,
  usage: Usage.unknown,
  usageFinal: true,
  costUsd: null
}
const base = {
  attempts: 1,
  elapsedMs: 5.123456,
  trail: [entry],
  lastOutcome: "overloaded",
  lastCause: null,
  lastStatus: null,
  code: null,
  model: null,
  guidance: "Do this now."
}
const late = { ...base, remainingMs: 299_998.20486900024, retryAt: null }
const agent = { ...base, steps: 1, partialText: Redacted.make("SECRET") }
const failures = [
  makeModelError({ kind: "overloaded", status: 529, providerRequestId: "req_7", providerMessage: "SECRET" }),
  makeModelError({ kind: "malformed_response", status: 200 }, AnthropicResponseError),
  new RecoveryErrors.RecoveryCancelledError(base),
  new RecoveryErrors.RecoveryDeadlineExceeded({ ...late, requestedWaitMs: 600_000 }),
  new RecoveryErrors.RecoveryRetriesExhausted({ ...base, reason: "Attempts", partialText: Redacted.make("SECRET") }),
  new RecoveryErrors.InvalidRetryAfterError(base),
  new RecoveryErrors.PromptTooLongRetryError({ ...base, reason: "NotSmaller" }),
  new AgentErrors.StepLimitReached({ ...agent, maxSteps: 3 }),
  new AgentErrors.ContentFilteredError(agent),
  new AgentErrors.TruncatedReplyError(agent),
  new ConfigurationError({ field: "deadline", reason: "is odd" })
]

describe("a failure on the console", () => {
  it.each(failures.map((failure) => [failure._tag, failure] as const))(
    "%s says what to do, and no content",
    (tag, failure) => {
      const text = inspect(failure)
      assert.isTrue(text.startsWith(`${tag}: ${failure.message}`), text)
      if ("guidance" in failure) assert.include(text, failure.guidance)
      if ("trail" in failure && failure.trail.length > 0) assert.include(text, "#1 m, budget 100: overloaded HTTP 529")
      assert.include(inspect({ deep: [failure] }), failure.message)
      assert.notInclude(text, "SECRET")
    }
  )

  it("has rounded numbers", () => {
    const [fits, over] = [600_000, null].map(
      (requestedWaitMs) => new RecoveryErrors.RecoveryDeadlineExceeded({ ...late, requestedWaitMs }).message
    )
    assert.strictEqual(fits, "the wait of 10 min does not fit into the 5 min that are left")
    assert.strictEqual(over, "no whole reply within the deadline (1 request, 5 ms)")
  })
})

describe("rendering", () => {
  it("names the provider's id of the request, once", () => {
    const raw = makeModelError({ kind: "overloaded", status: 529, providerRequestId: "req_7" })
    assert.include(renderFailure(raw), "Request id: req_7")
    const tried = renderFailure(handOn(raw, { ...base, requestId: "mine-1", shed: false }))
    assert.include(tried, "HTTP 529 (request id req_7)")
    assert.notInclude(tried, "Request id:")
  })

  it("shows the provider's words behind what recovery gave up on, when asked", () => {
    const cause = makeModelError({ kind: "overloaded", status: 529, providerMessage: "WORDS" })
    const failure = new RecoveryErrors.RecoveryRetriesExhausted({ ...base, reason: "Attempts", cause })
    assert.include(renderFailure(failure, { providerMessage: true }), "The provider says: WORDS")
    assert.notInclude(renderFailure(failure), "WORDS")
  })
})

it("guides from a deadline to what failed last and to the timer that would have ended the silence", () => {
  const say = (last: TimeSpent["last"], silence: TimeSpent["silence"] = null) =>
    guidanceForDeadline({ retryAt: null, last, silence })
  const advice = reasonWords.Deadline.advice
  assert.strictEqual(say(null), advice)
  assert.strictEqual(say({ kind: "overloaded", status: 529 }), `${advice} Last cause: overloaded (HTTP 529).`)
  assert.strictEqual(say({ kind: "connection", status: null }), `${advice} Last cause: connection (no answer).`)
  assert.strictEqual(
    say({ kind: "timeout", status: null }, { millis: 290_000.4, field: "idleTimeout" }),
    `${advice} Last cause: timeout (no answer). 4 min 50 s of the time went in silence: a shorter \`idleTimeout\` leaves time for another try.`
  )
})

it("leaves out of a trail what was not sent, and the digits that nobody reads", () => {
  assert.deepStrictEqual(
    trailLines([{ ...entry, maxOutputTokens: null, startedMs: 0 }]).map((line) => line.trim()),
    ["0 ms  #1 m: overloaded HTTP 529 (request id req_7)"]
  )
  const long = { startedMs: 1.2345678, durationMs: 0.1 + 0.2, waitMs: 512.3999999999996, costUsd: 0.1 + 0.2 }
  assert.deepInclude(readable({ ...entry, ...long }), {
    startedMs: 1.235,
    durationMs: 0.3,
    waitMs: 512.4,
    costUsd: 0.3
  })
  assert.deepInclude(readable({ ...entry, waitMs: null, costUsd: null }), { waitMs: null, costUsd: null })
  assert.strictEqual(
    costOfTrail([
      { ...entry, costUsd: 0.1 },
      { ...entry, costUsd: 0.2 }
    ]),
    0.3
  )
})

it("guides to the instant from which another try makes sense", () => {
  const nothing = { last: null, silence: null }
  assert.include(guidanceForDeadline({ ...nothing, retryAt: 0 }), "from 1970-01-01T00:00:00.000Z on")
  for (const retryAt of [null, 1e300]) assert.notMatch(guidanceForDeadline({ ...nothing, retryAt }), /\d|retryAt|cause/)
  assert.include(makeModelError({ kind: "invalid_request", status: 400 }).guidance, "`providerMessage`")
})
