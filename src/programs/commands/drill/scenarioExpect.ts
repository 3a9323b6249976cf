/**
 * Whether a result line is what a scenario expects: a list of differences in words, empty when everything holds. Pure;
 * looks at the line alone.
 */
import { type Json, isObject } from "../../../domain/chat/json.ts"
import { type Line, type Rule, roleOf } from "./ExpectedLine.ts"
import { listOf, said, unreadable } from "./differences.ts"
import { eventRules } from "./eventRules.ts"
import { pairingRules } from "./pairingRules.ts"
import { requestRules, timeRules } from "./requestRules.ts"
import { resultRules } from "./resultRules.ts"

const rules: Readonly<Record<string, Rule>> = {
  ...requestRules,
  ...timeRules,
  ...pairingRules,
  ...resultRules,
  ...eventRules,
  anyOf: (want, line) => {
    const tries = listOf(want).map((expect) =>
      isObject(expect) ? lineDifferences(expect, line) : unreadable(expect, "a way")
    )
    return said(
      tries.some((found) => found.length === 0),
      `none of the ways holds: ${tries.map((found) => found[0]).join(" | ")}`
    )
  }
}

const lineDifferences = (expect: Json, line: Line): ReadonlyArray<string> =>
  Object.entries(expect).flatMap(([name, want]) => {
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined
    return rule === undefined ? [`"${name}" is no expectation this version knows`] : rule(want, line)
  })

const clockKeys = new Set([
  "atMs",
  "elapsedMs",
  "endsAtMs",
  "requestAtMs",
  "minGapMs",
  "gapsNonDecreasing",
  "heartbeats",
  "remainingMs",
  "retryAt"
])

/** Expectations without instants and spans, for runs in real time: decided waits stay, measured time goes. */
export const withoutClock = (expect: unknown): unknown => {
  if (Array.isArray(expect)) return expect.map(withoutClock)
  if (!isObject(expect)) return expect
  return Object.fromEntries(
    Object.entries(expect).flatMap(([key, value]) => (clockKeys.has(key) ? [] : [[key, withoutClock(value)]]))
  )
}

/** What of a scenario's expectations does not hold for a result line; empty = everything holds. */
export const checkLine = (scenario: Json, line: Json): ReadonlyArray<string> => {
  const all = listOf(line["requests"]).filter(isObject)
  const results = listOf(line["results"])
  const ranOut = results.some((result) => isObject(result) && result["error"] === "ScriptEnded")
  return [
    ...(ranOut ? ["a request found no scripted answer"] : []),
    ...lineDifferences(isObject(scenario["expect"]) ? scenario["expect"] : {}, {
      line,
      scenario,
      all,
      main: all.filter((request) => roleOf(request) === "main"),
      results,
      events: listOf(line["events"]),
      parts: listOf(line["parts"]).filter(isObject)
    })
  ]
}
