import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { classifyAnswer } from "../../../src/domain/provider/classify.ts"
import { profileNamed, profiles } from "../../../src/domain/provider/Profiles.ts"
import { waitOf } from "../../../src/domain/failure/Hint.ts"

/** Hints whose value is no single text: not there, there twice, several headers at once, or another type in a body. */

interface Row {
  readonly id: string
  readonly header: string
  readonly value: unknown
  readonly nowIso: string
  readonly expectedSeconds: number | "invalid" | "absent"
}

const rows = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../fixtures/corpus/retry-after-dev.json"), "utf8")
) as ReadonlyArray<Row>

type Headers = Readonly<Record<string, string>>

/** As the value arrives: null sends nothing, a list is one header sent several times, an object is several headers. */
const headersOf = (header: string, value: unknown): Headers => {
  if (value === null) return {}
  if (Array.isArray(value)) return { [header]: value.join(", ") }
  return typeof value === "object" ? { ...(value as Headers) } : { [header]: String(value) }
}

const secondsOf = (
  profile: string,
  answer: { readonly headers: Headers; readonly body: unknown; readonly status?: number },
  wall = Date.UTC(2026, 2, 1)
): number | "invalid" | "absent" => {
  const [hint] = classifyAnswer(profileNamed(profile)!, { status: 429, ...answer }).hints
  if (hint === undefined) return "absent"
  const wait = waitOf(hint, wall)
  return wait === null ? "invalid" : wait / 1000
}

describe("a recorded hint that is no single text", () => {
  const others = rows.filter((row) => typeof row.value !== "string")

  it("is there in every form", () => {
    const forms = others.map((row) => (row.value === null ? "null" : Array.isArray(row.value) ? "array" : "object"))
    assert.deepStrictEqual([...new Set(forms)].sort(), ["array", "null", "object"])
  })

  it.each(others.map((row) => [row.id, row] as const))("%s is read as documented", (_, row) => {
    const answer = { headers: headersOf(row.header, row.value), body: {} }
    assert.strictEqual(secondsOf("generic", answer, Date.parse(row.nowIso)), row.expectedSeconds)
  })
})

describe("a header", () => {
  it.each<readonly [string, Headers, number | "invalid" | "absent"]>([
    ["sent twice is no number", { "retry-after": "5, 5" }, "invalid"],
    ["sent twice with dates is no date", { "retry-after": "Sun, 01 Mar 2026 00:00:30 GMT, 9" }, "invalid"],
    ["that is empty is no number", { "retry-after": "" }, "invalid"],
    ["in milliseconds goes before one in seconds", { "retry-after": "9", "retry-after-ms": "250" }, 0.25],
    ["of azure in milliseconds, too", { "retry-after": "9", "x-ms-retry-after-ms": "750" }, 0.75],
    ["that cannot be read stands before one that can", { "retry-after-ms": "soon", "retry-after": "9" }, "invalid"],
    ["that is not there says nothing", {}, "absent"]
  ])("%s", (_, headers, expected) => assert.strictEqual(secondsOf("generic", { headers, body: {} }), expected))

  it("that cannot be read leaves the readable one behind it in the list", () => {
    const headers = { "retry-after-ms": "soon", "retry-after": "9" }
    const { hints } = classifyAnswer(profileNamed("generic")!, { status: 429, headers, body: {} })
    assert.deepStrictEqual(
      hints.map((hint) => hint._tag),
      ["Invalid", "Delay"]
    )
  })
})

const delayIn = (retryDelay: unknown) => ({ error: { code: 429, details: [{ retryDelay }] } })
const resetIn = (reset: unknown) => ({ error: { code: 429, metadata: { headers: { "X-RateLimit-Reset": reset } } } })
const resetsAt = (at: unknown) => ({ error: { code: 403, metadata: { resets_at: at } } })
const secondsIn = (seconds: unknown) => ({ error: { code: 429, metadata: { retry_after_seconds: seconds } } })

/** JSON has more than texts; what is neither text nor number says nothing, and nothing throws. */
describe("a hint in a body", () => {
  it.each<readonly [string, string, unknown, number | "invalid" | "absent"]>([
    ["gemini", "a text", delayIn("1.5s"), 1.5],
    ["gemini", "null", delayIn(null), "absent"],
    ["gemini", "an array", delayIn(["1.5s"]), "absent"],
    ["gemini", "an object", delayIn({ seconds: 1, nanos: 5 }), "absent"],
    ["gemini", "a number", delayIn(3), "invalid"],
    ["gemini", "no list of details", { error: { code: 429, details: { retryDelay: "1.5s" } } }, "absent"],
    ["gemini", "details that are null", { error: { code: 429, details: null } }, "absent"],
    ["gemini", "a second detail", { error: { code: 429, details: [{ quota: 1 }, { retryDelay: "2s" }] } }, 2],
    ["gemini", "an array body", [delayIn("1.5s")], 1.5],
    ["openrouter", "a text of milliseconds", resetIn(String(Date.UTC(2026, 2, 1, 0, 1))), 60],
    ["openrouter", "a number of milliseconds", resetIn(Date.UTC(2026, 2, 1, 0, 1)), 60],
    ["openrouter", "a reset of null", resetIn(null), "absent"],
    ["openrouter", "a reset in an array", resetIn([1]), "absent"],
    ["openrouter", "a reset in an object", resetIn({ at: 1 }), "absent"],
    ["openrouter", "the instant at which a budget is full again", resetsAt("2026-03-01T00:01:00Z"), 60],
    ["openrouter", "an instant of null", resetsAt(null), "absent"],
    ["openrouter", "an instant in an object", resetsAt({ at: 1 }), "absent"],
    ["openrouter", "an instant that is none", resetsAt("tomorrow"), "invalid"],
    ["openrouter", "a number of seconds", secondsIn(2.5), 2.5],
    ["openrouter", "seconds of null", secondsIn(null), "absent"],
    ["openrouter", "seconds in an array", secondsIn([2]), "absent"],
    ["openrouter", "seconds in an object", secondsIn({ value: 2 }), "absent"],
    ["openrouter", "seconds below zero", secondsIn(-1), "invalid"],
    ["openrouter", "seconds that are true", secondsIn(true), "invalid"]
  ])("of %s, %s", (profile, _, body, expected) =>
    assert.strictEqual(secondsOf(profile, { headers: {}, body }), expected)
  )

  it("has a row above for every place a profile names", () => {
    const places = profiles.flatMap((profile) =>
      profile.hints.flatMap(({ pointer }) => (pointer === null ? [] : [`${profile.name} ${pointer}`]))
    )
    assert.deepStrictEqual(places.sort(), [
      "gemini /error/details/*/retryDelay",
      "openrouter /error/metadata/headers/X-RateLimit-Reset",
      "openrouter /error/metadata/resets_at",
      "openrouter /error/metadata/retry_after_seconds"
    ])
  })
})

describe("a reset header of a profile", () => {
  const headerRows = profiles.flatMap((profile) =>
    profile.hints.flatMap((source) =>
      source.header === null ? [] : [[profile.name, source.header, source.exhausted, source.format] as const]
    )
  )

  const texts = {
    duration: ["1m30s", 90],
    seconds: ["90", 90],
    reset: ["90", 90],
    rfc3339: ["2026-03-01T00:01:30Z", 90],
    "epoch-seconds": [String(Date.UTC(2026, 2, 1, 0, 1, 30) / 1000), 90]
  } as const satisfies Partial<Record<string, readonly [string, number]>>

  it.each(headerRows)("%s %s is read alone, twice and not at all", (profile, header, exhausted, format) => {
    const [text, seconds] = texts[format as keyof typeof texts]
    const used = exhausted === null ? {} : { [exhausted]: "0" }
    const read = (value: unknown) => secondsOf(profile, { headers: { ...used, ...headersOf(header, value) }, body: {} })
    assert.strictEqual(read(text), seconds)
    assert.strictEqual(read([text, text]), "invalid")
    assert.strictEqual(read(null), "absent")
  })
})
