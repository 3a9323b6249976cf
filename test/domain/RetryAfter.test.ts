import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import {
  httpDate,
  instantOf,
  parseHint,
  parseRetryAfter,
  waitOf,
  type HintFormat,
  type HintValue
} from "../../src/domain/RetryAfter.ts"
import { runs } from "../support/runs.ts"

interface Row {
  readonly id: string
  readonly header: string
  readonly value: unknown
  readonly nowIso: string
  readonly expectedSeconds: number | "invalid" | "absent"
  readonly contested?: string
}

const rows = JSON.parse(
  readFileSync(join(import.meta.dirname, "../fixtures/corpus/retry-after-dev.json"), "utf8")
) as ReadonlyArray<Row>

const formatOf = (header: string): HintFormat => {
  if (header === "retry-after") return "retry-after"
  if (header.endsWith("-ms")) return "milliseconds"
  if (header.startsWith("body:")) return "protobuf-duration"
  return header.startsWith("anthropic-ratelimit") && !header.includes("unified") ? "rfc3339" : "reset"
}

const secondsOf = (value: HintValue, nowIso: string): number | "invalid" => {
  if (value._tag === "Invalid") return "invalid"
  const hint = value._tag === "Delay" ? { ...value, source: "x" } : { ...value, source: "x", serverEpochMillis: null }
  return (waitOf(hint, Date.parse(nowIso)) ?? Number.NaN) / 1000
}

describe("a wait hint", () => {
  it.each(
    rows
      .filter((row) => row.contested === undefined && typeof row.value === "string" && row.expectedSeconds !== "absent")
      .map((row) => [row.id, row] as const)
  )("%s is read as documented", (_, row) => {
    const seconds = secondsOf(parseHint(formatOf(row.header), String(row.value)), row.nowIso)
    if (typeof row.expectedSeconds === "number" && typeof seconds === "number")
      assert.isBelow(Math.abs(seconds - row.expectedSeconds), Math.max(1e-6, row.expectedSeconds * 1e-9))
    else assert.strictEqual(seconds, row.expectedSeconds)
  })

  it.effect.prop(
    "any text is read without a throw, and never as a negative wait",
    { text: Schema.String, now: Schema.Int },
    ({ text, now }) =>
      Effect.sync(() => {
        for (const format of [
          "retry-after",
          "milliseconds",
          "seconds",
          "duration",
          "protobuf-duration",
          "epoch-seconds",
          "epoch-milliseconds",
          "rfc3339",
          "reset"
        ] as const) {
          const value = parseHint(format, text)
          if (value._tag === "Delay") assert.isTrue(value.millis >= 0)
          if (value._tag === "At")
            assert.isTrue((waitOf({ ...value, source: "x", serverEpochMillis: null }, now) ?? -1) >= 0)
        }
      }),
    { arbitrary: { runs: runs(2_000) } }
  )

  it("trims blanks and tabs only", () => {
    assert.deepStrictEqual(parseRetryAfter(" \t2 "), { _tag: "Delay", millis: 2_000 })
    assert.deepStrictEqual(parseRetryAfter("\n2"), { _tag: "Invalid" })
  })

  it.each([
    ["Sun, 01 Mar 2026 00:00:30 GMT", Date.UTC(2026, 2, 1, 0, 0, 30)],
    ["Mon, 01 Mar 2026 00:00:30 GMT", null],
    ["Sun, 01 Mar 2026 24:00:00 GMT", null],
    ["Sun, 01 Mar 2026 00:60:00 GMT", null],
    ["Sun, 01 Mar 2026 00:00:61 GMT", null],
    ["Sun, 01 Foo 2026 00:00:30 GMT", null],
    ["Sunday, 06-Nov-94 08:49:37 GMT", Date.UTC(1994, 10, 6, 8, 49, 37)],
    ["Sunday, 01-Mar-26 00:00:10 GMT", Date.UTC(2026, 2, 1, 0, 0, 10)],
    ["Sund, 01-Mar-26 00:00:10 GMT", null],
    ["Someday, 01-Mar-26 00:00:10 GMT", null]
  ])("reads the date %s as %s", (text, expected) => {
    assert.strictEqual(httpDate(text), expected)
  })

  it.each([
    ["2026-03-01T00:00:00Z", Date.UTC(2026, 2, 1)],
    ["2026-03-01T01:30:00+01:30", Date.UTC(2026, 2, 1)],
    ["2026-02-28T23:00:00-01:00", Date.UTC(2026, 2, 1)],
    ["2026-03-01T00:00:00.250z", Date.UTC(2026, 2, 1) + 250],
    ["2026-02-30T00:00:00Z", null],
    ["2026-03-01T00:00:00", null],
    ["2026-03-01", null]
  ])("reads the instant %s as %s", (text, expected) => {
    assert.strictEqual(instantOf(text), expected)
  })

  it.each([
    ["duration", "6m0s", 360_000],
    ["duration", "1d2h3m4s5ms", 93_784_005],
    ["duration", "", null],
    ["duration", "12", null],
    ["seconds", "1.5", 1_500],
    ["seconds", "-1", null],
    ["milliseconds", "250", 250],
    ["protobuf-duration", "1.5s", 1_500],
    ["protobuf-duration", "1.5", null],
    ["reset", "30", 30_000],
    ["reset", "2s", 2_000],
    ["reset", "soon", null]
  ] as const)("reads %s %s as %s ms", (format, text, expected) => {
    const value = parseHint(format, text)
    assert.strictEqual(value._tag === "Delay" ? value.millis : null, expected)
  })

  it.each([
    ["reset", "1772323260", 1_772_323_260_000],
    ["reset", "1741305600000", 1_741_305_600_000],
    ["reset", "2026-03-01T00:00:00Z", Date.UTC(2026, 2, 1)],
    ["epoch-seconds", "1772323260", 1_772_323_260_000],
    ["epoch-milliseconds", "1741305600000", 1_741_305_600_000]
  ] as const)("reads %s %s as an instant", (format, text, expected) => {
    const value = parseHint(format, text)
    assert.strictEqual(value._tag === "At" ? value.epochMillis : null, expected)
  })

  it("measures an instant against the server's clock when it is known, and never below zero", () => {
    const hint = { _tag: "At", source: "retry-after", epochMillis: 5_000, serverEpochMillis: 3_000 } as const
    assert.strictEqual(waitOf(hint, 0), 2_000)
    assert.strictEqual(waitOf({ ...hint, serverEpochMillis: null }, 4_000), 1_000)
    assert.strictEqual(waitOf({ ...hint, serverEpochMillis: null }, 9_000), 0)
    assert.strictEqual(waitOf({ _tag: "Invalid", source: "x" }, 0), null)
  })
})
