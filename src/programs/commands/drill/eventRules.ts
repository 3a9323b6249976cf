/** Expectations on events, the parts of a stream, heartbeats and the loop guard. */
import { type Json, isObject } from "../../../domain/chat/json.ts"
import { numberAt } from "../numberAt.ts"
import { type Line, type Rule, countDifferences, orderDifferences } from "./ExpectedLine.ts"
import { differences, holds, listOf, said, show, unreadable } from "./differences.ts"

const heartbeatDifferences = (want: unknown, line: Line): ReadonlyArray<string> => {
  if (!isObject(want)) return unreadable(want, "heartbeats")
  const beats = listOf(line.line["heartbeatsAtMs"]).filter((at) => typeof at === "number")
  const maxGap = typeof want["maxGapMs"] === "number" ? want["maxGapMs"] : Infinity
  const missing = listOf(want["atLeast"]).filter(
    (at) => !beats.some((beat) => holds(at, beat) || (typeof at === "number" && Math.abs(beat - at) <= 1))
  )
  const end = typeof line.line["elapsedMs"] === "number" ? line.line["elapsedMs"] : 0
  const sent = line.all.map((request) => (typeof request["atMs"] === "number" ? request["atMs"] : 0))
  const marks = [0, ...sent, ...beats, end].sort((a, b) => a - b)
  const gap = marks.findIndex((mark, at) => at > 0 && mark - numberAt(marks, at - 1) > maxGap + 1)
  const from = numberAt(marks, gap - 1)
  return [
    ...missing.map((at) => `no heartbeat at ${show(at)}`),
    ...(gap === -1 ? [] : [`a silence of ${numberAt(marks, gap) - from} ms from ${from}`])
  ]
}

const afterLastReset = (parts: ReadonlyArray<Json>): string => {
  const reset = parts.map((part) => part["_tag"]).lastIndexOf("Reset")
  return parts
    .slice(reset + 1)
    .filter((part) => part["_tag"] === "TextDelta")
    .map((part) => (typeof part["text"] === "string" ? part["text"] : ""))
    .join("")
}

const loopOf = (line: Line): Json => (isObject(line.line["loop"]) ? line.line["loop"] : {})

const userMessages = (messages: unknown): number =>
  listOf(messages).filter((message) => isObject(message) && message["role"] === "user").length

const firstMessages = (scenario: Json): unknown => {
  const script: unknown = Array.isArray(scenario["script"]) ? scenario["script"][0] : undefined
  const call = isObject(scenario["request"]) ? scenario["request"] : isObject(script) ? script["call"] : undefined
  return isObject(call) ? call["messages"] : undefined
}

/** What was told on the way. */
export const eventRules: Readonly<Record<string, Rule>> = {
  eventsInOrder: (want, line) => orderDifferences(want, line.events, "events"),
  eventCounts: (want, line) =>
    countDifferences(
      want,
      (tag) => line.events.filter((event) => isObject(event) && event["_tag"] === tag).length,
      "events"
    ),
  noEvent: (want, line) =>
    listOf(want).flatMap((unwanted) => {
      const found = line.events.find((event) => holds(unwanted, event))
      return found === undefined ? [] : [`there is an event ${show(found)}`]
    }),
  partsInOrder: (want, line) => orderDifferences(want, line.parts, "parts"),
  textAfterLastReset: (want, line) => differences(want, afterLastReset(line.parts), "text after the last Reset"),
  resets: (want, line) =>
    differences(want, line.parts.filter((part) => part["_tag"] === "Reset").length, "number of resets"),
  heartbeats: heartbeatDifferences,
  loopWarnings: (want, line) =>
    differences(want, listOf(loopOf(line)["warnedAtCalls"]).length, "number of loop warnings"),
  warnsAtCall: (want, line) => differences(want, listOf(loopOf(line)["warnedAtCalls"])[0], "first loop warning"),
  breaksAtCall: (want, line) => differences(want, loopOf(line)["brokenAtCall"], "loop break"),
  detector: (want, line) => differences(want, loopOf(line)["detector"], "detector"),
  loopWarningInHistory: (_want, line) =>
    said(
      userMessages(line.line["history"]) > userMessages(firstMessages(line.scenario)),
      "the history has no warning message"
    )
}
