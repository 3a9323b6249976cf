import { assert, describe, it } from "@effect/vitest"
import { planOf } from "../../../src/domain/recovery/AttemptPlan.ts"
import type { FaultKind } from "../../../src/domain/failure/FaultKind.ts"
import { nothingSeen, type Faulted, type Outcome, type Seen } from "../../../src/domain/recovery/Outcome.ts"
import type { RecoveryAction } from "../../../src/domain/recovery/RecoveryAction.ts"
import { transition } from "../../../src/domain/recovery/RecoveryMachine.ts"
import { RecoveryPolicy, type RecoveryPolicyInput } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import { initial, type RecoveryState } from "../../../src/domain/recovery/RecoveryState.ts"
import { isSmaller } from "../../../src/domain/recovery/roads/Overflow.ts"
import {
  classOf,
  countRun,
  isRetryable,
  nextRoute,
  runClassOf,
  rangeOf,
  spreadOf
} from "../../../src/domain/recovery/roads/Transient.ts"
import { hasTimeToRaise, refusesRaise } from "../../../src/domain/recovery/roads/Truncation.ts"
import type { Tick } from "../../../src/domain/recovery/Tick.ts"

const routes = [
  { model: "a", contextWindow: 1_000 },
  { model: "b", contextWindow: 1_000 },
  { model: "c", contextWindow: 2_000 }
]
const make = (input: Partial<RecoveryPolicyInput> = {}): RecoveryPolicy =>
  new RecoveryPolicy({ ...RecoveryPolicy.strict, routes, ...input })
const broad = make({ ...RecoveryPolicy.broad, routeHealth: null })
const strict = make()

const fault = (kind: FaultKind, more: Partial<Faulted> = {}): Faulted => ({
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
const tick = (more: Partial<Tick> = {}): Tick => ({
  now: 0,
  wall: 0,
  backoffMillis: 700,
  spread: 0.5,
  progressMillis: 0,
  ...more
})
const stateOf = (policy: RecoveryPolicy, more: Partial<RecoveryState> = {}): RecoveryState => ({
  ...initial(policy, {
    now: 0,
    deadline: policy.deadline,
    route: 0,
    callerCap: null,
    streaming: false,
    background: false
  }),
  ...more
})
const step = (policy: RecoveryPolicy, outcome: Outcome, state: Partial<RecoveryState> = {}, at: Partial<Tick> = {}) =>
  transition(policy, stateOf(policy, state), outcome, tick(at))

describe("actions are exact", () => {
  it.each<{
    readonly rule: string
    readonly policy?: RecoveryPolicy
    readonly state?: Partial<RecoveryState>
    readonly at?: Partial<Tick>
    readonly outcome: Outcome
    readonly action: RecoveryAction
    readonly then?: Partial<RecoveryState>
  }>([
    {
      rule: "a backoff",
      outcome: fault("rate_limited", { status: 429 }),
      action: { _tag: "Retry", shown: "none", delayMillis: 700, origin: "backoff", why: "rate_limited" },
      then: { attempts: 1, transients: 1, run: { class: "rateLimit", count: 1 }, rateLimits: 0 }
    },
    {
      rule: "a hint",
      outcome: fault("rate_limited", { status: 429, hints: [{ _tag: "Delay", source: "x", millis: 9_000 }] }),
      action: { _tag: "Retry", shown: "none", delayMillis: 9_000, origin: "hint", why: "rate_limited" },
      then: { rateLimits: 1 }
    },
    {
      rule: "a hint on an overload does not raise the spread",
      outcome: fault("overloaded", { status: 529, hints: [{ _tag: "Delay", source: "x", millis: 9_000 }] }),
      action: { _tag: "Retry", shown: "none", delayMillis: 9_000, origin: "hint", why: "overloaded" },
      then: { rateLimits: 0, run: { class: "overload", count: 1 } }
    },
    {
      rule: "a spread that gives way to the deadline",
      policy: broad,
      state: { deadline: 10_000 },
      outcome: fault("rate_limited", { hints: [{ _tag: "Delay", source: "x", millis: 9_000 }] }),
      action: { _tag: "Retry", shown: "none", delayMillis: 9_250, origin: "hint", why: "rate_limited" }
    },
    {
      rule: "a spread without a deadline",
      policy: broad,
      state: { deadline: null, hardCap: null },
      outcome: fault("rate_limited", { hints: [{ _tag: "Delay", source: "x", millis: 9_000 }] }),
      action: { _tag: "Retry", shown: "none", delayMillis: 16_425, origin: "hint", why: "rate_limited" }
    },
    {
      rule: "a spread in later time",
      policy: broad,
      state: { deadline: 20_000 },
      at: { now: 10_000 },
      outcome: fault("rate_limited", { hints: [{ _tag: "Delay", source: "x", millis: 9_000 }] }),
      action: { _tag: "Retry", shown: "none", delayMillis: 9_250, origin: "hint", why: "rate_limited" }
    },
    {
      rule: "a fallback",
      state: { run: { class: "overload", count: 2 } },
      outcome: fault("overloaded", { status: 529 }),
      action: {
        _tag: "Fallback",
        shown: "none",
        delayMillis: 700,
        origin: "backoff",
        from: "a",
        to: "b",
        why: "overloaded"
      },
      then: { route: 1, run: null, switched: true }
    },
    {
      rule: "the next link of the chain",
      state: { route: 1, run: { class: "overload", count: 2 } },
      outcome: fault("overloaded", { status: 529 }),
      action: {
        _tag: "Fallback",
        shown: "none",
        delayMillis: 700,
        origin: "backoff",
        from: "b",
        to: "c",
        why: "overloaded"
      },
      then: { route: 2 }
    },
    {
      rule: "no fallback behind the last route",
      state: { route: 2, run: { class: "overload", count: 2 } },
      outcome: fault("overloaded", { status: 529 }),
      action: { _tag: "Retry", shown: "none", delayMillis: 700, origin: "backoff", why: "overloaded" },
      then: { route: 2, run: { class: "overload", count: 3 } }
    },
    {
      rule: "the first switch under route health",
      policy: make({ ...RecoveryPolicy.broad }),
      state: { run: { class: "overload", count: 2 } },
      outcome: fault("overloaded"),
      action: {
        _tag: "Fallback",
        shown: "none",
        delayMillis: 150,
        origin: "backoff",
        from: "a",
        to: "b",
        why: "overloaded"
      }
    },
    {
      rule: "a later switch under route health",
      policy: make({ ...RecoveryPolicy.broad }),
      state: { switched: true, run: { class: "overload", count: 2 } },
      outcome: fault("overloaded"),
      action: {
        _tag: "Fallback",
        shown: "none",
        delayMillis: 700,
        origin: "backoff",
        from: "a",
        to: "b",
        why: "overloaded"
      }
    },
    {
      rule: "a schedule that has ended",
      at: { backoffMillis: null },
      outcome: fault("rate_limited", { status: 429 }),
      action: { _tag: "Fail", reason: "Attempts", waitMillis: null }
    },
    {
      rule: "a hint after the schedule has ended",
      at: { backoffMillis: null },
      outcome: fault("rate_limited", { status: 429, hints: [{ _tag: "Delay", source: "x", millis: 5 }] }),
      action: { _tag: "Retry", shown: "none", delayMillis: 5, origin: "hint", why: "rate_limited" }
    },
    {
      rule: "a wait that does not fit",
      state: { deadline: 700 },
      outcome: fault("rate_limited", { status: 429 }),
      action: { _tag: "Fail", reason: "Deadline", waitMillis: 700 }
    },
    {
      rule: "a hint that does not fit",
      state: { deadline: 700 },
      outcome: fault("rate_limited", { status: 429, hints: [{ _tag: "Delay", source: "x", millis: 900 }] }),
      action: { _tag: "Fail", reason: "Deadline", waitMillis: 900 }
    },
    {
      rule: "shown text under fail",
      policy: make({ ...RecoveryPolicy.broad, routeHealth: null, onCut: "fail" }),
      outcome: fault("interrupted", { delivered: 1 }),
      action: { _tag: "Fail", reason: "Passthrough", waitMillis: null }
    },
    {
      rule: "a shown call under fail",
      policy: make({ ...RecoveryPolicy.broad, routeHealth: null, onCut: "fail" }),
      outcome: fault("interrupted", { unfinishable: true }),
      action: { _tag: "Fail", reason: "Passthrough", waitMillis: null }
    },
    {
      rule: "nothing shown under fail",
      policy: make({ ...RecoveryPolicy.broad, routeHealth: null, onCut: "fail" }),
      outcome: fault("interrupted"),
      action: { _tag: "Retry", shown: "none", delayMillis: 700, origin: "backoff", why: "interrupted" }
    },
    {
      rule: "shown text under restart",
      policy: broad,
      outcome: fault("interrupted", { delivered: 1 }),
      action: { _tag: "Retry", shown: "restart", delayMillis: 700, origin: "backoff", why: "interrupted" }
    },
    {
      rule: "a background rate limit is not shed",
      policy: make({ ...RecoveryPolicy.background, routeHealth: null, routes: [{ model: "a" }] }),
      outcome: fault("rate_limited", { status: 429 }),
      action: { _tag: "Retry", shown: "none", delayMillis: 700, origin: "backoff", why: "rate_limited" }
    },
    {
      rule: "a held route",
      outcome: { _tag: "Held", untilMillis: 400, reason: "breaker", other: null },
      at: { now: 100 },
      action: { _tag: "Retry", shown: "none", delayMillis: 300, origin: "held", why: "breaker" },
      then: { attempts: 0, transients: 0 }
    },
    {
      rule: "a held route that is open by now",
      outcome: { _tag: "Held", untilMillis: 50, reason: "breaker", other: null },
      at: { now: 100 },
      action: { _tag: "Retry", shown: "none", delayMillis: 0, origin: "held", why: "breaker" }
    },
    {
      rule: "a held route beyond the deadline",
      state: { deadline: 400 },
      outcome: { _tag: "Held", untilMillis: 400, reason: "breaker", other: null },
      at: { now: 100 },
      action: { _tag: "Fail", reason: "Deadline", waitMillis: 300 }
    },
    {
      rule: "a held route one millisecond before it",
      state: { deadline: 401 },
      outcome: { _tag: "Held", untilMillis: 400, reason: "breaker", other: null },
      at: { now: 100 },
      action: { _tag: "Retry", shown: "none", delayMillis: 300, origin: "held", why: "breaker" }
    },
    {
      rule: "a held route without any deadline",
      state: { deadline: null },
      outcome: { _tag: "Held", untilMillis: 400, reason: "breaker", other: null },
      action: { _tag: "Retry", shown: "none", delayMillis: 400, origin: "held", why: "breaker" }
    },
    {
      rule: "a held route with another one open",
      outcome: { _tag: "Held", untilMillis: 400, reason: "breaker", other: 2 },
      action: { _tag: "Fallback", shown: "none", delayMillis: 0, origin: "held", from: "a", to: "c", why: "breaker" },
      then: { route: 2, run: null }
    },
    {
      rule: "background at a closed door",
      outcome: { _tag: "Held", untilMillis: 400, reason: "shed", other: null },
      action: { _tag: "Fail", reason: "Shed", waitMillis: null }
    },
    {
      rule: "the deadline",
      outcome: { _tag: "DeadlineHit" },
      action: { _tag: "Fail", reason: "Deadline", waitMillis: null },
      then: { attempts: 0 }
    },
    {
      rule: "the budget",
      outcome: { _tag: "BudgetRefused" },
      action: { _tag: "Fail", reason: "Budget", waitMillis: null },
      then: { attempts: 0 }
    },
    {
      rule: "compaction",
      outcome: { _tag: "PromptTooLong", status: 400, code: "x", ...nothingSeen },
      action: { _tag: "Compact", shown: "none", delayMillis: 0, origin: "none" },
      then: { compacted: true, overflows: 1, attempts: 1 }
    },
    {
      rule: "after compaction",
      state: { compacted: true },
      outcome: { _tag: "Compacted", before: 9, after: 3, messagesBefore: 5, messagesAfter: 5 },
      action: { _tag: "Retry", shown: "none", delayMillis: 0, origin: "none", why: "compacted" }
    },
    {
      rule: "a wider route",
      policy: make({ fallbackAfter: { overflow: 1 } }),
      outcome: { _tag: "PromptTooLong", status: 400, code: "x", ...nothingSeen },
      action: {
        _tag: "Fallback",
        shown: "none",
        delayMillis: 0,
        origin: "none",
        from: "a",
        to: "c",
        why: "prompt_too_long"
      },
      then: { route: 2 }
    },
    {
      rule: "the second overflow of two",
      policy: make({ fallbackAfter: { overflow: 2 } }),
      outcome: { _tag: "PromptTooLong", status: 400, code: "x", ...nothingSeen },
      action: { _tag: "Compact", shown: "none", delayMillis: 0, origin: "none" }
    },
    {
      rule: "a summary that waits",
      state: { compacted: true },
      outcome: { _tag: "SummaryFaulted", kind: "rate_limited", status: 429, code: null, hints: [], shouldRetry: null },
      action: { _tag: "Compact", shown: "none", delayMillis: 700, origin: "backoff" },
      then: { attempts: 0, transients: 1 }
    },
    {
      rule: "a summary whose wait does not fit",
      state: { compacted: true, deadline: 700 },
      outcome: { _tag: "SummaryFaulted", kind: "rate_limited", status: 429, code: null, hints: [], shouldRetry: null },
      action: { _tag: "Fail", reason: "Deadline", waitMillis: 700 }
    },
    {
      rule: "a refusal of the raise that is transient",
      policy: make({ ...RecoveryPolicy.broad, routeHealth: null }),
      state: { setAside: { maxOutputTokens: 8_000, textLength: 3, toolCalls: 0, tokens: 5, kept: false } },
      outcome: fault("invalid_request", { status: 400, shouldRetry: true }),
      action: { _tag: "Retry", shown: "none", delayMillis: 700, origin: "backoff", why: "invalid_request" }
    },
    {
      rule: "a refusal of the raise",
      state: {
        raised: true,
        maxOutputTokens: 64_000,
        setAside: { maxOutputTokens: 8_000, textLength: 3, toolCalls: 0, tokens: 5, kept: false }
      },
      outcome: fault("invalid_request", { status: 400 }),
      action: { _tag: "Continue", ordinal: 1, delayMillis: 0, origin: "none", maxOutputTokens: 8_000 },
      then: { setAside: null, maxOutputTokens: 8_000, continuations: 1 }
    },
    {
      rule: "an overflow after the raise that is no refusal of it",
      state: { setAside: { maxOutputTokens: 8_000, textLength: 3, toolCalls: 0, tokens: 5, kept: false } },
      outcome: { _tag: "PromptTooLong", status: 403, code: "x", ...nothingSeen },
      action: { _tag: "Compact", shown: "none", delayMillis: 0, origin: "none" },
      then: { setAside: null }
    },
    {
      rule: "a refusal of the raise after the last continuation",
      state: {
        continuations: 3,
        setAside: { maxOutputTokens: 8_000, textLength: 3, toolCalls: 0, tokens: 5, kept: false }
      },
      outcome: fault("invalid_request", { status: 400 }),
      action: { _tag: "Fail", reason: "Continuations", waitMillis: null }
    },
    {
      rule: "a refusal with the fragment in the window",
      state: { setAside: { maxOutputTokens: 8_000, textLength: 3, toolCalls: 0, tokens: 5, kept: true } },
      outcome: fault("invalid_request", { status: 400 }),
      action: { _tag: "Retry", shown: "none", delayMillis: 0, origin: "none", why: "raise_refused" },
      then: { setAside: null }
    }
  ])("$rule", ({ policy = strict, state, at, outcome, action, then }) => {
    const next = step(policy, outcome, state, at)
    assert.deepStrictEqual(next.action, action)
    if (then !== undefined) assert.deepInclude(next.state, then)
  })
})

describe("a failure that has opened the breaker of its route", () => {
  const opened = fault("overloaded", { status: 529, other: 1 })

  it("makes the request leave for the route that takes it, at once, with what was shown", () => {
    const { action, state } = step(broad, { ...opened, delivered: 12 })
    assert.deepStrictEqual(action, {
      _tag: "Fallback",
      delayMillis: 0,
      origin: "held",
      shown: "restart",
      from: "a",
      to: "b",
      why: "breaker"
    })
    assert.deepInclude(state, { route: 1, run: null, left: true, switched: false, transients: 1 })
  })

  it("leaves without a wait that would not fit, and reads no hint of the route it leaves", () => {
    const hints = [{ _tag: "Delay", source: "retry-after", millis: 1e9 }] as const
    assert.strictEqual(step(broad, { ...opened, hints }, { deadline: 1_000 }).action._tag, "Fallback")
    assert.strictEqual(step(broad, { ...opened, hints: [], other: null }, { deadline: 500 }).action._tag, "Fail")
  })

  it.each([
    { given: "it has left once", policy: broad, state: { left: true } },
    { given: "the way back is closed", policy: make({ ...broad, fallbackScope: "turn" }), state: {} },
    { given: "no other route takes it", policy: broad, state: {}, other: null }
  ])("stays and waits when $given", ({ policy, state, other = 1 }) =>
    assert.deepInclude(step(policy, { ...opened, other }, state).action, { _tag: "Retry", delayMillis: 700 })
  )

  it("ends with its last attempt, and with its schedule", () => {
    assert.deepInclude(step(broad, opened, { transients: (broad.maxAttempts ?? 0) - 1 }).action, { reason: "Attempts" })
    assert.deepInclude(step(broad, opened, {}, { backoffMillis: null }).action, { reason: "Attempts" })
  })

  it("switches as after any run of failures when the run is long enough, and has not left by that", () => {
    const { action, state } = step(broad, opened, { run: { class: "overload", count: 2 } })
    assert.deepInclude(action, { _tag: "Fallback", origin: "backoff", to: "b" })
    assert.isFalse(state.left)
  })
})

describe("classes", () => {
  it.each<readonly [FaultKind, string | null]>([
    ["rate_limited", "rateLimit"],
    ["overloaded", "overload"],
    ["server_error", "serverError"],
    ["timeout", "silent"],
    ["connection", "connection"],
    ["interrupted", "cut"],
    ["empty_reply", "empty"],
    ["auth", null],
    ["malformed_response", null]
  ])("%s is counted as %s", (kind, group) => {
    assert.strictEqual(classOf({ kind, code: null }), group)
    assert.strictEqual(runClassOf(broad, fault(kind)), group)
  })

  it("in strict follow the status alone", () => {
    const of = (kind: FaultKind, status: number | null): string | null => runClassOf(strict, fault(kind, { status }))
    assert.deepStrictEqual(
      [
        of("overloaded", 529),
        of("overloaded", 503),
        of("overloaded", 200),
        of("rate_limited", 429),
        of("overloaded", 429),
        of("server_error", 500),
        of("connection", null)
      ],
      ["overload", null, null, "rateLimit", "rateLimit", null, null]
    )
    const mixed = make({ retry: ["http529", "connection"] })
    assert.deepStrictEqual(
      [
        runClassOf(mixed, fault("connection")),
        runClassOf(mixed, fault("timeout")),
        runClassOf(mixed, fault("auth", { status: 401 }))
      ],
      ["connection", null, null]
    )
    assert.strictEqual(runClassOf(make({ retry: ["http429"] }), fault("server_error", { status: 500 })), null)
  })

  it("are retried one by one", () => {
    const only =
      (retry: RecoveryPolicyInput["retry"]) =>
      (kind: FaultKind, status: number | null = null) =>
        isRetryable(
          make({ ...RecoveryPolicy.broad, routeHealth: null, ...(retry === undefined ? {} : { retry }) }),
          fault(kind, { status })
        )
    assert.deepStrictEqual(
      [
        only(["connection"])("connection"),
        only(["connection"])("timeout"),
        only(["http429"])("overloaded", 429),
        only(["http429"])("overloaded", 529),
        only(["http529"])("overloaded", 529),
        only([])("auth", 401)
      ],
      [true, false, true, false, true, false]
    )
  })

  it("end a run with any other", () => {
    const of = (run: RecoveryState["run"], group: Parameters<typeof countRun>[1]) =>
      countRun(stateOf(strict, { run }), group)
    assert.deepStrictEqual(of({ class: "overload", count: 2 }, "overload"), { class: "overload", count: 3 })
    assert.deepStrictEqual(of({ class: "overload", count: 2 }, "silent"), { class: "silent", count: 1 })
    assert.deepStrictEqual(of(null, "silent"), { class: "silent", count: 1 })
    assert.strictEqual(of({ class: "overload", count: 2 }, null), null)
  })

  it("lead to the next route when the run is long enough", () => {
    const of = (run: RecoveryState["run"], route = 0) =>
      nextRoute(make({ fallbackAfter: { silent: 1, overload: 2 } }), stateOf(strict, { route }), run)
    assert.deepStrictEqual(
      [
        of(null),
        of({ class: "empty", count: 9 }),
        of({ class: "cut", count: 9 }),
        of({ class: "silent", count: 1 }),
        of({ class: "overload", count: 1 }),
        of({ class: "overload", count: 2 }),
        of({ class: "silent", count: 1 }, 1),
        of({ class: "silent", count: 1 }, 2)
      ],
      [null, null, null, 1, null, 1, 2, null]
    )
  })

  it.each<readonly [string, Faulted]>([
    ["an answer", fault("malformed_response", { status: 200, code: "tool_calls_missing" })],
    ["a call without a name", fault("malformed_response", { status: 200, code: "tool_call_without_name" })],
    ["a refusal of the model's own call", fault("invalid_request", { status: 400, code: "tool_use_failed" })],
    ["a finish word", fault("malformed_response", { status: 200, code: "MALFORMED_FUNCTION_CALL" })]
  ])("ask for a botched sample again, at most twice in a row, and not at all in strict: %s", (_, botched) => {
    let state: Partial<RecoveryState> = {}
    const actions: Array<string> = []
    for (let sample = 1; sample <= 3; sample += 1) {
      const next = step(broad, botched, state)
      actions.push(next.action._tag)
      state = next.state
    }
    assert.deepStrictEqual(actions, ["Retry", "Retry", "Fail"])
    assert.strictEqual(step(strict, botched).action._tag, "Fail")
  })

  it("begin to count botched samples anew behind another failure", () => {
    const botched = fault("malformed_response", { status: 200, code: "tool_calls_missing" })
    let state: Partial<RecoveryState> = {}
    const actions = [botched, botched, fault("overloaded"), botched, botched, botched].map((outcome) => {
      const next = step(broad, outcome, state)
      state = next.state
      return next.action._tag
    })
    assert.deepStrictEqual(actions, ["Retry", "Retry", "Retry", "Retry", "Retry", "Fail"])
  })

  it("leave half of the time after the hint to the answer", () => {
    assert.deepStrictEqual(
      [
        spreadOf(200_000, 100_000, 0),
        spreadOf(10_000, 290_000, 0),
        spreadOf(10_000, 0, 0),
        spreadOf(10_000, -5, 0),
        spreadOf(10_000, null, 0)
      ],
      [50_000, 10_000, 0, 0, 10_000]
    )
  })

  it("are not narrowed below what was affordable before", () => {
    assert.deepStrictEqual(
      [spreadOf(64_000, 10_000, 32_000), spreadOf(16_000, 10_000, 32_000), spreadOf(64_000, -1, 32_000)],
      [32_000, 16_000, 32_000]
    )
  })

  it("spread a first hint by a quarter when it is short and by twice its length when it is long", () => {
    assert.deepStrictEqual(
      [rangeOf(1_000, 0), rangeOf(5_000, 0), rangeOf(7_500, 0), rangeOf(10_000, 0), rangeOf(20_000, 0)],
      [250, 1_250, 8_437.5, 20_000, 40_000]
    )
  })

  it("spread a date, which adds up to a second of its own, by half as much at most or by a second less", () => {
    const dated = (millis: number, serverEpochMillis: number | null) =>
      fault("rate_limited", {
        hints: [{ _tag: "At", source: "x", epochMillis: (serverEpochMillis ?? 1_000_000) + millis, serverEpochMillis }]
      })
    const waitOf = (outcome: Outcome): unknown => step(broad, outcome, {}, { spread: 1, wall: 1_000_000 }).action
    assert.deepInclude(waitOf(dated(4_000, 2_000)), { delayMillis: 4_500 })
    assert.deepInclude(waitOf(dated(10_000, 2_000)), { delayMillis: 29_000 })
    assert.deepInclude(waitOf(dated(4_000, null)), { delayMillis: 5_000 })
  })

  it("spread a hint no more for a second one where calls leave one after the other", () => {
    const hints = [{ _tag: "Delay", source: "x", millis: 1_000 }] as const
    const again = { rateLimits: 3, spreadRange: 20_000, hintsInVain: 3 }
    const { action } = step(broad, fault("rate_limited", { hints, paced: true }), again, { spread: 1 })
    assert.deepInclude(action, { delayMillis: 1_250, origin: "hint" })
  })

  it("spread a repeated hint by ten seconds to ten minutes, five doublings at most", () => {
    assert.deepStrictEqual(
      [rangeOf(1_000, 1), rangeOf(10_000, 1), rangeOf(10_000, 9), rangeOf(14_400_000, 0)],
      [10_000, 20_000, 320_000, 600_000]
    )
  })

  it("spread a hint after another one no less than that one", () => {
    const hinted = (millis: number) => fault("rate_limited", { hints: [{ _tag: "Delay", source: "x", millis }] })
    const first = step(broad, hinted(10_000), {}, { spread: 1 })
    const second = step(broad, hinted(1_000), { ...first.state }, { spread: 1 })
    assert.deepInclude(second.action, { delayMillis: 21_000, origin: "hint" })
  })

  const limited = (millis: number, kind: FaultKind = "rate_limited") =>
    fault(kind, { status: kind === "rate_limited" ? 429 : 529, hints: [{ _tag: "Delay", source: "x", millis }] })

  it("count no less than the backoff once a hint was followed in vain, but exactly in strict", () => {
    const of = (policy: RecoveryPolicy, hintsInVain: number, millis: number, kind: FaultKind = "rate_limited") => {
      const { action } = step(policy, limited(millis, kind), { hintsInVain }, { spread: 0, backoffMillis: 4_000 })
      return action._tag === "Retry" ? [action.delayMillis, action.origin] : action._tag
    }
    const patient = make({ ...RecoveryPolicy.broad, routeHealth: null, fallbackAfter: {} })
    assert.deepStrictEqual(
      [
        of(patient, 0, 0),
        of(patient, 1, 0),
        of(patient, 1, 3_999),
        of(patient, 1, 4_000),
        of(patient, 3, 1, "overloaded")
      ],
      [
        [0, "hint"],
        [4_000, "backoff"],
        [4_000, "backoff"],
        [4_000, "hint"],
        [4_000, "backoff"]
      ]
    )
    assert.deepStrictEqual(
      [of(strict, 0, 0), of(strict, 5, 0)],
      [
        [0, "hint"],
        [0, "hint"]
      ]
    )
  })

  it("begin to count anew on another route", () => {
    const next = step(make({ ...RecoveryPolicy.broad, fallbackAfter: { overload: 1 } }), limited(0, "overloaded"), {
      hintsInVain: 4
    })
    assert.deepStrictEqual([next.action._tag, next.state.hintsInVain], ["Fallback", 0])
  })

  it.each([0, 0.5, 1])("never shrink towards the deadline (spread %f)", (spread) => {
    for (const millis of [0, 1, 900, 5_000, 20_000]) {
      let state = stateOf(broad)
      let now = 0
      let backoffMillis = 500
      const waits: Array<number> = []
      for (;;) {
        const next = transition(broad, state, limited(millis), tick({ now, spread, backoffMillis }))
        state = next.state
        if (next.action._tag !== "Retry") break
        waits.push(next.action.delayMillis)
        now += next.action.delayMillis
        backoffMillis = Math.min(32_000, backoffMillis * 2)
      }
      assert.isAbove(waits.length, 2)
      assert.deepStrictEqual(
        waits,
        [...waits].toSorted((a, b) => a - b)
      )
    }
  })
})

describe("the caller's cap", () => {
  const cut = (more: Partial<Extract<Outcome, { _tag: "Truncated" }>> = {}): Outcome => ({
    _tag: "Truncated",
    textLength: 9,
    toolCalls: 0,
    outputTokens: 100,
    durationMillis: 1_000,
    sentTokens: 100,
    promptTokens: 1,
    ...nothingSeen,
    ...more
  })
  const roomy = make({ routes: [{ model: "a" }] })

  it.each<{
    readonly rule: string
    readonly state: Partial<RecoveryState>
    readonly outcome?: Parameters<typeof cut>[0]
    readonly then: string
  }>([
    { rule: "a stop at it", state: { callerCap: 100 }, then: "Done" },
    { rule: "a stop at it in a stream", state: { callerCap: 100 }, outcome: { delivered: 9 }, then: "Done" },
    { rule: "a stop at it without text", state: { callerCap: 100 }, outcome: { textLength: 0 }, then: "Done" },
    { rule: "a stop at it without a usage", state: { callerCap: 100 }, outcome: { outputTokens: null }, then: "Done" },
    { rule: "a stop at what is left of it", state: { callerCap: 300, keptTokens: 200 }, then: "Done" },
    { rule: "a structured stop at it", state: { callerCap: 100, structured: true }, then: "Done" },
    {
      rule: "a server that wrote more",
      state: { callerCap: 100 },
      outcome: { outputTokens: 120, sentTokens: 90 },
      then: "Done"
    },
    { rule: "a stop below it", state: { callerCap: 101 }, then: "Escalate" },
    { rule: "a stop below it, raised before", state: { callerCap: 900, raised: true }, then: "Continue" },
    { rule: "no cap", state: {}, then: "Escalate" },
    {
      rule: "a tool call cut at it",
      state: { callerCap: 100 },
      outcome: { toolCalls: 1 },
      then: "Fail TruncatedToolCall"
    }
  ])("makes a value, and only that: $rule -> $then", ({ state, outcome, then }) => {
    const { action } = step(roomy, cut(outcome), state)
    assert.strictEqual(action._tag === "Fail" ? `Fail ${action.reason}` : action._tag, then)
  })

  it("bounds the budgets of all fragments together", () => {
    const first = step(roomy, cut({ outputTokens: 400, sentTokens: 400 }), { callerCap: 1_000, raised: true })
    assert.strictEqual(planOf(roomy, first.state, 1).maxOutputTokens, 600)
    const second = step(roomy, cut({ outputTokens: null, sentTokens: 500 }), { ...first.state })
    assert.strictEqual(planOf(roomy, second.state, 1).maxOutputTokens, 100)
    assert.strictEqual(step(roomy, cut({ outputTokens: 99, sentTokens: 100 }), { ...second.state }).action._tag, "Done")
  })

  it("counts what a refused raise goes back to, and what a cut stream has shown", () => {
    const aside = { maxOutputTokens: 700, textLength: 9, toolCalls: 0, tokens: 600, kept: false }
    const refused = step(roomy, fault("invalid_request", { status: 400 }), { callerCap: 1_000, setAside: aside })
    assert.deepStrictEqual([refused.action._tag, planOf(roomy, refused.state, 1).maxOutputTokens], ["Continue", 400])
    const resumed = step(make({ ...RecoveryPolicy.broad, onCut: "resume" }), fault("interrupted", { delivered: 41 }), {
      callerCap: 100
    })
    assert.strictEqual(resumed.state.keptTokens, 11)
  })

  it("does not reach a structured answer: it is raised, then it fails", () => {
    const of = (state: Partial<RecoveryState>, outcome: Parameters<typeof cut>[0] = {}) => {
      const { action } = step(roomy, cut(outcome), { structured: true, ...state })
      return action._tag === "Fail"
        ? `Fail ${action.reason}`
        : "shown" in action
          ? `${action._tag} ${action.shown}`
          : action._tag
    }
    assert.deepStrictEqual(
      [
        of({}),
        of({}, { delivered: 9 }),
        of({ raised: true }),
        of({ raised: true }, { delivered: 9 }),
        of({ raised: true }, { textLength: 0 })
      ],
      ["Escalate none", "Escalate restart", "Fail TruncatedStructure", "Fail TruncatedStructure", "Fail EmptyFragment"]
    )
    const aside = { maxOutputTokens: 700, textLength: 9, toolCalls: 0, tokens: 600, kept: false }
    const refused = step(roomy, fault("invalid_request", { status: 400 }), { structured: true, setAside: aside })
    assert.deepStrictEqual(refused.action, { _tag: "Fail", reason: "TruncatedStructure", waitMillis: null })
  })
})

describe("no budget", () => {
  const free = make({ routes: [{ model: "a", contextWindow: 100_000, outputLimit: 64_000 }], initialMaxTokens: null })
  const stopped = (
    outputTokens: number | null,
    more: Partial<Extract<Outcome, { _tag: "Truncated" }>> = {}
  ): Outcome => ({
    _tag: "Truncated",
    textLength: 9,
    toolCalls: 0,
    outputTokens,
    durationMillis: 1_000,
    sentTokens: null,
    promptTokens: 1,
    ...nothingSeen,
    ...more
  })

  it("is sent when the policy has none and the caller no cap, whatever limits are known", () => {
    const budget = (state: Partial<RecoveryState>) => planOf(free, stateOf(free, state), 90_000).maxOutputTokens
    assert.deepStrictEqual([budget({}), budget({ callerCap: 500 }), budget({ callerCap: 20_000 })], [null, 500, 9_100])
  })

  it.each<readonly [string, Outcome, Partial<RecoveryState>, string]>([
    ["a server's small default", stopped(16), {}, "Escalate"],
    ["a default nobody counts", stopped(null), {}, "Escalate"],
    ["a default above the raise", stopped(64_000), {}, "Continue"],
    ["a default, raised before", stopped(16), { raised: true, maxOutputTokens: 64_000 }, "Continue"],
    ["a shown reply", stopped(16, { delivered: 9 }), {}, "Continue"]
  ])("leaves a stop at %s to the roads", (_rule, outcome, state, then) => {
    assert.strictEqual(step(free, outcome, state).action._tag, then)
  })

  it("is gone back to when the raise is refused", () => {
    const raised = step(free, stopped(16))
    assert.deepStrictEqual([raised.action._tag, planOf(free, raised.state, 1).maxOutputTokens], ["Escalate", 64_000])
    const back = step(free, fault("invalid_request", { status: 400 }), { ...raised.state })
    assert.deepStrictEqual([back.action._tag, planOf(free, back.state, 1).maxOutputTokens], ["Continue", null])
  })
})

describe("what was shown", () => {
  const text: Seen = { delivered: 9, unfinishable: false, replayDiffers: false }
  const bare: Seen = { delivered: 0, unfinishable: true, replayDiffers: false }
  const halfCall: Seen = { delivered: 9, unfinishable: true, replayDiffers: false }
  const differs: Seen = { delivered: 9, unfinishable: false, replayDiffers: true }
  const onCut = (mode: RecoveryPolicy["onCut"]): RecoveryPolicy =>
    make({ ...RecoveryPolicy.broad, routeHealth: null, onCut: mode, fallbackAfter: { overload: 1, overflow: 1 } })
  const shownOf = (action: RecoveryAction): string =>
    "shown" in action ? `${action._tag} ${action.shown}` : action._tag

  it.each<{ readonly rule: string; readonly on?: RecoveryPolicy["onCut"]; readonly seen: Seen; readonly then: string }>(
    [
      { rule: "nothing", seen: nothingSeen, then: "none" },
      { rule: "nothing, to be resumed", on: "resume", seen: nothingSeen, then: "none" },
      { rule: "text", seen: text, then: "restart" },
      { rule: "text, to be resumed", on: "resume", seen: text, then: "resume" },
      { rule: "text, to be spliced", on: "splice", seen: text, then: "splice" },
      { rule: "a replay that differs", on: "splice", seen: differs, then: "resume" },
      { rule: "only reasoning", seen: bare, then: "restart" },
      { rule: "only reasoning, to be resumed", on: "resume", seen: bare, then: "restart" },
      { rule: "a cut tool call, to be spliced", on: "splice", seen: halfCall, then: "restart" }
    ]
  )("after a fault: $rule -> $then, on the same route and on another", ({ on = "restart", seen, then }) => {
    const action = (kind: FaultKind) => shownOf(step(onCut(on), fault(kind, seen)).action)
    assert.deepStrictEqual((["interrupted", "timeout", "rate_limited", "overloaded"] as const).map(action), [
      `Retry ${then}`,
      `Retry ${then}`,
      `Retry ${then}`,
      `Fallback ${then}`
    ])
  })

  it.each<RecoveryPolicy["onCut"]>(["restart", "resume", "splice"])(
    "of a structured answer is never a fragment (%s)",
    (mode) => {
      const of = (seen: Seen) => shownOf(step(onCut(mode), fault("interrupted", seen), { structured: true }).action)
      assert.deepStrictEqual(
        [of(text), of(differs)],
        [mode === "splice" ? "Retry splice" : "Retry restart", "Retry restart"]
      )
    }
  )

  it.each(["restart", "resume", "splice"] as const)("is dropped before a compaction, whatever %s says", (mode) => {
    const overflow = (seen: Seen): Outcome => ({ _tag: "PromptTooLong", status: 200, code: "x", ...seen })
    const of = (seen: Seen, state: Partial<RecoveryState>) => shownOf(step(onCut(mode), overflow(seen), state).action)
    assert.deepStrictEqual(
      [
        of(text, { route: 2 }),
        of(bare, { route: 2 }),
        of(nothingSeen, { route: 2 }),
        of(text, {}),
        of(nothingSeen, {})
      ],
      ["Compact restart", "Compact restart", "Compact none", "Fallback restart", "Fallback none"]
    )
  })

  it("is dropped for a raise when it cannot be continued", () => {
    const cut = (more: Partial<Extract<Outcome, { _tag: "Truncated" }>>): Outcome => ({
      _tag: "Truncated",
      textLength: 0,
      toolCalls: 0,
      outputTokens: 8_000,
      durationMillis: 1,
      sentTokens: 8_000,
      promptTokens: 1,
      ...nothingSeen,
      ...more
    })
    const roomy = make({ routes: [{ model: "a" }] })
    const of = (more: Parameters<typeof cut>[0]) => shownOf(step(roomy, cut(more)).action)
    assert.deepStrictEqual(
      [of({}), of(bare), of({ toolCalls: 1, ...halfCall }), of({ textLength: 9, ...text })],
      ["Escalate none", "Escalate restart", "Escalate restart", "Continue"]
    )
  })

  it.each<Outcome>([
    { _tag: "Held", untilMillis: 5, reason: "breaker", other: null },
    { _tag: "Held", untilMillis: 5, reason: "breaker", other: 1 },
    { _tag: "Compacted", before: 2_000, after: 1, messagesBefore: 2, messagesAfter: 1 },
    { _tag: "SummaryFaulted", kind: "server_error", status: 500, code: null, hints: [], shouldRetry: null }
  ])("stays as it was decided when no attempt lies between: $_tag", (outcome) => {
    const { action } = step(onCut("splice"), outcome)
    assert.isTrue("shown" in action && action.shown === "none")
  })

  it("goes with a fault when the policy fails on a cut", () => {
    const of = (seen: Seen) => shownOf(step(onCut("fail"), fault("interrupted", seen)).action)
    assert.deepStrictEqual([of(nothingSeen), of(text), of(bare)], ["Retry none", "Fail", "Fail"])
  })
})

describe("small questions", () => {
  it("is a compaction smaller", () => {
    const of = (before: number, after: number, messagesBefore: number, messagesAfter: number) =>
      isSmaller({ _tag: "Compacted", before, after, messagesBefore, messagesAfter })
    assert.deepStrictEqual(
      [
        of(1_000, 999, 1, 9),
        of(1_000, 1_001, 9, 1),
        of(999, 1_001, 9, 9),
        of(999, 5, 9, 10),
        of(1_000, 1_000, 9, 9),
        of(1_000, 1_000, 9, 10)
      ],
      [true, false, true, false, true, false]
    )
  })

  it("does an answer refuse the raise", () => {
    const aside = stateOf(strict, {
      setAside: { maxOutputTokens: 1, textLength: 1, toolCalls: 0, tokens: 5, kept: false }
    })
    assert.deepStrictEqual(
      [400, 402, 413, 422, 401, 429, 500].map((status) => refusesRaise(aside, status)),
      [true, true, true, true, false, false, false]
    )
    assert.isFalse(refusesRaise(aside, null))
    assert.isFalse(refusesRaise(stateOf(strict), 400))
  })

  it("is there time to raise", () => {
    const outcome = {
      _tag: "Truncated",
      textLength: 1,
      toolCalls: 0,
      outputTokens: 100,
      durationMillis: 1_000,
      sentTokens: 100,
      promptTokens: 1,
      ...nothingSeen
    } as const
    const of = (
      more: Partial<typeof outcome | { outputTokens: number | null; durationMillis: number }>,
      state: Partial<RecoveryState>,
      policy = broad
    ) => hasTimeToRaise(policy, stateOf(policy, state), { ...outcome, ...more } as typeof outcome, tick())
    assert.isTrue(of({}, { deadline: 2_000 }))
    assert.isFalse(of({}, { deadline: 1_999 }))
    assert.isTrue(of({ outputTokens: null }, { deadline: 1 }))
    assert.isTrue(of({ durationMillis: 0.5 }, { deadline: 1 }))
    assert.isTrue(of({ durationMillis: 1, outputTokens: 1 }, { deadline: 200 }))
    assert.isTrue(of({}, { deadline: null, hardCap: null }))
    // A stream's deadline moves with it: only the hard cap counts.
    assert.isTrue(of({}, { deadline: 1, streaming: true }))
    assert.isFalse(of({}, { hardCap: 1_999, streaming: true }))
    assert.isTrue(of({}, { deadline: 1 }, strict))
    assert.isFalse(of({}, {}, make({ raise: "never" })))
  })
})
