import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { HintReading, waitOf } from "../../../src/domain/failure/Hint.ts"
import {
  httpDate,
  instantOf,
  parseHint,
  parseRetryAfter,
  type HintFormat,
  type HintValue
} from "../../../src/domain/provider/RetryAfter.ts"
import { runs } from "../../support/runs.ts"

interface Row {
  readonly id: string
  readonly header: string
  readonly value: unknown
  readonly nowIso: string
  readonly expectedSeconds: number | "invalid" | "absent"
  readonly contested?: string
}

const rows = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../fixtures/corpus/retry-after-dev.json"), "utf8")
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
  it.each([
    [{ _tag: "Delay", source: "retry-after", millis: 1.5 }, true],
    [{ _tag: "Delay", source: "retry-after", millis: Infinity }, false],
    [{ _tag: "Delay", millis: 1 }, false],
    [{ _tag: "At", source: "date", epochMillis: 1, serverEpochMillis: null }, true],
    [{ _tag: "At", source: "date", epochMillis: 1 }, false],
    [{ _tag: "At", source: "date", epochMillis: Infinity, serverEpochMillis: 1 }, false],
    [{ _tag: "Invalid", source: "body /x" }, true],
    [{ _tag: "Invalid" }, false],
    [{ _tag: "Other", source: "x" }, false]
  ])("%j is one of an event: %s", (hint, expected) => {
    assert.strictEqual(Schema.is(HintReading)(hint), expected)
  })

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
    ["Someday, 01-Mar-26 00:00:10 GMT", null],
    ["Sun, 01 Mar 2026 23:59:59 GMT", Date.UTC(2026, 2, 1, 23, 59, 59)],
    ["Mon, 30 Feb 2026 00:00:00 GMT", null],
    ["Sun, 00 Mar 2026 00:00:00 GMT", null],
    ["Thu, 29 Feb 2024 00:00:00 GMT", Date.UTC(2024, 1, 29)],
    ["Sun, 1 Mar 2026 00:00:30 GMT", null],
    ["Sun,  01 Mar 2026 00:00:30 GMT", null],
    [" Sun, 01 Mar 2026 00:00:30 GMT", null],
    ["on Sun, 01 Mar 2026 00:00:30 GMT", null],
    ["Sun, 01 Mar 2026 00:00:30 GMT today", null],
    ["sun, 01 mar 2026 00:00:30 gmt", null],
    ["Sun, 01 Mar 2026 00:00:30", null],
    ["Sun, 01 Mar 2026 00:00:30 UTC", null],
    ["Sun, 01 Mar 2026 00:00:30 +0000", null],
    ["Sun, 01 Mar 2026 00:00 GMT", null],
    ["01 Mar 2026 00:00:30 GMT", null],
    ["Sun Mar  1 00:00:30 2026", null],
    ["Sun, 01 Mar 202026 00:00:00 GMT", null],
    ["Invalid Date", null],
    ["", null],
    ["Monday, 02-Mar-26 00:00:10 GMT", Date.UTC(2026, 2, 2, 0, 0, 10)],
    ["Tuesday, 03-Mar-26 00:00:10 GMT", Date.UTC(2026, 2, 3, 0, 0, 10)],
    ["Wednesday, 04-Mar-26 00:00:10 GMT", Date.UTC(2026, 2, 4, 0, 0, 10)],
    ["Thursday, 05-Mar-26 00:00:10 GMT", Date.UTC(2026, 2, 5, 0, 0, 10)],
    ["Friday, 06-Mar-26 00:00:10 GMT", Date.UTC(2026, 2, 6, 0, 0, 10)],
    ["Saturday, 07-Mar-26 00:00:10 GMT", Date.UTC(2026, 2, 7, 0, 0, 10)],
    ["Saturday, 01-Mar-26 00:00:10 GMT", null],
    ["Sunday, 01 Mar 2026 00:00:10 GMT", null],
    ["Sunday, 01-Mar-2026 00:00:10 GMT", null],
    ["Sunday, 1-Mar-26 00:00:10 GMT", null],
    ["on Sunday, 01-Mar-26 00:00:10 GMT", null],
    ["Sunday, 01-Mar-26 00:00:10 GMT today", null]
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
    ["2026-03-01", null],
    ["2026-03-01t23:59:59.999999Z", Date.UTC(2026, 2, 1, 23, 59, 59) + 999.999],
    ["2026-03-01T00:00:00.5+23:59", Date.UTC(2026, 1, 28, 0, 1) + 500],
    ["2024-02-29T00:00:00Z", Date.UTC(2024, 1, 29)],
    ["2026-02-29T00:00:00Z", null],
    ["2026-13-01T00:00:00Z", null],
    ["2026-00-01T00:00:00Z", null],
    ["2026-03-00T00:00:00Z", null],
    ["2026-03-01T24:00:00Z", null],
    ["2026-03-01T00:60:00Z", null],
    ["2026-03-01T00:00:60Z", null],
    ["2026-03-01T00:00:00+24:00", null],
    ["2026-03-01T00:00:00+01:60", null],
    ["2026-03-01T00:00:00+0100", null],
    ["2026-03-01T00:00:00.Z", null],
    ["2026-03-01 00:00:00Z", null],
    ["26-03-01T00:00:00Z", null],
    ["at 2026-03-01T00:00:00Z", null],
    ["12026-03-01T00:00:00Z", null],
    ["2026-03-01T00:00:00Z!", null],
    ["2026-03-01T00:00:00+01:00Z", null]
  ])("reads the instant %s as %s", (text, expected) => {
    assert.strictEqual(instantOf(text), expected)
  })

  it.each([
    ["duration", "6m0s", 360_000],
    ["duration", "1d2h3m4s5ms", 93_784_005],
    ["duration", "12d10h11m12s13ms", 1_073_472_013],
    ["duration", "1.25d", 108_000_000],
    ["duration", "1.25h", 4_500_000],
    ["duration", "1.25m", 75_000],
    ["duration", "2m59.56s", 179_560],
    ["duration", "12.75ms", 12.75],
    ["duration", " 5s\t", 5_000],
    ["duration", "", null],
    ["duration", "12", null],
    ["duration", "-5s", null],
    ["duration", "5s1m", null],
    ["duration", "5s5s", null],
    ["duration", ".5s", null],
    ["duration", "1.s", null],
    ["duration", "5s.", null],
    ["duration", "5S", null],
    ["duration", "5 s", null],
    ["seconds", "1.5", 1_500],
    ["seconds", "-1", null],
    ["seconds", "+1", null],
    ["seconds", "1e3", null],
    ["seconds", "0x10", null],
    ["seconds", "1.", null],
    ["seconds", ".5", null],
    ["seconds", "12abc", null],
    ["seconds", "1,5", null],
    ["seconds", "\t \t7 \t ", 7_000],
    ["seconds", "0", 0],
    ["seconds", "9".repeat(400), null],
    ["retry-after", "2", 2_000],
    ["retry-after", "2s", null],
    ["milliseconds", "250", 250],
    ["milliseconds", "250.75", 250.75],
    ["milliseconds", "250ms", null],
    ["protobuf-duration", "1.5s", 1_500],
    ["protobuf-duration", "32.25s", 32_250],
    ["protobuf-duration", "12s", 12_000],
    ["protobuf-duration", "1.5", null],
    ["protobuf-duration", "1.s", null],
    ["protobuf-duration", "-1s", null],
    ["protobuf-duration", "1s5", null],
    ["protobuf-duration", "1m1s", null],
    ["reset", "30", 30_000],
    ["reset", "999999999", 999_999_999_000],
    ["reset", "0", 0],
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
    ["reset", "1000000000", 1_000_000_000_000],
    ["reset", "99999999999", 99_999_999_999_000],
    ["reset", "100000000000", 100_000_000_000],
    ["rfc3339", "2026-03-01T00:00:00Z", Date.UTC(2026, 2, 1)],
    ["rfc3339", "1772323260", null],
    ["retry-after", "Sun, 01 Mar 2026 00:00:30 GMT", Date.UTC(2026, 2, 1, 0, 0, 30)],
    ["retry-after", "2026-03-01T00:00:00Z", null],
    ["epoch-seconds", "1772323260", 1_772_323_260_000],
    ["epoch-seconds", "tomorrow", null],
    ["epoch-milliseconds", "1741305600000", 1_741_305_600_000],
    ["epoch-milliseconds", "8640000000000000", 8_640_000_000_000_000],
    // No calendar has these instants: a sentence that names them could not be written.
    ["epoch-milliseconds", "8640000000000001", null],
    ["epoch-seconds", "9".repeat(20), null],
    ["reset", "9".repeat(400), null]
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
