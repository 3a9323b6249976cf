import { assert, it } from "@effect/vitest"
import { FaultKind } from "../../../src/domain/failure/FaultKind.ts"
import { guidanceFor, type Situation } from "../../../src/domain/failure/Guidance.ts"

const situation = (more: Partial<Situation>): Situation => ({
  kind: "quota_exhausted",
  code: null,
  status: 429,
  resetAtEpochMillis: null,
  inBand: false,
  ...more
})

it.each(FaultKind.literals)("says of %s what happened and what to do", (kind) => {
  const plain = guidanceFor(situation({ kind }))
  assert.match(plain, /^[A-Z].*\. [A-Z].*\.$/s)
  assert.strictEqual(guidanceFor(situation({ kind, code: "nobody_knows_this" })), plain)
})

it.each([
  ["quota_exhausted", "Arrearage", /balance/],
  ["quota_exhausted", "project_spend_limit_exceeded", /spending limit/],
  ["auth", "expired_key", /revoked/],
  ["permission", "CONSUMER_SUSPENDED", /suspended/],
  ["invalid_request", "image_too_large", /image/],
  ["invalid_request", "invalid_pdf", /document/],
  ["not_found", "DeploymentNotFound", /deployment/]
] as const)("says more of %s with the code %s", (kind, code, words) =>
  assert.match(guidanceFor(situation({ kind, code })), words)
)

it("names the instant at which a quota is full again", () => {
  assert.include(guidanceFor(situation({ resetAtEpochMillis: 1_741_305_600_000 })), "2025-03-07T00:00:00.000Z")
  assert.notInclude(guidanceFor(situation({ resetAtEpochMillis: 1e300 })), "full again")
})
