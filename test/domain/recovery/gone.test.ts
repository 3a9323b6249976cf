import { assert, describe, it } from "@effect/vitest"
import type { FaultKind } from "../../../src/domain/failure/FaultKind.ts"
import { nothingSeen, type Outcome } from "../../../src/domain/recovery/Outcome.ts"
import { transition } from "../../../src/domain/recovery/RecoveryMachine.ts"
import { RecoveryPolicy, routeAt, type RecoveryPolicyInput } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import { initial, type RecoveryState } from "../../../src/domain/recovery/RecoveryState.ts"

const routes = [{ model: "a" }, { model: "b" }, { model: "c", client: "other" }]
const policyOf = (input: Partial<RecoveryPolicyInput> = {}) =>
  new RecoveryPolicy({ ...RecoveryPolicy.broad, routes, routeHealth: null, ...input })

const fault = (kind: FaultKind, status: number | null, shouldRetry: boolean | null = null): Outcome => ({
  _tag: "Faulted",
  kind,
  status,
  code: null,
  hints: [],
  shouldRetry,
  ...nothingSeen,
  other: null
})
const busy = fault("overloaded", 529)
const noModel = fault("not_found", 404)
const noCredit = fault("quota_exhausted", 402)
const noKey = fault("auth", 401)
const bad = fault("invalid_request", 400)

/** Models asked, and what ended it; waits in milliseconds between. */
const walk = (policy: RecoveryPolicy, outcomes: ReadonlyArray<Outcome>): ReadonlyArray<string | number> => {
  const start = { now: 0, deadline: policy.deadline, route: 0, callerCap: null, streaming: false, background: false }
  let state: RecoveryState = initial(policy, start)
  const seen: Array<string | number> = [routeAt(policy, state.route).model]
  for (const outcome of outcomes) {
    const next = transition(policy, state, outcome, {
      now: 0,
      wall: 0,
      backoffMillis: 700,
      spread: 0,
      progressMillis: 0
    })
    state = next.state
    if (next.action._tag === "Fail") return [...seen, next.action.reason]
    if ("delayMillis" in next.action) seen.push(next.action.delayMillis)
    seen.push(routeAt(policy, state.route).model)
  }
  return seen
}

const afterOne = { fallbackAfter: { overload: 1, gone: 1 } }
const two = { routes: [{ model: "a" }, { model: "b" }] }

describe("a fallback that is gone", () => {
  it.each([
    ["404", noModel],
    ["401", noKey],
    ["402", noCredit],
    ["403", fault("permission", 403)],
    ["400", bad],
    ["a used-up quota under 429", fault("quota_exhausted", 429)]
  ] as const)("with %s is left out, and the busy primary is asked again after the backoff", (_, gone) => {
    assert.deepStrictEqual(walk(policyOf({ ...two, fallbackAfter: { overload: 1 } }), [busy, gone, busy, busy]), [
      "a",
      700,
      "b",
      700,
      "a",
      700,
      "a",
      700,
      "a"
    ])
  })

  it("gives way to the next fallback at once", () => {
    assert.deepStrictEqual(walk(policyOf(afterOne), [busy, noModel, busy, noModel]), [
      "a",
      700,
      "b",
      0,
      "c",
      700,
      "c",
      700,
      "a"
    ])
  })

  it("ends the request when its bad request is the primary's, too", () => {
    assert.deepStrictEqual(walk(policyOf({ ...two, ...afterOne }), [busy, bad, bad]), [
      "a",
      700,
      "b",
      700,
      "a",
      "Passthrough"
    ])
  })

  it("uses a retry like any other switch", () => {
    assert.deepStrictEqual(walk(policyOf({ ...two, ...afterOne, maxAttempts: 2 }), [busy, noModel]), [
      "a",
      700,
      "b",
      "Passthrough"
    ])
  })

  it("is handed on when nothing else is left", () => {
    const none = policyOf({ ...two, ...afterOne })
    assert.deepStrictEqual(walk(none, [noModel, noModel]), ["a", 0, "b", "Passthrough"])
  })
})

describe("a primary that is gone", () => {
  it("uses its fallback at once where the policy says so", () => {
    assert.deepStrictEqual(walk(policyOf(), [noModel]), ["a", 0, "b"])
    assert.deepStrictEqual(walk(policyOf({ fallbackAfter: { overload: 3 } }), [noModel]), ["a", "Passthrough"])
    assert.deepStrictEqual(walk(policyOf({ ...RecoveryPolicy.strict }), [noModel]), ["a", "Passthrough"])
  })

  it("uses a fallback with another client when its key or credit is what is missing", () => {
    for (const gone of [noKey, noCredit]) {
      assert.deepStrictEqual(walk(policyOf(), [gone]), ["a", 0, "c"])
      assert.deepStrictEqual(walk(policyOf(two), [gone]), ["a", "Passthrough"])
    }
  })

  it("is not asked again", () => {
    assert.deepStrictEqual(walk(policyOf({ ...two, ...afterOne }), [noModel, busy, busy, busy]), [
      "a",
      0,
      "b",
      700,
      "b",
      700,
      "b",
      700,
      "b"
    ])
  })

  it("ends the request when the request is what is wrong", () => {
    for (const wrong of [bad, fault("permission", 403), fault("content_filtered", 400)])
      assert.deepStrictEqual(walk(policyOf(), [wrong]), ["a", "Passthrough"])
    assert.deepStrictEqual(walk(policyOf(), [fault("not_found", 404, false)]), ["a", "Passthrough"])
  })
})
