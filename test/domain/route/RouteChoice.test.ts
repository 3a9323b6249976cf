import { assert, describe, it } from "@effect/vitest"
import type { FaultKind } from "../../../src/domain/failure/FaultKind.ts"
import { nothingSeen, type Faulted, type Outcome } from "../../../src/domain/recovery/Outcome.ts"
import { presets, RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as RecoveryState from "../../../src/domain/recovery/RecoveryState.ts"
import {
  afterOutcome,
  askDoors,
  askToLeave,
  firstVisit,
  signalOf,
  type Knock,
  type Visit
} from "../../../src/domain/route/RouteChoice.ts"
import { RouteHealthConfig } from "../../../src/domain/recovery/RouteHealthConfig.ts"
import { newcomer, type Admission, type Asker, type HoldReason } from "../../../src/domain/route/RouteHealth.ts"

const now = 1_000
const models = (count: number) => Array.from({ length: count }, (_, i) => ({ model: `m${i}` }))
const policyOf = (count: number, preset: keyof typeof presets = "broad") =>
  new RecoveryPolicy({ ...presets[preset], routes: models(count) })
const two = policyOf(2)
const three = policyOf(3)

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

const go: Admission = { _tag: "Go" }
const shed: Admission = { _tag: "Shed" }
const probe: Admission = { _tag: "Probe", ticket: 7 }
const hold = (reason: HoldReason, untilMillis = 9_000): Admission => ({ _tag: "Held", untilMillis, reason })

/** Answers the questions in order, and tells which routes were asked how. */
const drive = <A>(questions: Generator<Knock, A, Admission>, answers: ReadonlyArray<Admission>) => {
  const asked: Array<Knock> = []
  const left = [...answers]
  let step = questions.next()
  while (step.done !== true) {
    asked.push(step.value)
    const answer = left.shift()
    assert(answer !== undefined, `no answer for route ${step.value.route}`)
    step = questions.next(answer)
  }
  assert.isEmpty(left)
  return { answer: step.value, asked, routes: asked.map((knock) => knock.route) }
}

const through = (ticket: number | null) => ({ _tag: "Through", ticket }) as const
const kept = (untilMillis: number, reason: string, other: number | null) =>
  ({ _tag: "Kept", outcome: { _tag: "Held", untilMillis, reason, other } }) as const

describe("at the doors a request", () => {
  it.each([
    { given: "an open door", answers: [go], routes: [0], then: through(null) },
    { given: "a probe's place", answers: [probe], routes: [0], then: through(7) },
    { given: "a route shut for its kind", answers: [shed], routes: [0], then: kept(now, "shed", null) },
    { given: "a hint", answers: [hold("hint")], routes: [0], then: kept(9_000, "hint", null) },
    { given: "no retry token", answers: [hold("retryBudget")], routes: [0], then: kept(9_000, "retryBudget", null) },
    {
      given: "a breaker, and the next route open",
      answers: [hold("breaker"), go, hold("hint")],
      routes: [0, 1, 2],
      then: kept(now, "breaker", 1)
    },
    {
      given: "a breaker, and the last route open for a probe",
      answers: [hold("breaker"), shed, probe],
      routes: [0, 1, 2],
      then: kept(now, "breaker", 2)
    },
    {
      given: "every breaker open",
      answers: [hold("breaker", 9_000), hold("breaker", 8_000), hold("breaker", 8_500)],
      routes: [0, 1, 2],
      then: kept(8_000, "breaker", null)
    },
    {
      given: "its own breaker as the first to open",
      answers: [hold("breaker", 7_000), hold("breaker", 8_000), hold("breaker", 8_500)],
      routes: [0, 1, 2],
      then: kept(7_000, "breaker", null)
    },
    {
      given: "other routes shut for other reasons",
      answers: [hold("breaker", 9_000), hold("hint", 2_000), shed],
      routes: [0, 1, 2],
      then: kept(9_000, "breaker", null)
    },
    {
      given: "a ramp, and another route open",
      answers: [hold("ramp", now), hold("breaker"), go],
      routes: [0, 1, 2],
      then: kept(now, "ramp", 2)
    },
    {
      given: "a ramp, and no other route",
      answers: [hold("ramp", now), hold("breaker"), shed, go],
      routes: [0, 1, 2, 0],
      then: through(null)
    },
    {
      given: "a ramp, no other route and no token",
      answers: [hold("ramp", now), hold("breaker"), shed, hold("retryBudget", 4_000)],
      routes: [0, 1, 2, 0],
      then: kept(4_000, "retryBudget", null)
    },
    {
      given: "a ramp, no other route, and its own shut in between",
      answers: [hold("ramp", now), hold("breaker"), shed, shed],
      routes: [0, 1, 2, 0],
      then: kept(now, "shed", null)
    }
  ])("with $given", ({ answers, routes, then }) => {
    const found = drive(askDoors(three, stateOf(three), firstVisit, 300_000, now), answers)
    assert.deepStrictEqual(found.answer, then)
    assert.deepStrictEqual(found.routes, routes)
  })

  it("introduces itself by its last visit", () => {
    const introduced = (visit: Partial<Visit>, background = false): Asker | undefined =>
      drive(askDoors(two, stateOf(two, { background }), { ...firstVisit, ...visit }, 5_000, now), [go]).asked[0]?.asker
    const plain: Asker = { ...newcomer, deadline: 5_000 }
    assert.deepStrictEqual(introduced({}), plain)
    assert.deepStrictEqual(introduced({ failedOn: 0 }), { ...plain, retry: true })
    assert.deepStrictEqual(introduced({ failedOn: 1 }), plain)
    assert.deepStrictEqual(introduced({ gated: true }), { ...plain, gated: true })
    assert.deepStrictEqual(introduced({ deferred: true }), { ...plain, deferred: true })
    assert.deepStrictEqual(introduced({}, true), { ...plain, background: true })
  })

  it("only looks at other routes, as a newcomer there, and insists at its own when no other takes it", () => {
    const visit = { ...firstVisit, failedOn: 0, gated: true, deferred: true }
    const { asked } = drive(askDoors(two, stateOf(two), visit, 5_000, now), [hold("ramp", now), hold("breaker"), go])
    const own: Asker = { ...newcomer, retry: true, gated: true, deferred: true, deadline: 5_000 }
    assert.deepStrictEqual(asked, [
      { route: 0, asker: own },
      { route: 1, asker: { ...newcomer, looks: true, deadline: 5_000 } },
      { route: 0, asker: { ...own, insists: true } }
    ])
  })

  it.each([
    { given: "on a fallback", state: { route: 1 }, answers: [go], then: kept(now, "return", 0) },
    {
      given: "on a fallback, the primary shut",
      state: { route: 1 },
      answers: [hold("breaker"), go],
      then: through(null)
    },
    { given: "on the primary", state: {}, answers: [go], then: through(null) },
    { given: "on a fallback after an attempt", state: { route: 1, attempts: 1 }, answers: [go], then: through(null) },
    {
      given: "on a fallback it was sent to",
      state: { route: 1 },
      visit: { moved: true },
      answers: [go],
      then: through(null)
    },
    {
      given: "on a fallback, the way back closed",
      scope: "turn",
      state: { route: 1 },
      answers: [go],
      then: through(null)
    }
  ] as ReadonlyArray<{
    readonly given: string
    readonly state: Partial<RecoveryState.RecoveryState>
    readonly visit?: Partial<Visit>
    readonly scope?: "turn"
    readonly answers: ReadonlyArray<Admission>
    readonly then: unknown
  }>)("that begins $given", ({ state, visit, scope, answers, then }) => {
    const policy =
      scope === undefined ? two : new RecoveryPolicy({ ...presets.broad, fallbackScope: "turn", routes: models(2) })
    const found = drive(askDoors(policy, stateOf(policy, state), { ...firstVisit, ...visit }, null, now), answers)
    assert.deepStrictEqual(found.answer, then)
  })

  it.each([
    { run: { class: "overload", count: 3 }, leaves: true },
    { run: { class: "overload", count: 4 }, leaves: true },
    { run: { class: "overload", count: 2 }, leaves: false },
    { run: { class: "serverError", count: 3 }, leaves: true },
    { run: { class: "silent", count: 9 }, leaves: false },
    { run: { class: "empty", count: 9 }, leaves: false },
    { run: null, leaves: false }
  ] as const)("at the last route after the run $run leaves for an open one: $leaves", ({ run, leaves }) => {
    const state = stateOf(two, { route: 1, attempts: 5, run })
    const found = drive(askDoors(two, state, { ...firstVisit, failedOn: 1 }, null, now), [go])
    assert.deepStrictEqual(found.routes, [leaves ? 0 : 1])
    assert.deepStrictEqual(found.answer, leaves ? kept(now, "return", 0) : through(null))
  })
})

describe("before the wait for a retry a request", () => {
  const held = (other: number) => ({ _tag: "Held", untilMillis: now, reason: "shut", other }) as const
  it.each([
    { given: "an open door of its own", answers: [go], then: null },
    { given: "a hint of its own", answers: [hold("hint")], then: null },
    { given: "no token", answers: [hold("retryBudget")], then: null },
    { given: "its breaker open and another route", answers: [hold("breaker"), go], then: held(1) },
    { given: "its breaker open and another route's probe", answers: [hold("breaker"), probe], then: held(1) },
    { given: "every breaker open", answers: [hold("breaker"), hold("breaker")], then: null }
  ])("stays or leaves with $given", ({ answers, then }) => {
    assert.deepStrictEqual(drive(askToLeave(two, stateOf(two), firstVisit, now), answers).answer, then)
  })

  it("asks nothing when it has left before, has no other route, or may not come back", () => {
    const one = policyOf(1)
    const turn = new RecoveryPolicy({ ...presets.broad, fallbackScope: "turn", routes: models(2) })
    assert.isNull(drive(askToLeave(two, stateOf(two), { ...firstVisit, left: true }, now), []).answer)
    assert.isNull(drive(askToLeave(one, stateOf(one), firstVisit, now), []).answer)
    assert.isNull(drive(askToLeave(turn, stateOf(turn), firstVisit, now), []).answer)
  })

  it("only looks, and is no newcomer to a ramp", () => {
    const { asked } = drive(askToLeave(two, stateOf(two, { background: true }), firstVisit, now), [hold("breaker"), go])
    const asker: Asker = { ...newcomer, background: true, looks: true }
    assert.deepStrictEqual(asked, [
      { route: 0, asker: { ...asker, insists: true } },
      { route: 1, asker }
    ])
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

describe("a visit", () => {
  const full: Visit = { failedOn: 0, gated: true, deferred: true, moved: true, left: true }
  it.each([
    { outcome: fault("overloaded"), then: { ...firstVisit, failedOn: 2, left: true } },
    { outcome: completed, then: { ...firstVisit, left: true } },
    { outcome: { _tag: "Refused" }, then: { ...firstVisit, left: true } },
    { outcome: truncated, then: { ...firstVisit, left: true } },
    { outcome: tooLong, then: { ...firstVisit, left: true } },
    { outcome: compacted, then: full },
    { outcome: { _tag: "DeadlineHit" }, then: full }
  ] as ReadonlyArray<{ readonly outcome: Outcome; readonly then: Visit }>)(
    "begins anew after an attempt and goes on after anything else: $outcome._tag",
    ({ outcome, then }) => assert.deepStrictEqual(afterOutcome(full, 2, outcome), then)
  )

  it.each([
    { outcome: held("hint"), then: { gated: true } },
    { outcome: held("retryBudget"), then: { deferred: true } },
    { outcome: held("breaker"), then: {} },
    { outcome: held("breaker", 1), then: { moved: true } },
    { outcome: held("hint", 1), then: { moved: true } },
    { outcome: held("shut", 1), then: { moved: true, left: true } }
  ])("remembers $then of $outcome.reason", ({ outcome, then }) =>
    assert.deepStrictEqual(afterOutcome(firstVisit, 0, outcome), { ...firstVisit, ...then })
  )

  it("never forgets that it has left once", () =>
    assert.isTrue(afterOutcome({ ...firstVisit, left: true }, 0, held("breaker", 1)).left))
})

describe("what a route hears of an outcome", () => {
  const ticket = 3
  const all = {
    ...RouteHealthConfig.defaults,
    counts: ["overload", "serverError", "silent", "cut", "connection"] as const
  }
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
      outcome: fault("rate_limited", { hints: [{ _tag: "Delay", source: "retry-after", millis: 5_000 }] }),
      standard: { _tag: "RateLimited", ticket, hintMillis: 5_000 },
      wide: { _tag: "RateLimited", ticket, hintMillis: 5_000 }
    },
    { outcome: held("breaker"), standard: null, wide: null },
    { outcome: compacted, standard: null, wide: null },
    { outcome: { _tag: "BudgetRefused" }, standard: null, wide: null }
  ] as ReadonlyArray<{ readonly outcome: Outcome; readonly standard: unknown; readonly wide: unknown }>)(
    "$outcome._tag $outcome.kind",
    ({ outcome, standard, wide }) => {
      assert.deepStrictEqual(signalOf(RouteHealthConfig.defaults, two, outcome, ticket, 0), standard)
      assert.deepStrictEqual(signalOf(all, two, outcome, ticket, 0), wide)
    }
  )

  it("takes the first hint that can be read, against the wall clock", () => {
    const hints = [
      { _tag: "Invalid", source: "retry-after" },
      { _tag: "At", source: "reset", epochMillis: 9_000, serverEpochMillis: null },
      { _tag: "Delay", source: "body", millis: 1 }
    ] as const
    const signal = signalOf(RouteHealthConfig.defaults, two, fault("overloaded", { hints }), null, 4_000)
    assert.deepStrictEqual(signal, { _tag: "Failed", ticket: null, hintMillis: 5_000 })
  })
})
