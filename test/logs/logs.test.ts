import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { RecoveryEvent } from "../../src/domain/recovery/RecoveryEvent.ts"
import { replayLog } from "../../src/programs/commands/replay/replayLog.ts"

const logs = readdirSync(import.meta.dirname)
  .filter((name) => name.endsWith(".ndjson"))
  .map((name) => ({ name, text: readFileSync(join(import.meta.dirname, name), "utf8") }))

const linesOf = (text: string): ReadonlyArray<string> => text.split("\n").filter((line) => line !== "")

interface Line {
  readonly _tag: string
  readonly requestId: string
  readonly elapsedMs: number
  readonly action?: { readonly _tag: string }
  readonly tick?: { readonly now: number }
}

const parsedOf = (text: string): ReadonlyArray<Line> => linesOf(text).map((line) => JSON.parse(line) as Line)

/** The log with one decision changed by hand. */
const bent = (text: string, at: number): string => {
  const lines = [...linesOf(text)]
  const event = JSON.parse(lines[at] ?? "") as Record<string, unknown>
  const { _tag } = event["action"] as Line
  event["action"] = _tag === "Done" ? { _tag: "Fail", reason: "Attempts", waitMillis: null } : { _tag: "Done" }
  lines[at] = JSON.stringify(event)
  return lines.join("\n")
}

/** Fields of states and outcomes that came later. Those a decision on record hangs on are kept where they say something. */
const later = new Set(["left", "gone", "rateLimits", "hintsInVain", "spreadRange", "keptTokens", "structured"])
const laterSeen = new Set(["unfinishable", "replayDiffers", "other"])

/** The event as a version before those fields wrote it. */
const older = (line: string): string =>
  JSON.stringify(
    JSON.parse(line, (name, value: unknown) => {
      if (later.has(name)) return undefined
      return laterSeen.has(name) && (value === false || value === null) ? undefined : value
    })
  )

const decode = Schema.decodeUnknownResult(Schema.toCodecJson(RecoveryEvent))

it("there are recorded logs, and every kind of decision is in one of them", () => {
  assert.isAtLeast(logs.length, 12)
  const decided = new Set(logs.flatMap(({ text }) => parsedOf(text).flatMap((line) => line.action?._tag ?? [])))
  assert.deepStrictEqual([...decided].sort(), ["Compact", "Continue", "Done", "Escalate", "Fail", "Fallback", "Retry"])
})

describe.each(logs)("the recorded log $name", ({ text }) => {
  it("folds to the decisions on record", () => {
    const { steps, requests } = replayLog(text)
    const lines = parsedOf(text)
    assert.strictEqual(requests, lines.filter((line) => line._tag === "Started").length)
    assert.strictEqual(steps.length, lines.filter((line) => line._tag === "Transitioned").length)
    assert.isAtLeast(steps.length, 1)
    assert.deepStrictEqual(
      steps.filter((step) => !step.isSame),
      []
    )
  })

  it("does not fold to a decision that was changed", () => {
    for (const [at, line] of parsedOf(text).entries())
      if (line._tag === "Transitioned")
        assert.strictEqual(replayLog(bent(text, at)).steps.filter((step) => !step.isSame).length, 1)
  })

  it("folds to the same decisions as a log of a version that did not know the later counters", () => {
    const { steps } = replayLog(linesOf(text).map(older).join("\n"))
    assert.deepStrictEqual(
      steps.map(({ decided, isSame }) => ({ decided, isSame })),
      replayLog(text).steps.map(({ decided }) => ({ decided, isSame: true }))
    )
  })

  it("is read although its last line is cut, and loses no more than that", () => {
    const whole = replayLog(text).steps.length
    for (const left of [1, 20]) {
      const cut = replayLog(text.slice(0, -1 - left))
      assert.isAtLeast(cut.steps.length, whole - 1)
      assert.isTrue(cut.steps.every((step) => step.isSame))
    }
  })

  it("has events of today's form: one Finished per request, instants that never go back", () => {
    // A policy may have got fields since: what replay makes of it is tried above.
    for (const line of linesOf(text).filter((one) => !one.includes('"_tag":"Started"')))
      assert.isTrue(Result.isSuccess(decode(JSON.parse(line))), line.slice(0, 200))
    const ids = new Set(parsedOf(text).map((line) => line.requestId))
    for (const id of ids) {
      const own = parsedOf(text).filter((line) => line.requestId === id)
      assert.strictEqual(own.filter((line) => line._tag === "Finished").length, 1)
      assert.strictEqual(own.at(-1)?._tag, "Finished")
      own.reduce((before, line) => {
        assert.isAtLeast(line.elapsedMs, before)
        return line.elapsedMs
      }, 0)
    }
  })
})

it("a log of a version whose policy had fewer fields is read", () => {
  const [{ text } = { text: "" }] = logs
  const lines = linesOf(text).map((line) => {
    const event = JSON.parse(line) as { readonly _tag: string; policy?: Record<string, unknown> }
    if (event.policy !== undefined) delete event.policy["idleTimeout"]
    return JSON.stringify(event)
  })
  assert.isTrue(replayLog(lines.join("\n")).steps.every((step) => step.isSame))
})

it("a line in the middle that is cut is a fault of the log, by its number", () => {
  const [{ text } = { text: "" }] = logs
  const lines = linesOf(text)
  const broken = [...lines.slice(0, 1), (lines[1] ?? "").slice(0, -5), ...lines.slice(2)].join("\n")
  assert.throws(() => replayLog(broken), "line 2")
})
