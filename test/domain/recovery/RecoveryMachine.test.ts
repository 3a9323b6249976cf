import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { clampBudget } from "../../../src/domain/recovery/AttemptPlan.ts"
import type { FaultKind } from "../../../src/domain/failure/FaultKind.ts"
import { isLegal } from "../../../src/domain/failure/FaultKind.ts"
import { nothingSeen, Outcome, stepsBackoff } from "../../../src/domain/recovery/Outcome.ts"
import { delayOf, type RecoveryAction } from "../../../src/domain/recovery/RecoveryAction.ts"
import { transition } from "../../../src/domain/recovery/RecoveryMachine.ts"
import { RecoveryPolicy, routeAt, type RecoveryPolicyInput } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import { endOf, initial, type RecoveryState } from "../../../src/domain/recovery/RecoveryState.ts"
import { waitOf, type HintReading } from "../../../src/domain/failure/Hint.ts"
import type { Tick } from "../../../src/domain/recovery/Tick.ts"
import { runs } from "../../support/runs.ts"

const routes = [
  { model: "primary", outputLimit: 64_000 },
  { model: "second", outputLimit: 8_192 }
]
const make = (input: Partial<RecoveryPolicyInput> = {}): RecoveryPolicy =>
  new RecoveryPolicy({ ...RecoveryPolicy.strict, routes, ...input })
const strict = make()
const broad = make({ ...RecoveryPolicy.broad, routeHealth: null, routes })

const faulted = (kind: FaultKind, more: Partial<Extract<Outcome, { _tag: "Faulted" }>> = {}): Outcome => ({
  _tag: "Faulted",
  kind,
  status: null,
  code: null,
  hints: [],
  shouldRetry: null,
  ...nothingSeen,
  other: null,
  ...more
})
const rateLimited = faulted("rate_limited", { status: 429 })
const overloaded = faulted("overloaded", { status: 529 })
const unavailable = faulted("overloaded", { status: 503 })
const serverError = faulted("server_error", { status: 500 })
const completed: Outcome = { _tag: "Completed" }
const tooLong: Outcome = {
  _tag: "PromptTooLong",
  status: 400,
  code: "context_length_exceeded",
  ...nothingSeen
}
const truncated = (more: Partial<Extract<Outcome, { _tag: "Truncated" }>> = {}): Outcome => ({
  _tag: "Truncated",
  textLength: 10,
  toolCalls: 0,
  outputTokens: 8_000,
  durationMillis: 10_000,
  sentTokens: 8_000,
  promptTokens: 100,
  ...nothingSeen,
  ...more
})
const compacted: Outcome = { _tag: "Compacted", before: 2_000, after: 500, messagesBefore: 9, messagesAfter: 5 }
const seconds = (millis: number): HintReading => ({ _tag: "Delay", source: "retry-after", millis })

interface Run {
  readonly actions: ReadonlyArray<RecoveryAction>
  readonly states: ReadonlyArray<RecoveryState>
  readonly ticks: ReadonlyArray<Tick>
}

/** Plays outcomes through the machine; time passes only in waits. Stops at Done and Fail. */
const run = (
  policy: RecoveryPolicy,
  outcomes: ReadonlyArray<Outcome>,
  options: { readonly streaming?: boolean; readonly spread?: number } = {}
): Run => {
  let state: RecoveryState = Object.freeze(
    initial(policy, {
      now: 0,
      deadline: policy.deadline,
      route: 0,
      callerCap: null,
      streaming: options.streaming ?? false,
      background: false
    })
  )
  let now = 0
  let step = 0
  const actions: Array<RecoveryAction> = []
  const states: Array<RecoveryState> = []
  const ticks: Array<Tick> = []
  for (const outcome of outcomes) {
    const backoffMillis = stepsBackoff(outcome)
      ? Math.min(policy.backoff.cap, policy.backoff.base * policy.backoff.factor ** step++)
      : null
    const tick: Tick = { now, wall: 1_000_000 + now, backoffMillis, spread: options.spread ?? 0, progressMillis: 0 }
    const next = transition(policy, state, Object.freeze(outcome), tick)
    state = Object.freeze(next.state)
    actions.push(next.action)
    states.push(state)
    ticks.push(tick)
    if (next.action._tag === "Done" || next.action._tag === "Fail") break
    now += delayOf(next.action)
  }
  return { actions, states, ticks }
}

const names = (played: Run): ReadonlyArray<string> =>
  played.actions.map((action) => (action._tag === "Fail" ? `Fail ${action.reason}` : action._tag))
const delays = (played: Run): ReadonlyArray<number> => played.actions.map(delayOf)

describe("the transient road", () => {
  it.each([
    {
      rule: "strict retries 429 and 529",
      policy: strict,
      given: [rateLimited, overloaded, completed],
      then: ["Retry", "Retry", "Done"]
    },
    { rule: "strict hands a 500 on", policy: strict, given: [serverError], then: ["Fail Passthrough"] },
    { rule: "strict hands a 503 on", policy: strict, given: [unavailable], then: ["Fail Passthrough"] },
    {
      rule: "strict hands an in-band overload on",
      policy: strict,
      given: [faulted("overloaded", { status: 200 })],
      then: ["Fail Passthrough"]
    },
    {
      rule: "strict hands a cut stream on",
      policy: strict,
      given: [faulted("interrupted")],
      then: ["Fail Passthrough"]
    },
    {
      rule: "broad retries an overload in any form",
      policy: broad,
      given: [unavailable, faulted("overloaded", { status: 200 }), completed],
      then: ["Retry", "Retry", "Done"]
    },
    ...(["server_error", "timeout", "connection", "interrupted", "rate_limited", "empty_reply"] as const).map(
      (kind) => ({
        rule: `broad retries ${kind}`,
        policy: broad,
        given: [faulted(kind), completed],
        then: ["Retry", "Done"]
      })
    ),
    ...(
      [
        "auth",
        "permission",
        "not_found",
        "invalid_request",
        "payload_too_large",
        "content_filtered",
        "malformed_response"
      ] as const
    ).map((kind) => ({
      rule: `broad hands ${kind} on`,
      policy: broad,
      given: [faulted(kind)],
      then: ["Fail Passthrough"]
    })),
    {
      rule: "quota is never retried, not even on a 429",
      policy: strict,
      given: [faulted("quota_exhausted", { status: 429, hints: [seconds(1)] })],
      then: ["Fail Passthrough"]
    },
    {
      rule: "quota beats x-should-retry: true",
      policy: broad,
      given: [faulted("quota_exhausted", { status: 429, shouldRetry: true })],
      then: ["Fail Passthrough"]
    },
    {
      rule: "x-should-retry: false forbids everywhere",
      policy: broad,
      given: [faulted("rate_limited", { status: 429, shouldRetry: false })],
      then: ["Fail Passthrough"]
    },
    {
      rule: "x-should-retry: true allows in broad",
      policy: broad,
      given: [faulted("invalid_request", { status: 400, shouldRetry: true }), completed],
      then: ["Retry", "Done"]
    },
    {
      rule: "x-should-retry: true allows nothing in strict",
      policy: strict,
      given: [faulted("server_error", { status: 500, shouldRetry: true })],
      then: ["Fail Passthrough"]
    },
    {
      rule: "the third overload switches, the fourth request is the fallback's",
      policy: strict,
      given: [overloaded, overloaded, overloaded, completed],
      then: ["Retry", "Retry", "Fallback", "Done"]
    },
    {
      rule: "a rate limit ends the run of overloads",
      policy: strict,
      given: [overloaded, overloaded, rateLimited, overloaded, overloaded, completed],
      then: ["Retry", "Retry", "Retry", "Retry", "Retry", "Done"]
    },
    {
      rule: "three server errors switch in broad",
      policy: broad,
      given: [serverError, serverError, serverError, completed],
      then: ["Retry", "Retry", "Fallback", "Done"]
    },
    {
      rule: "connection failures do not count for a fallback",
      policy: broad,
      given: [faulted("connection"), faulted("connection"), faulted("connection"), faulted("connection"), completed],
      then: ["Retry", "Retry", "Retry", "Retry", "Done"]
    },
    {
      rule: "background gives up at the first overload",
      policy: make({ ...RecoveryPolicy.background, routes: [{ model: "m" }] }),
      given: [overloaded],
      then: ["Fail Shed"]
    }
  ])("$rule", ({ policy, given, then }) => {
    assert.deepStrictEqual(names(run(policy, given)), then)
  })

  it("ends after the allowed attempts without reading the last hint", () => {
    const bad = faulted("rate_limited", { status: 429, hints: [{ _tag: "Invalid", source: "retry-after" }] })
    const given = [...Array.from({ length: 9 }, () => rateLimited), bad]
    assert.strictEqual(names(run(strict, given)).at(-1), "Fail Attempts")
    assert.deepStrictEqual(
      delays(run(strict, given)).slice(0, 9),
      [500, 1000, 2000, 4000, 8000, 16000, 32000, 32000, 32000]
    )
  })

  it("takes a hint exactly in strict and never shorter, plus a spread, in broad", () => {
    const hinted = faulted("rate_limited", { status: 429, hints: [seconds(3_000)] })
    assert.deepStrictEqual(delays(run(strict, [hinted])), [3_000])
    assert.deepStrictEqual(delays(run(broad, [hinted, hinted], { spread: 0.5 })), [3_375, 8_000])
  })

  it("waits the backoff and not the hint when the route changes", () => {
    const hinted = faulted("overloaded", { status: 529, hints: [seconds(60_000)] })
    const played = run(strict, [overloaded, overloaded, hinted])
    assert.deepStrictEqual(delays(played), [500, 1000, 2000])
    assert.deepStrictEqual(names(played).at(-1), "Fallback")
  })

  it("fails on a bad hint in strict without a wait, and skips it in broad", () => {
    const bad = faulted("rate_limited", {
      status: 429,
      hints: [{ _tag: "Invalid", source: "retry-after" }, seconds(7_000)]
    })
    assert.deepStrictEqual(names(run(strict, [bad])), ["Fail InvalidRetryAfter"])
    assert.deepStrictEqual(delays(run(broad, [bad])), [7_000])
  })

  it.each([
    { hint: 299_999, then: "Retry" },
    { hint: 300_000, then: "Fail Deadline" }
  ])("with 300 s left a wait of $hint ms means $then", ({ hint, then }) => {
    assert.deepStrictEqual(names(run(strict, [faulted("rate_limited", { status: 429, hints: [seconds(hint)] })])), [
      then
    ])
  })

  it("waits for a known reset up to the cap and not beyond it", () => {
    const unattended = make({ ...RecoveryPolicy.unattended, routeHealth: null, routes })
    const hour = 3_600_000
    assert.deepStrictEqual(
      names(run(unattended, [faulted("rate_limited", { status: 429, hints: [seconds(6 * hour)] })])),
      ["Retry"]
    )
    assert.deepStrictEqual(
      names(run(unattended, [faulted("rate_limited", { status: 429, hints: [seconds(6 * hour + 1)] })])),
      ["Fail Deadline"]
    )
  })

  it("measures a date against the clock, or against the server's own", () => {
    const at = (serverEpochMillis: number | null): Outcome =>
      faulted("rate_limited", {
        status: 429,
        hints: [{ _tag: "At", source: "retry-after", epochMillis: 1_012_000, serverEpochMillis }]
      })
    assert.deepStrictEqual(delays(run(strict, [at(null)])), [12_000])
    assert.deepStrictEqual(delays(run(strict, [at(1_010_000)])), [2_000])
  })
})

describe("the truncation road", () => {
  it("raises once, then continues at most three times", () => {
    const played = run(strict, [
      truncated(),
      truncated({ sentTokens: 64_000 }),
      truncated({ sentTokens: 64_000 }),
      truncated({ sentTokens: 64_000 }),
      truncated({ sentTokens: 64_000 })
    ])
    assert.deepStrictEqual(names(played), ["Escalate", "Continue", "Continue", "Continue", "Fail Continuations"])
  })

  it("continues at once when a larger budget has no room", () => {
    assert.deepStrictEqual(names(run(strict, [truncated({ sentTokens: 64_000 })])), ["Continue"])
  })

  it("continues instead of raising in broad when the time does not fit", () => {
    // 8,000 tokens in 200 s: what is left carries no 16,000.
    const slow = truncated({ durationMillis: 200_000 })
    assert.deepStrictEqual(names(run(broad, [slow])), ["Continue"])
    assert.deepStrictEqual(names(run(broad, [truncated()])), ["Escalate"])
    assert.deepStrictEqual(names(run(broad, [truncated({ durationMillis: 200_000, outputTokens: null })])), [
      "Escalate"
    ])
    assert.deepStrictEqual(names(run(strict, [slow])), ["Escalate"])
  })

  it("compares with twice the old budget, to the millisecond", () => {
    // Rate 1 token per 10 ms; 16,000 tokens need 160 s.
    const policy = (deadline: number): RecoveryPolicy =>
      make({ ...RecoveryPolicy.broad, routeHealth: null, routes, deadline })
    const outcome = truncated({ outputTokens: 8_000, durationMillis: 80_000 })
    assert.deepStrictEqual(names(run(policy(160_000), [outcome])), ["Escalate"])
    assert.deepStrictEqual(names(run(policy(159_999), [outcome])), ["Continue"])
  })

  it("never continues a cut tool call or an empty fragment", () => {
    const call = truncated({ toolCalls: 1, textLength: 5 })
    const empty = truncated({ textLength: 0 })
    assert.deepStrictEqual(names(run(strict, [call, { ...call, sentTokens: 64_000 } as Outcome])), [
      "Escalate",
      "Fail TruncatedToolCall"
    ])
    assert.deepStrictEqual(names(run(strict, [empty, { ...empty, sentTokens: 64_000 } as Outcome])), [
      "Escalate",
      "Fail EmptyFragment"
    ])
  })

  it.each([400, 402, 413, 422])("goes back to the old budget when the raise is refused with %i", (status) => {
    const refusal = faulted("invalid_request", { status })
    const played = run(strict, [truncated(), refusal])
    assert.deepStrictEqual(names(played), ["Escalate", "Continue"])
    assert.strictEqual(played.states[1]?.maxOutputTokens, 8_000)
  })

  it("takes an overflow code after the raise as a refusal of the raise", () => {
    assert.deepStrictEqual(names(run(strict, [truncated(), tooLong])), ["Escalate", "Continue"])
  })

  it("keeps the way back open over transient failures", () => {
    const played = run(strict, [truncated(), overloaded, faulted("invalid_request", { status: 400 })])
    assert.deepStrictEqual(names(played), ["Escalate", "Retry", "Continue"])
  })

  it("hands a refusal on that does not follow a raise", () => {
    assert.deepStrictEqual(names(run(strict, [faulted("invalid_request", { status: 400 })])), ["Fail Passthrough"])
  })

  it("fails when the partial of a refused raise cannot be continued", () => {
    assert.deepStrictEqual(
      names(run(strict, [truncated({ toolCalls: 1 }), faulted("invalid_request", { status: 400 })])),
      ["Escalate", "Fail TruncatedToolCall"]
    )
  })

  it("stops early when continuations bring little", () => {
    const policy = make({ maxContinuations: 10 })
    const little = truncated({ sentTokens: 64_000, outputTokens: 499 })
    const enough = truncated({ sentTokens: 64_000, outputTokens: 500 })
    assert.deepStrictEqual(names(run(policy, [truncated(), little, little, little, little])).at(-1), "Fail SmallGain")
    assert.deepStrictEqual(names(run(policy, [truncated(), little, little, little, enough, little])).at(-1), "Continue")
  })

  it("continues delivered text with the raised budget, as a continuation", () => {
    const played = run(strict, [truncated({ delivered: 10 })], { streaming: true })
    const action = played.actions[0]
    assert.isTrue(action?._tag === "Continue" && action.ordinal === 1 && action.maxOutputTokens === 64_000)
    assert.deepStrictEqual(names(run(strict, [truncated({ delivered: 10, toolCalls: 1 })], { streaming: true })), [
      "Escalate"
    ])
  })

  it("goes on from delivered text with the old budget when the raise is refused", () => {
    const played = run(strict, [truncated({ delivered: 10 }), faulted("invalid_request", { status: 400 })], {
      streaming: true
    })
    assert.deepStrictEqual(names(played), ["Continue", "Retry"])
    assert.strictEqual(played.states[1]?.maxOutputTokens, 8_000)
  })

  it("ends the run of overloads", () => {
    assert.deepStrictEqual(
      names(run(strict, [overloaded, overloaded, truncated(), overloaded, overloaded, completed])),
      ["Retry", "Retry", "Escalate", "Retry", "Retry", "Done"]
    )
  })
})

describe("the overflow road", () => {
  const summary = (kind: FaultKind, status: number | null): Outcome => ({
    _tag: "SummaryFaulted",
    kind,
    status,
    code: null,
    hints: [],
    shouldRetry: null
  })
  it.each([
    { rule: "compacts once and goes on", given: [tooLong, compacted, completed], then: ["Compact", "Retry", "Done"] },
    {
      rule: "fails at the second overflow",
      given: [tooLong, compacted, tooLong],
      then: ["Compact", "Retry", "Fail StillTooLong"]
    },
    {
      rule: "fails with nothing to compact",
      given: [tooLong, { _tag: "NothingToCompact" } as Outcome],
      then: ["Compact", "Fail NothingToCompact"]
    },
    {
      rule: "fails when the result is not smaller",
      given: [tooLong, { ...compacted, after: 2_001 } as Outcome],
      then: ["Compact", "Fail NotSmaller"]
    },
    {
      rule: "counts messages under 1,000 tokens",
      given: [tooLong, { ...compacted, before: 999, after: 1_500, messagesAfter: 9 } as Outcome],
      then: ["Compact", "Retry"]
    },
    {
      rule: "lets the number of messages not grow",
      given: [tooLong, { ...compacted, before: 999, after: 10, messagesAfter: 10 } as Outcome],
      then: ["Compact", "Fail NotSmaller"]
    },
    {
      rule: "counts messages with a constant estimate",
      given: [tooLong, { ...compacted, after: 2_000 } as Outcome],
      then: ["Compact", "Retry"]
    },
    {
      rule: "waits for a summary that is rate limited",
      given: [tooLong, summary("rate_limited", 429), compacted, completed],
      then: ["Compact", "Compact", "Retry", "Done"]
    },
    {
      rule: "ends when the summary fails for good",
      given: [tooLong, summary("server_error", 500)],
      then: ["Compact", "Fail SummaryFailed"]
    },
    {
      rule: "ends when the summary is no summary",
      given: [tooLong, summary("malformed_response", 200)],
      then: ["Compact", "Fail SummaryFailed"]
    }
  ])("$rule", ({ given, then }) => {
    assert.deepStrictEqual(names(run(strict, given)), then)
  })

  it("does not count a summary as an attempt and leaves the overload run alone", () => {
    const played = run(make({ maxAttempts: 3 }), [
      tooLong,
      summary("overloaded", 529),
      summary("overloaded", 529),
      summary("overloaded", 529)
    ])
    assert.deepStrictEqual(names(played), ["Compact", "Compact", "Compact", "Fail SummaryFailed"])
    assert.strictEqual(played.states.at(-1)?.attempts, 1)
    assert.strictEqual(played.states.at(-1)?.run, null)
  })

  it("passes the error on when compaction is off", () => {
    assert.deepStrictEqual(names(run(make({ compaction: { mode: "off" } }), [tooLong])), ["Fail Passthrough"])
  })

  it("goes to a wider route when told to", () => {
    const wide = (window: number | null): RecoveryPolicy =>
      make({
        fallbackAfter: { overflow: 1 },
        routes: [
          { model: "a", contextWindow: 1_000 },
          { model: "b", contextWindow: window }
        ]
      })
    assert.deepStrictEqual(names(run(wide(2_000), [tooLong])), ["Fallback"])
    assert.deepStrictEqual(names(run(wide(null), [tooLong])), ["Fallback"])
    assert.deepStrictEqual(names(run(wide(1_000), [tooLong])), ["Compact"])
  })
})

describe("what spans the roads", () => {
  it("counts only whole replies past the deadline", () => {
    const late = (outcome: Outcome): string => {
      const state = initial(strict, {
        now: 0,
        deadline: 10,
        route: 0,
        callerCap: null,
        streaming: false,
        background: false
      })
      const next = transition(strict, state, outcome, {
        now: 10,
        wall: 10,
        backoffMillis: 1,
        spread: 0,
        progressMillis: 0
      })
      return next.action._tag === "Fail" ? next.action.reason : next.action._tag
    }
    assert.deepStrictEqual([completed, { _tag: "Refused" } as Outcome].map(late), ["Done", "Done"])
    assert.deepStrictEqual(
      [truncated(), tooLong, rateLimited, compacted, serverError].map(late),
      Array.from({ length: 5 }, () => "Deadline")
    )
  })

  it("moves the deadline on by a stream's progress, never the hard cap", () => {
    const policy = make({ ...RecoveryPolicy.broad, routeHealth: null, routes })
    const state = initial(policy, {
      now: 0,
      deadline: 100,
      route: 0,
      callerCap: null,
      streaming: true,
      background: false
    })
    const next = transition(policy, state, rateLimited, {
      now: 90,
      wall: 0,
      backoffMillis: 1,
      spread: 0,
      progressMillis: 50
    })
    assert.strictEqual(next.state.deadline, 150)
    assert.strictEqual(next.state.hardCap, state.hardCap)
  })

  it.each([
    { wanted: 8_000, limit: null, window: null, prompt: 10, cap: null, then: 8_000 },
    { wanted: 64_000, limit: 8_192, window: null, prompt: 10, cap: null, then: 8_192 },
    { wanted: 8_000, limit: null, window: null, prompt: 10, cap: 100, then: 100 },
    { wanted: 8_000, limit: null, window: 10_000, prompt: 9_000, cap: null, then: 910 },
    { wanted: 8_000, limit: null, window: 10_000, prompt: 9_999, cap: null, then: 1 },
    { wanted: 8_000, limit: null, window: 10_000, prompt: 10_000, cap: null, then: 8_000 }
  ])("clamps $wanted to $then (limit $limit, window $window, prompt $prompt, cap $cap)", (row) => {
    const route = { ...routeAt(strict, 0), outputLimit: row.limit, contextWindow: row.window }
    assert.strictEqual(clampBudget(row.wanted, route, row.prompt, row.cap), row.then)
  })
})

/** Random outcomes that a driver could really hand in. */
const statuses = [400, 401, 402, 403, 404, 408, 413, 422, 429, 500, 502, 503, 529]
const Any = Schema.Struct({
  pick: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 9 })),
  kind: Schema.Literals([
    "rate_limited",
    "overloaded",
    "server_error",
    "timeout",
    "connection",
    "interrupted",
    "auth",
    "invalid_request",
    "quota_exhausted",
    "empty_reply"
  ]),
  status: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: statuses.length - 1 })),
  size: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 9_000 })),
  hint: Schema.Int.check(Schema.isBetween({ minimum: -20, maximum: 400 })),
  flag: Schema.Boolean
})

const outcomeOf = (raw: typeof Any.Type): Outcome => {
  const status = statuses[raw.status] ?? 500
  const legal = isLegal(raw.kind, status) ? status : isLegal(raw.kind, 200) ? 200 : null
  const hints: ReadonlyArray<HintReading> =
    raw.hint < -10 ? [{ _tag: "Invalid", source: "retry-after" }] : raw.hint < 0 ? [] : [seconds(raw.hint * 1_000)]
  const fault = {
    kind: raw.kind,
    status: legal,
    code: null,
    hints,
    shouldRetry: raw.flag && raw.hint > 350 ? false : null
  }
  switch (raw.pick) {
    case 0:
      return truncated({
        textLength: raw.size,
        toolCalls: raw.flag ? 1 : 0,
        outputTokens: raw.size,
        durationMillis: raw.size * 3
      })
    case 1:
      return truncated({ sentTokens: 64_000, textLength: raw.size, outputTokens: raw.size })
    case 2:
      return tooLong
    case 3:
      return raw.flag ? completed : rateLimited
    default:
      return { _tag: "Faulted", ...fault, ...nothingSeen, other: null }
  }
}

/** After a Compact action the next outcome is that of the compaction. */
const answerCompaction = (raw: typeof Any.Type): Outcome =>
  raw.pick < 5
    ? { ...compacted, after: raw.size }
    : raw.pick < 7
      ? { _tag: "NothingToCompact" }
      : {
          _tag: "SummaryFaulted",
          kind: raw.kind,
          status: isLegal(raw.kind, 200) ? 200 : null,
          code: null,
          hints: [],
          shouldRetry: null
        }

describe("for any script of outcomes", () => {
  const presets = [
    strict,
    broad,
    make({ ...RecoveryPolicy.unattended, routeHealth: null, routes }),
    make({ ...RecoveryPolicy.background, routeHealth: null, routes: [{ model: "m" }] })
  ]
  it.effect.prop(
    "the machine keeps its bounds, its time and its hints",
    {
      script: Schema.Array(Any).check(Schema.isMaxLength(40)),
      preset: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 3 })),
      spread: Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1 }))
    },
    ({ script, preset, spread }) =>
      Effect.sync(() => {
        const policy = presets[preset] ?? strict
        let state: RecoveryState = Object.freeze(
          initial(policy, {
            now: 0,
            deadline: policy.deadline,
            route: 0,
            callerCap: null,
            streaming: false,
            background: false
          })
        )
        let now = 0
        let faults = 0
        let escalations = 0
        let compactions = 0
        let continuations = 0
        let previous: RecoveryAction | null = null
        for (const raw of script) {
          const outcome = Object.freeze(previous?._tag === "Compact" ? answerCompaction(raw) : outcomeOf(raw))
          const backoffMillis = stepsBackoff(outcome) ? Math.min(policy.backoff.cap, 500 * 2 ** faults) : null
          const tick: Tick = { now, wall: now, backoffMillis, spread, progressMillis: 0 }
          const end = endOf(state)
          const { state: next, action } = transition(policy, state, outcome, tick)
          // Same input, same output.
          assert.deepStrictEqual(transition(policy, state, outcome, tick), { state: next, action })
          if (stepsBackoff(outcome)) faults += 1
          if (action._tag === "Escalate") escalations += 1
          if (action._tag === "Continue") continuations += 1
          if (action._tag === "Compact" && previous?._tag !== "Compact") compactions += 1
          assert.isTrue(escalations <= 1 && compactions <= 1 && continuations <= policy.maxContinuations)
          if (policy.maxAttempts !== null) assert.isTrue(next.transients <= policy.maxAttempts)
          const delay = delayOf(action)
          assert.isTrue(Number.isFinite(delay) && delay >= 0)
          // Never a wait that reaches the deadline.
          if (delay > 0 && end !== null) assert.isTrue(now + delay < end)
          if ("hints" in outcome && action._tag === "Retry") {
            const first = outcome.hints[0]
            const wait = first === undefined ? null : waitOf(first, now)
            // Never shorter than a valid hint; never any wait on a bad one in strict.
            if (wait !== null) assert.isTrue(delay >= wait)
            if (first?._tag === "Invalid") assert.notStrictEqual(policy.retryAfter, "exact")
          }
          assert.isTrue(next.route < policy.routes.length)
          if (action._tag === "Done" || action._tag === "Fail") return
          now += delay
          state = Object.freeze(next)
          previous = action
        }
      }),
    { arbitrary: { runs: runs(20_000) } }
  )
})
