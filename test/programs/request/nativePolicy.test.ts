import { assert, describe, it } from "@effect/vitest"
import { RecoveryPolicy, type RecoveryPolicyInput, type Route } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import type { RequestView } from "../../../src/domain/wires/native/NativeWire.ts"
import { nativePolicy, type TruncationMode } from "../../../src/programs/request/nativePolicy.ts"

const base = (fields: Partial<RecoveryPolicyInput> = {}) =>
  new RecoveryPolicy({
    ...RecoveryPolicy.broad,
    routes: [
      { model: "a", outputLimit: 80_000 },
      { model: "b", outputLimit: 70_000 }
    ],
    ...fields
  })

const plain: RequestView = {
  model: "a",
  streams: true,
  cap: null,
  capField: "max_tokens",
  items: [],
  leading: 0,
  hasTools: false,
  tools: [],
  pins: [],
  only: null,
  isStructured: false,
  isBackground: false,
  isStored: false
}

const policyFor = (
  view: Partial<RequestView> = {},
  truncation: TruncationMode = "uncapped",
  fields: Partial<RecoveryPolicyInput> = {}
) => {
  const policy = base(fields)
  return nativePolicy(policy, policy.routes as readonly [Route, ...Array<Route>], { ...plain, ...view }, truncation)
}

const models = ({ routes }: RecoveryPolicy) => routes.map(({ model }) => model)

describe("the policy of a native request", () => {
  it("leaves the limit of the primary to its provider, and keeps those of the others", () => {
    const { policy, off } = policyFor()
    assert.deepStrictEqual(
      policy.routes.map(({ outputLimit }) => outputLimit),
      [null, 70_000]
    )
    assert.deepStrictEqual([policy.initialMaxTokens, policy.raise, off], [null, "never", null])
    assert.strictEqual(policy.compaction.mode, "once")
  })

  it("sends the caller's cap as it is, and passes on what it cuts", () => {
    const { policy, passTruncated } = policyFor({ cap: 77 })
    assert.deepStrictEqual([policy.initialMaxTokens, passTruncated], [77, true])
    assert.isFalse(policyFor().passTruncated)
    assert.isTrue(policyFor({}, "never").passTruncated)
  })

  it("raises a cap that is a habit of the client, as far as the route goes, and never below it", () => {
    const raised = (cap: number, fields: Partial<RecoveryPolicyInput> = {}) => {
      const { policy, passTruncated } = policyFor({ cap }, "always", fields)
      assert.isFalse(passTruncated)
      assert.strictEqual(policy.raise, RecoveryPolicy.broad.raise ?? "ifTimeAllows")
      return policy.escalatedMaxTokens
    }
    assert.strictEqual(raised(77), 64_000)
    assert.strictEqual(raised(77, { escalatedMaxTokens: 9_000 }), 9_000)
    assert.strictEqual(raised(77, { routes: [{ model: "a" }], escalatedMaxTokens: 9_000 }), 9_000)
    assert.strictEqual(raised(65_000), 65_000)
    const [first] = base().routes
    const small = nativePolicy(base(), [{ ...first, outputLimit: 5_000 }], { ...plain, cap: 77 }, "always")
    assert.strictEqual(small.policy.escalatedMaxTokens, 5_000)
  })

  it("continues no JSON text, but may raise its cap", () => {
    assert.isTrue(policyFor({ isStructured: true }).passTruncated)
    assert.isTrue(policyFor({ isStructured: true }, "always").passTruncated)
    assert.isFalse(policyFor({ isStructured: true, cap: 77 }, "always").passTruncated)
  })

  it("only repeats what is tied to one server: no other route, no change of its content, nothing continued", () => {
    const only = policyFor({ only: "n = 2" })
    const pinned = policyFor({ pins: ["previous_response_id", "file_id"] })
    for (const { policy, passTruncated } of [only, pinned]) {
      assert.deepStrictEqual(models(policy), ["a"])
      assert.deepStrictEqual([policy.compaction.mode, passTruncated], ["off", true])
    }
    assert.strictEqual(only.off, "n = 2: the request is only repeated")
    assert.include(pinned.off ?? "", "previous_response_id, file_id: the request stays with its server")
    assert.deepStrictEqual(models(policyFor().policy), ["a", "b"])
  })

  it("goes on behind a cut without a Reset, which no API has; where only repeating is right, a cut stream fails", () => {
    assert.strictEqual(policyFor({}, "uncapped", { onCut: "restart" }).policy.onCut, "splice")
    assert.strictEqual(policyFor({}, "uncapped", { onCut: "resume" }).policy.onCut, "resume")
    assert.strictEqual(policyFor({ only: "n = 2" }, "uncapped", { onCut: "resume" }).policy.onCut, "fail")
    assert.strictEqual(policyFor({ streams: false }, "uncapped", { onCut: "restart" }).policy.onCut, "restart")
  })

  it("leaves a request that makes its server work on without us with that server", () => {
    const { policy } = policyFor({ isBackground: true })
    assert.deepStrictEqual(policy.fallbackAfter, {})
    assert.isAbove(Object.keys(policyFor().policy.fallbackAfter).length, 0)
  })

  it("asks no route that takes no tools for a request that has some", () => {
    const routes = [{ model: "a" }, { model: "b", tools: false }] as const
    assert.deepStrictEqual(models(policyFor({ hasTools: true }, "uncapped", { routes }).policy), ["a"])
    assert.deepStrictEqual(models(policyFor({}, "uncapped", { routes }).policy), ["a", "b"])
  })
})
