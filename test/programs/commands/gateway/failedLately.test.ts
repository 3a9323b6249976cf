import { assert, describe, it } from "@effect/vitest"
import { makeFailedLately } from "../../../../src/programs/commands/gateway/failedLately.ts"

const told = { status: 503, lines: [["x-should-retry", "false"]] as const, body: "{}" }

describe("a failure that was just told", () => {
  it("is told again to the same request, and to no other", () => {
    const lately = makeFailedLately(() => 0)
    assert.isNull(lately.again(() => assert.fail("nothing is kept: nothing has to be digested")))
    lately.keep("one", told)
    assert.deepStrictEqual(
      lately.again(() => "one"),
      told
    )
    assert.isNull(lately.again(() => "other"))
  })

  it("is forgotten when nobody repeated it for ten seconds", () => {
    let now = 0
    const lately = makeFailedLately(() => now)
    lately.keep("one", told)
    now = 9_000
    assert.isNotNull(lately.again(() => "one"))
    now = 18_000
    assert.isNotNull(lately.again(() => "one"))
    now = 28_001
    assert.isNull(lately.again(() => "one"))
  })

  it("is forgotten after a minute, however often it was repeated", () => {
    let now = 0
    const lately = makeFailedLately(() => now)
    lately.keep("one", told)
    for (; now <= 60_000; now += 5_000) assert.isNotNull(lately.again(() => "one"))
    assert.isNull(lately.again(() => "one"))
  })

  it("is kept for a bounded number of requests, and only when it is short", () => {
    const lately = makeFailedLately(() => 0)
    lately.keep("long", { ...told, body: "x".repeat(20_000) })
    for (let index = 0; index < 3_000; index += 1) lately.keep(String(index), told)
    assert.isNull(lately.again(() => "long"))
    assert.isNull(lately.again(() => "0"))
    assert.isNotNull(lately.again(() => "2999"))
  })
})
