import { assert, describe, it } from "@effect/vitest"
import { makeModelError } from "../../../src/domain/failure/ModelError.ts"
import { hostAndPort } from "../../../src/domain/provider/address.ts"
import { nothingSeen } from "../../../src/domain/recovery/Outcome.ts"
import { outcomeOfError } from "../../../src/domain/recovery/outcomeOf.ts"
import { transition } from "../../../src/domain/recovery/RecoveryMachine.ts"
import {
  presets,
  RecoveryPolicy,
  routeAt,
  type RecoveryPolicyInput
} from "../../../src/domain/recovery/RecoveryPolicy.ts"
import { initial } from "../../../src/domain/recovery/RecoveryState.ts"

const nowhere = "https://api.example.test:443"

const lost = (code: string | null, more: { readonly address?: string; readonly cause?: unknown } = {}) =>
  makeModelError({ kind: "connection", status: null, code, model: "a", ...more })

/** Requests that are sent while every one of them ends so; 9 = it goes on. */
const tries = (
  error: ReturnType<typeof lost>,
  input: Partial<RecoveryPolicyInput> = presets.broad
): readonly [number, string] => {
  const policy = new RecoveryPolicy({ ...input, routeHealth: null, routes: [{ model: "a" }, { model: "b" }] })
  const start = { now: 0, deadline: null, route: 0, callerCap: null, streaming: false, background: false }
  let state = initial(policy, start)
  for (let sent = 1; sent < 9; sent += 1) {
    const outcome = outcomeOfError(policy, error, { route: routeAt(policy, 0), promptTokens: 0 }, nothingSeen)
    const tick = { now: 0, wall: 0, backoffMillis: 1, spread: 0, progressMillis: 0 }
    const next = transition(policy, state, outcome, tick)
    if (next.action._tag === "Fail") return [sent, next.action.reason]
    if (next.action._tag === "Fallback") return [sent, "Fallback"]
    state = next.state
  }
  return [9, "Retry"]
}

describe("a connection that failed", () => {
  it.each(["ECONNRESET", "EPIPE", "UND_ERR_SOCKET", "ETIMEDOUT"])("with %s is tried on", (code) => {
    assert.deepStrictEqual(tries(lost(code, { address: nowhere })), [9, "Retry"])
  })

  it.each(["ENOTFOUND", "ECONNREFUSED", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH"])(
    "with %s ends after three tries when nothing has ever answered there",
    (code) => {
      assert.deepStrictEqual(tries(lost(code, { address: nowhere })), [3, "Passthrough"])
      assert.deepStrictEqual(tries(lost(code)), [9, "Retry"])
      assert.deepStrictEqual(tries(lost(code, { address: nowhere }), presets.unattended), [9, "Retry"])
    }
  )

  it("leads to the fallback first where the policy says so", () => {
    const input = { ...presets.broad, fallbackAfter: { connection: 3 } }
    assert.deepStrictEqual(tries(lost("ENOTFOUND", { address: nowhere }), input), [3, "Fallback"])
  })

  it.each(["CERT_HAS_EXPIRED", "SELF_SIGNED_CERT_IN_CHAIN", "ERR_TLS_CERT_ALTNAME_INVALID"])(
    "with %s is not tried again",
    (code) => {
      assert.deepStrictEqual(tries(lost(code)), [1, "Passthrough"])
      assert.include(lost(code).guidance, "certificate")
    }
  )

  it("is repeated twice when what was thrown names no network fault, and keeps it whole", () => {
    const bug = new TypeError("x is not a function")
    const error = lost(null, { cause: bug })
    assert.deepStrictEqual(tries(error), [3, "Passthrough"])
    assert.strictEqual(error.cause, bug)
    assert.deepStrictEqual(tries(error, presets.unattended), [3, "Passthrough"])
  })

  it("says which address never answered, without a key", () => {
    const error = lost("ENOTFOUND", {
      address: hostAndPort("https://user:secret@api.example.test/v1?key=secret") ?? ""
    })
    assert.strictEqual(error.address, nowhere)
    assert.include(error.message, nowhere)
    assert.include(error.guidance, "check the base URL")
    assert.notInclude(`${error.message} ${error.guidance}`, "secret")
    assert.strictEqual(hostAndPort("http://127.0.0.1:8080/v1"), "http://127.0.0.1:8080")
    assert.isNull(hostAndPort("nowhere"))
  })
})
