import { assert, describe, it } from "@effect/vitest"
import type { FaultKind } from "../../../src/domain/failure/FaultKind.ts"
import { nothingSeen, type Faulted, type Outcome } from "../../../src/domain/recovery/Outcome.ts"
import { presets, RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as RecoveryState from "../../../src/domain/recovery/RecoveryState.ts"
import { RouteHealthConfig } from "../../../src/domain/recovery/RouteHealthConfig.ts"
import type { Admission, Asker } from "../../../src/domain/route/Admission.ts"
import {
  afterOutcome,
  askerOf,
  heldBy,
  noHolds,
  signalOf,
  withAnswer,
  withPlace,
  type Holds,
  type Leave
} from "../../../src/domain/route/RouteQuestion.ts"

const now = 1_000
const models = (count: number) => Array.from({ length: count }, (_, i) => ({ model: `m${i}` }))
const two = new RecoveryPolicy({ ...presets.broad, routes: models(2) })
const one = new RecoveryPolicy({ ...presets.broad, routes: models(1) })

const stateOf = (policy: RecoveryPolicy, changes: Partial<RecoveryState.RecoveryState> = {}) => ({
  ...RecoveryState.initial(policy, {
    now: 0,
    deadline: 300_000,
    route: 0,
    callerCap: null,
    streaming: false,
    background: false
  }),
  ...changes
})

describe("who asks", () => {
  const plain: Asker = {
    own: 0,
    priority: "foreground",
    failedOn: null,
    price: 1,
    waitedFor: [],
    place: null,
    prefers: "own",
    leavesFor: ["breaker", "ramp"],
    deadline: 300_000
  }
  const asker = (holds: Partial<Holds>, changes: Partial<RecoveryState.RecoveryState> = {}, policy = two) =>
    askerOf(policy, stateOf(policy, changes), { ...noHolds, ...holds })

  it("is told by policy, state and memory", () => {
    assert.deepStrictEqual(asker({}), plain)
    assert.deepStrictEqual(asker({ failedOn: 0 }), { ...plain, failedOn: 0 })
    assert.deepStrictEqual(asker({ failedOn: 1 }), { ...plain, failedOn: 1 })
    assert.deepStrictEqual(asker({ waitedFor: ["hint"] }), { ...plain, waitedFor: ["hint"] })
    assert.deepStrictEqual(asker({ place: 7 }), { ...plain, place: 7 })
    assert.deepStrictEqual(asker({}, { background: true }), { ...plain, priority: "background" })
    assert.deepStrictEqual(asker({}, { deadline: null, hardCap: null }), { ...plain, deadline: null })
  })

  it("leaves for a breaker and a ramp where it has another route, for a hint and a pace where rate limits lead to a fallback", () => {
    assert.deepStrictEqual(asker({}, {}, one).leavesFor, [])
    const limited = new RecoveryPolicy({ ...presets.broad, routes: models(2), fallbackAfter: { rateLimit: 2 } })
    assert.deepStrictEqual(asker({}, {}, limited).leavesFor, ["breaker", "ramp", "hint", "pace"])
  })

  it.each([
    { given: "on the primary", state: {}, prefers: "own" },
    { given: "on a fallback", state: { route: 1 }, prefers: "others" },
    { given: "on a fallback after an attempt", state: { route: 1, attempts: 1 }, prefers: "own" },
    { given: "on a fallback, the way back closed", state: { route: 1 }, scope: "turn", prefers: "own" },
    { given: "after a run", state: { route: 1, attempts: 5, run: { class: "overload", count: 3 } }, prefers: "others" },
    {
      given: "after a longer run",
      state: { route: 1, attempts: 5, run: { class: "serverError", count: 4 } },
      prefers: "others"
    },
    {
      given: "after a shorter run",
      state: { route: 1, attempts: 5, run: { class: "overload", count: 2 } },
      prefers: "own"
    },
    {
      given: "after a run that leads nowhere",
      state: { route: 1, attempts: 5, run: { class: "silent", count: 9 } },
      prefers: "own"
    },
    {
      given: "after empty replies",
      state: { route: 1, attempts: 5, run: { class: "empty", count: 9 } },
      prefers: "own"
    }
  ] as ReadonlyArray<{
    readonly given: string
    readonly state: Partial<RecoveryState.RecoveryState>
    readonly scope?: "turn"
    readonly prefers: string
  }>)("prefers $prefers when it is $given", ({ state, scope, prefers }) => {
    const policy = scope === undefined ? two : new RecoveryPolicy({ ...two, fallbackScope: scope })
    assert.strictEqual(asker({}, state, policy).prefers, prefers)
  })
})

const placed = { place: 1, isPaced: false } as const

describe("what the machine hears", () => {
  const heard = (untilMillis: number, reason: string, other: number | null) =>
    ({ _tag: "Held", untilMillis, reason, other }) as const
  it.each([
    { admission: { _tag: "Go", candidate: 0, ticket: 3, ...placed, left: null }, outcome: null },
    { admission: { _tag: "Go", candidate: 1, ticket: null, ...placed, left: "ramp" }, outcome: heard(now, "ramp", 1) },
    {
      admission: { _tag: "Go", candidate: 0, ticket: null, ...placed, left: "return" },
      outcome: heard(now, "return", 0)
    },
    { admission: { _tag: "Held", untilMillis: 9_000, reason: "hint", place: 4 }, outcome: heard(9_000, "hint", null) },
    { admission: { _tag: "Shed" }, outcome: heard(now, "shed", null) }
  ] as ReadonlyArray<{ readonly admission: Admission; readonly outcome: Outcome | null }>)(
    "of $admission is $outcome",
    ({ admission, outcome }) => assert.deepStrictEqual(heldBy(admission, now), outcome)
  )

  it("of a report is the way out, in a fault and in nothing else", () => {
    assert.deepStrictEqual(withAnswer(fault("overloaded"), 1, false), fault("overloaded", { other: 1 }))
    assert.deepStrictEqual(withAnswer(fault("overloaded"), null, false), fault("overloaded"))
    assert.deepStrictEqual(withAnswer(fault("rate_limited"), null, true), fault("rate_limited", { paced: true }))
    assert.deepStrictEqual(withAnswer(completed, 1, true), completed)
  })
})

const fault = (kind: FaultKind, changes: Partial<Faulted> = {}): Faulted => ({
  _tag: "Faulted",
  kind,
  status: null,
  code: null,
  hints: [],
  shouldRetry: null,
  ...nothingSeen,
  other: null,
  ...changes
})
const held = (reason: string, other: number | null = null): Outcome => ({
  _tag: "Held",
  untilMillis: now,
  reason,
  other
})
const completed: Outcome = { _tag: "Completed" }
const truncated: Outcome = {
  _tag: "Truncated",
  textLength: 1,
  toolCalls: 0,
  outputTokens: null,
  durationMillis: 1,
  sentTokens: 1,
  promptTokens: 1,
  ...nothingSeen
}
const tooLong: Outcome = { _tag: "PromptTooLong", status: 400, code: null, ...nothingSeen }
const compacted: Outcome = { _tag: "Compacted", before: 2, after: 1, messagesBefore: 2, messagesAfter: 1 }

describe("the memory of a request", () => {
  const full: Holds = { failedOn: 0, price: 0.5, waitedFor: ["hint", "retryBudget"], obeyed: true, place: 5 }
  it.each([
    { outcome: fault("overloaded"), then: { ...full, failedOn: 2, price: 1, waitedFor: [], place: null } },
    { outcome: fault("server_error"), then: { ...full, failedOn: 2, waitedFor: [], place: null } },
    { outcome: completed, then: noHolds },
    { outcome: { _tag: "Refused" }, then: noHolds },
    { outcome: truncated, then: noHolds },
    { outcome: tooLong, then: noHolds },
    { outcome: compacted, then: full },
    { outcome: { _tag: "DeadlineHit" }, then: full }
  ] as ReadonlyArray<{ readonly outcome: Outcome; readonly then: Holds }>)(
    "begins anew after an attempt and goes on after anything else: $outcome._tag",
    ({ outcome, then }) => assert.deepStrictEqual(afterOutcome(full, 2, outcome), then)
  )

  it.each([
    { outcome: held("hint"), waitedFor: ["hint"] },
    { outcome: held("retryBudget"), waitedFor: ["retryBudget"] },
    { outcome: held("breaker"), waitedFor: [] },
    { outcome: held("breaker", 1), waitedFor: [] },
    { outcome: held("hint", 1), waitedFor: [] }
  ] as ReadonlyArray<{ readonly outcome: Outcome } & Pick<Holds, "waitedFor">>)(
    "keeps $waitedFor of $outcome.reason",
    ({ outcome, waitedFor }) =>
      assert.deepStrictEqual(afterOutcome({ ...noHolds, failedOn: 1 }, 0, outcome), {
        ...noHolds,
        failedOn: 1,
        waitedFor
      })
  )

  it("keeps the place it waits for until it goes elsewhere", () => {
    const waiting = withPlace(noHolds, { _tag: "Held", untilMillis: 2_000, reason: "pace", place: 9 })
    assert.strictEqual(waiting.place, 9)
    assert.strictEqual(withPlace(waiting, { _tag: "Held", untilMillis: 2_000, reason: "hint", place: null }).place, 9)
    assert.strictEqual(afterOutcome(waiting, 0, held("pace")).place, 9)
    assert.isNull(afterOutcome(waiting, 0, held("breaker", 1)).place)
  })

  it("needs no token for the first wait that the server named, and one for the next", () => {
    const hints = [{ _tag: "Delay", source: "retry-after", millis: 2_000 }] as const
    const first = afterOutcome(noHolds, 0, fault("rate_limited", { hints }))
    assert.deepStrictEqual([first.waitedFor, first.obeyed], [["retryBudget"], true])
    assert.deepStrictEqual(afterOutcome(first, 0, fault("rate_limited", { hints })).waitedFor, [])
    const bad = [{ _tag: "Invalid", source: "retry-after" }] as const
    assert.deepStrictEqual(afterOutcome(noHolds, 0, fault("rate_limited", { hints: bad })).waitedFor, [])
  })

  it("keeps every hold it has waited for since its last attempt", () => {
    const once = afterOutcome(noHolds, 0, held("hint"))
    assert.deepStrictEqual(afterOutcome(once, 0, held("retryBudget")).waitedFor, ["hint", "retryBudget"])
  })
})

describe("what a route hears of an outcome", () => {
  const ticket = 3
  const at = (wall: number) => ({ now, wall })
  const leave: Leave = { ticket, place: 8, since: 700, isPaced: false }
  const all = {
    ...RouteHealthConfig.defaults,
    counts: ["overload", "serverError", "silent", "cut", "connection"] as const
  }
  const refused = (hintMillis: number) => ({ hintMillis, place: 8, tookMillis: 300, isAgain: false })
  const accepted = { _tag: "Accepted", ticket } as const
  const released = { _tag: "Released", ticket } as const
  const failed = { _tag: "Failed", ticket, hintMillis: null } as const
  it.each([
    { outcome: completed, standard: accepted, wide: accepted },
    { outcome: { _tag: "Refused" }, standard: accepted, wide: accepted },
    { outcome: truncated, standard: accepted, wide: accepted },
    { outcome: tooLong, standard: accepted, wide: accepted },
    { outcome: { _tag: "DeadlineHit" }, standard: released, wide: released },
    { outcome: fault("overloaded"), standard: failed, wide: failed },
    { outcome: fault("server_error"), standard: released, wide: failed },
    { outcome: fault("timeout"), standard: released, wide: failed },
    { outcome: fault("interrupted"), standard: released, wide: failed },
    { outcome: fault("connection"), standard: released, wide: failed },
    { outcome: fault("empty_reply"), standard: accepted, wide: accepted },
    { outcome: fault("auth"), standard: accepted, wide: accepted },
    {
      outcome: fault("rate_limited", { hints: [{ _tag: "Delay", source: "retry-after", millis: 6_000 }] }),
      standard: { _tag: "RateLimited", ticket, hintMillis: 6_000, refusal: refused(6_000) },
      wide: { _tag: "RateLimited", ticket, hintMillis: 6_000, refusal: refused(6_000) }
    },
    {
      outcome: fault("rate_limited"),
      standard: { _tag: "RateLimited", ticket, hintMillis: null, refusal: null },
      wide: { _tag: "RateLimited", ticket, hintMillis: null, refusal: null }
    },
    { outcome: held("breaker"), standard: null, wide: null },
    { outcome: compacted, standard: null, wide: null },
    { outcome: { _tag: "BudgetRefused" }, standard: null, wide: null }
  ] as ReadonlyArray<{ readonly outcome: Outcome; readonly standard: unknown; readonly wide: unknown }>)(
    "$outcome._tag $outcome.kind",
    ({ outcome, standard, wide }) => {
      assert.deepStrictEqual(signalOf(RouteHealthConfig.defaults, two, outcome, leave, at(0), noHolds), standard)
      assert.deepStrictEqual(signalOf(all, two, outcome, leave, at(0), noHolds), wide)
    }
  )

  it("takes the first hint that can be read, against the wall clock", () => {
    const hints = [
      { _tag: "Invalid", source: "retry-after" },
      { _tag: "At", source: "reset", epochMillis: 9_001, serverEpochMillis: null },
      { _tag: "Delay", source: "body", millis: 1 }
    ] as const
    const signal = signalOf(RouteHealthConfig.defaults, two, fault("overloaded", { hints }), leave, at(4_000), noHolds)
    assert.deepStrictEqual(signal, { _tag: "Failed", ticket, hintMillis: 5_001 })
  })

  it.each([
    { millis: 5_000, obeyed: false, told: null },
    { millis: 5_001, obeyed: false, told: 5_001 },
    { millis: 1_000, obeyed: true, told: 1_000 }
  ])(
    "takes a hint of $millis ms as one for others when it is long or the second: $told",
    ({ millis, obeyed, told }) => {
      const limited = fault("rate_limited", { hints: [{ _tag: "Delay", source: "retry-after", millis }] })
      const signal = signalOf(RouteHealthConfig.defaults, two, limited, leave, at(0), { ...noHolds, obeyed })
      assert.deepInclude(signal, { hintMillis: told, refusal: { ...refused(millis), isAgain: obeyed } })
    }
  )
})
