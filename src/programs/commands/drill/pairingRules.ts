/** Expectations on every request as a whole: calls and results in pairs, marks of the prompt cache. */
import { type Json, isObject } from "../../../domain/chat/json.ts"
import { numberAt } from "../numberAt.ts"
import { type Line, type Rule, bodyAt, messagesAt, roleOf } from "./ExpectedLine.ts"
import { isSame, listOf, show, unreadable } from "./differences.ts"

/** First tool call without its result, or result without its call, in either wire; null = all paired. */
const pairingFault = (messages: ReadonlyArray<unknown>): string | null => {
  let open: Array<unknown> = []
  for (const [at, message] of messages.entries()) {
    if (!isObject(message)) continue
    const parts = listOf(message["content"]).filter(isObject)
    const results =
      message["role"] === "tool"
        ? [message["tool_call_id"]]
        : parts.filter((part) => part["type"] === "tool_result").map((part) => part["tool_use_id"])
    for (const id of results) {
      const found = open.indexOf(id)
      if (found === -1) return `the result ${show(id)} at message ${at + 1} answers no call before it`
      open.splice(found, 1)
    }
    if (results.length > 0) continue
    if (open.length > 0) return `the call ${show(open[0])} has no result before message ${at + 1}`
    open =
      message["role"] === "assistant"
        ? [
            ...listOf(message["tool_calls"])
              .filter(isObject)
              .map((call) => call["id"]),
            ...parts.filter((part) => part["type"] === "tool_use").map((part) => part["id"])
          ]
        : []
  }
  return open.length === 0 ? null : `the call ${show(open[0])} has no result`
}

/** Life times in seconds of the cache markers of a request body, in the order of the prompt. */
const markersOf = (body: unknown): ReadonlyArray<number> => {
  if (!isObject(body)) return []
  const places = [
    ...listOf(body["tools"]),
    ...listOf(body["system"]),
    ...listOf(body["messages"]).flatMap((message) => [
      message,
      ...(isObject(message) ? listOf(message["content"]) : [])
    ])
  ]
  return places.flatMap((place) => {
    const marker = isObject(place) ? place["cache_control"] : undefined
    return isObject(marker) ? [marker["ttl"] === "1h" ? 3600 : 300] : []
  })
}

const cacheDifferences = (want: unknown, line: Line): ReadonlyArray<string> => {
  if (!isObject(want)) return unreadable(want, "cacheMarkers")
  const [first] = line.main
  if (first === undefined) return ["no requests"]
  const kinds = (request: Json): string => JSON.stringify([...new Set(markersOf(request["body"]))].sort())
  const prefix = (request: Json): unknown => [bodyAt(request, "tools"), bodyAt(request, "system")]
  return line.main.flatMap((request, at) => {
    const path = `request ${at + 1}`
    const markers = markersOf(request["body"])
    const count = `${path} has ${markers.length} cache markers`
    const rises = markers.some((ttl, k) => k > 0 && ttl > numberAt(markers, k - 1))
    return [
      ...(typeof want["min"] === "number" && markers.length < want["min"] ? [count] : []),
      ...(typeof want["max"] === "number" && markers.length > want["max"] ? [count] : []),
      ...(want["ttlNonIncreasing"] === true && rises ? [`${path} has a longer life time after a shorter one`] : []),
      ...(want["sameTtlAcrossRequests"] === true && kinds(request) !== kinds(first)
        ? [`${path} has other life times than the first`]
        : []),
      ...(want["samePrefixAcrossRequests"] === true && !isSame(prefix(request), prefix(first))
        ? [`${path} has another prefix than the first`]
        : [])
    ]
  })
}

/** Calls and their results, and the marks of the prompt cache. */
export const pairingRules: Readonly<Record<string, Rule>> = {
  pairedToolCalls: (_want, line) => {
    const faults = line.all
      .filter((request) => roleOf(request) !== "summarizer")
      .flatMap((request, at) => {
        const fault = pairingFault(messagesAt(request))
        return fault === null ? [] : [`request ${at + 1}: ${fault}`]
      })
    const { history } = line.line
    if (!Array.isArray(history)) return [...faults, "no history"]
    const fault = pairingFault(history)
    return fault === null ? faults : [...faults, `history: ${fault}`]
  },
  cacheMarkers: cacheDifferences
}
