import { assert, describe, it } from "@effect/vitest"
import { BudgetExceeded } from "../../../src/domain/failure/AgentError.ts"
import { makeModelError, type ModelError } from "../../../src/domain/failure/ModelError.ts"
import { notBegun } from "../../../src/domain/failure/RecoveryError.ts"
import { nothingSeen, type Outcome } from "../../../src/domain/recovery/Outcome.ts"
import type { RecoveryAction } from "../../../src/domain/recovery/RecoveryAction.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import { initial } from "../../../src/domain/recovery/RecoveryState.ts"
import { makeReply } from "../../../src/layers/ScriptedModel.ts"
import { meet, noteOf, providerIdOf } from "../../../src/programs/request/meet.ts"
import { seenOnly, type Met, type Run, type Silence } from "../../../src/programs/request/Run.ts"

const nothing: Met = { first: null, last: null, refused: null, lastOutcome: "none", silence: null, warnings: [] }

const policy = new RecoveryPolicy({ ...RecoveryPolicy.broad, routes: [{ model: "a" }, { model: "b" }, { model: "c" }] })
const state = initial(policy, { now: 0, deadline: 0, route: 0, callerCap: null, streaming: false, background: false })

const failure = (code: string, providerRequestId: string | null = null): ModelError =>
  makeModelError({ kind: "overloaded", status: 529, code, providerRequestId })

const refused = new BudgetExceeded({
  ...notBegun,
  guidance: "",
  limit: "tokens",
  allowed: 1,
  spent: 1,
  reserved: 0
})

const faulted = (hints: Extract<Outcome, { _tag: "Faulted" }>["hints"] = []): Outcome => ({
  _tag: "Faulted",
  kind: "overloaded",
  status: 529,
  code: null,
  hints,
  shouldRetry: null,
  ...nothingSeen,
  other: null
})

describe("what a request has met", () => {
  it("keeps the first failure and the last one, and names the last outcome by its kind", () => {
    const [first, last] = [failure("a"), failure("b")]
    const met = [first, last].reduce((before, error) => meet(before, state, seenOnly(faulted(), error), null), nothing)
    assert.deepStrictEqual([met.first, met.last, met.lastOutcome, met.refused], [first, last, "overloaded", null])
  })

  it("forgets no failure when a reply comes, and names the outcome that is no fault by its tag", () => {
    const error = failure("a")
    const met = meet(
      meet(nothing, state, seenOnly(faulted(), error), null),
      state,
      seenOnly({ _tag: "NothingToCompact" }),
      null
    )
    assert.deepStrictEqual([met.first, met.last, met.lastOutcome], [error, error, "NothingToCompact"])
    const summary: Outcome = {
      _tag: "SummaryFaulted",
      kind: "timeout",
      status: null,
      code: null,
      hints: [],
      shouldRetry: null
    }
    assert.strictEqual(meet(nothing, state, seenOnly(summary), null).lastOutcome, "timeout")
  })

  it("is told by the busy route, not by the refusal of a fallback that cannot serve", () => {
    const busy = failure("busy")
    const met = meet(nothing, state, seenOnly(faulted(), busy), null)
    for (const [kind, status] of [
      ["invalid_request", 400],
      ["auth", 401],
      ["quota_exhausted", 402],
      ["permission", 403],
      ["not_found", 404]
    ] as const) {
      const refusal = makeModelError({ kind, status })
      const seen = seenOnly({ ...faulted(), kind, status } as Outcome, refusal)
      for (const [route, gone, aside] of [
        [1, [], true],
        [2, [1], true],
        [2, [0], true],
        [0, [], false],
        [1, [0], false],
        [2, [0, 1], false]
      ] as const) {
        const after = meet(met, { ...state, route, gone }, seen, null)
        assert.deepStrictEqual(
          [after.last, after.lastOutcome],
          aside ? [busy, "overloaded"] : [refusal, kind],
          `${kind} of route ${route} without ${gone.join()}`
        )
      }
      // Nothing was met before: the refusal is all there is to tell.
      assert.strictEqual(meet(nothing, { ...state, route: 1 }, seen, null).last, refusal)
    }
  })

  it("adds up the silence of attempts that were ended for it, and names the last timer", () => {
    const quiet = (millis: number, field: Silence["field"]) => ({
      ...seenOnly({ _tag: "DeadlineHit" }),
      silence: { millis, field }
    })
    const once = meet(nothing, state, quiet(30, "firstTokenTimeout"), null)
    const twice = meet(
      meet(once, state, seenOnly(faulted(), failure("a")), null),
      state,
      quiet(12, "idleTimeout"),
      null
    )
    assert.deepStrictEqual(
      [nothing.silence, once.silence, twice.silence],
      [null, { millis: 30, field: "firstTokenTimeout" }, { millis: 42, field: "idleTimeout" }]
    )
  })

  it("takes a refusal of the budget for no failure of the model", () => {
    const met = meet(nothing, state, seenOnly({ _tag: "BudgetRefused" }, refused), null)
    assert.deepStrictEqual([met.first, met.last, met.refused], [null, null, refused])
  })

  it("warns once of the same thing", () => {
    const twice = ["x", "x", "y", null].reduce(
      (before: Met, note) => meet(before, state, seenOnly({ _tag: "Completed" }), note),
      nothing
    )
    assert.deepStrictEqual(twice.warnings, ["x", "y"])
  })

  it("knows the provider's id from the reply, or from the failure", () => {
    const reply = { ...makeReply({ text: "x" }), providerRequestId: "of the reply" }
    assert.strictEqual(providerIdOf({ ...seenOnly({ _tag: "Completed" }), reply }), "of the reply")
    assert.strictEqual(providerIdOf(seenOnly(faulted(), failure("a", "of the failure"))), "of the failure")
    assert.isNull(providerIdOf(seenOnly({ _tag: "BudgetRefused" }, refused)))
    assert.isNull(providerIdOf(seenOnly({ _tag: "DeadlineHit" })))
  })
})

describe("a hint that cannot be read", () => {
  const run = { options: { policy: new RecoveryPolicy({ ...RecoveryPolicy.broad, routes: [{ model: "m" }] }) } } as Run
  const tick = { now: 0, wall: 0, backoffMillis: 1, spread: 0, progressMillis: 0 }
  const unreadable = faulted([{ _tag: "Invalid", source: "retry-after" }])
  const wait = { delayMillis: 1, origin: "backoff" } as const
  const retry: RecoveryAction = { _tag: "Retry", ...wait, shown: "none", why: "" }

  it("is told of where the request waits, and nowhere else", () => {
    assert.include(noteOf(run, unreadable, retry, tick) ?? "", "(retry-after)")
    assert.include(noteOf(run, unreadable, { _tag: "Compact", ...wait, shown: "none" }, tick) ?? "", "(retry-after)")
    assert.isNull(noteOf(run, unreadable, { _tag: "Fail", reason: "Attempts", waitMillis: null }, tick))
    assert.isNull(noteOf(run, faulted(), retry, tick))
    assert.isNull(noteOf(run, { _tag: "Completed" }, retry, tick))
  })
})
