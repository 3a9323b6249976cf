import { assert, describe, it } from "@effect/vitest"
import { costsNothing, spentOf, spentUsd } from "../../../src/domain/budget/Spending.ts"
import * as Usage from "../../../src/domain/chat/Usage.ts"
import { makeModelError, type Failure } from "../../../src/domain/failure/ModelError.ts"

describe("a failed request", () => {
  const fail = (kind: Failure["kind"], status: number | null = null, code: string | null = null) =>
    costsNothing(makeModelError({ kind, status, code }))

  it.each<readonly [Failure["kind"], number | null, string | null]>([
    ["connection", null, "ECONNREFUSED"],
    ["connection", null, "ENOTFOUND"],
    ["connection", null, "EHOSTUNREACH"],
    ["connection", null, "UND_ERR_CONNECT_TIMEOUT"],
    ["connection", null, "CERT_HAS_EXPIRED"],
    ["connection", null, "DEPTH_ZERO_SELF_SIGNED_CERT"],
    ["connection", null, "ERR_TLS_CERT_ALTNAME_INVALID"],
    ["invalid_request", null, null],
    ["invalid_request", 400, null],
    ["rate_limited", 429, null],
    ["overloaded", 529, null],
    ["server_error", 500, null],
    ["timeout", 408, null],
    ["timeout", 522, null]
  ])("costs nothing when it never left or was refused: %s, %s, %s", (kind, status, code) =>
    assert.isTrue(fail(kind, status, code))
  )

  it.each<readonly [Failure["kind"], number | null, string | null]>([
    ["connection", null, "ECONNRESET"],
    ["connection", null, "EPIPE"],
    ["connection", null, "ETIMEDOUT"],
    ["connection", null, "UND_ERR_HEADERS_TIMEOUT"],
    ["connection", null, null],
    ["timeout", null, null],
    ["timeout", 504, null],
    ["timeout", 524, null],
    ["interrupted", null, null],
    ["overloaded", 200, null],
    ["malformed_response", 200, null]
  ])("may have cost all it could when it was sent: %s, %s, %s", (kind, status, code) =>
    assert.isFalse(fail(kind, status, code))
  )
})

describe("what was spent", () => {
  const prices = { inputPerM: 1_000_000, outputPerM: 2_000_000 }
  const usage = { ...Usage.unknown, promptTokens: 3, completionTokens: 4 }
  const worst = { tokens: 50, costUsd: 99 }

  it("is unknown without a usage or a price, and nothing only when nothing was sent", () => {
    assert.deepStrictEqual(
      [
        spentUsd("final", prices, usage),
        spentUsd("final", null, usage),
        spentUsd("unknown", prices, usage),
        spentUsd("nothing", prices, Usage.unknown),
        spentUsd("nothing", null, Usage.unknown)
      ],
      [11, null, null, 0, 0]
    )
  })

  it("is booked as the worst when it is unknown", () => {
    assert.deepStrictEqual(
      [
        spentOf("final", prices, usage, worst),
        spentOf("final", null, usage, worst),
        spentOf("unknown", prices, usage, worst),
        spentOf("nothing", prices, usage, worst)
      ],
      [{ tokens: 7, costUsd: 11 }, { tokens: 7, costUsd: null }, worst, { tokens: 0, costUsd: 0 }]
    )
  })
})
