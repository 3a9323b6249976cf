/**
 * Whether a result line is what a scenario expects: a list of differences in words, empty when everything holds. Pure;
 * looks at the line alone.
 */
import { isObject, parsedOrText, type Json } from "../../../domain/chat/json.ts"
import { numberAt } from "../numberAt.ts"

const listOf = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

const show = (value: unknown): string => {
  const text = value === undefined ? "nothing" : JSON.stringify(value)
  return text.length > 100 ? `${text.slice(0, 100)}...` : text
}

/** Equality of JSON values; the order of keys does not matter. */
const isSame = (left: unknown, right: unknown): boolean => {
  if (Array.isArray(left))
    return Array.isArray(right) && left.length === right.length && left.every((entry, at) => isSame(entry, right[at]))
  if (isObject(left)) {
    if (!isObject(right)) return false
    const keys = Object.keys(left)
    return (
      keys.length === Object.keys(right).length && keys.every((key) => key in right && isSame(left[key], right[key]))
    )
  }
  return Object.is(left, right)
}

const parsed = (value: unknown): unknown => (typeof value === "string" ? parsedOrText(value) : value)

const plainText = (content: unknown): unknown =>
  Array.isArray(content)
    ? content.map((part) => (isObject(part) && typeof part["text"] === "string" ? part["text"] : "")).join("")
    : content

const isMatcher = (value: unknown): value is Json =>
  isObject(value) && Object.keys(value).some((key) => key.startsWith("$"))

/** Rounding of a millisecond more or less is no difference. */
const toleranceOf = (key: string): number => (/(Ms|Millis)$/.test(key) ? 1 : 1e-9)

const lastKey = (path: string): string => /([A-Za-z_]+)(\[\d+\])*$/.exec(path)?.[1] ?? ""

/** Differences between what is wanted and what is there. */
export const differences = (want: unknown, have: unknown, path: string): ReadonlyArray<string> => {
  const wrong = (what: string = show(want)): ReadonlyArray<string> => [`${path} is ${show(have)}, wanted ${what}`]
  const key = lastKey(path)
  if (isMatcher(want)) return matcherDifferences(want, have, path)
  if (key === "args" || key === "arguments") return isSame(parsed(want), parsed(have)) ? [] : wrong()
  if (want === null) {
    const isEmptyContent = key === "content" && (have === "" || (Array.isArray(have) && have.length === 0))
    return have === null || have === undefined || isEmptyContent ? [] : wrong()
  }
  if (typeof want === "number")
    return typeof have === "number" && Math.abs(want - have) <= toleranceOf(key) ? [] : wrong()
  if (Array.isArray(want)) {
    if (!Array.isArray(have)) return wrong()
    return want.length === have.length
      ? want.flatMap((entry, at) => differences(entry, have[at], `${path}[${at}]`))
      : [`${path} has ${have.length} entries, wanted ${want.length}`]
  }
  if (isObject(want))
    return isObject(have)
      ? Object.entries(want).flatMap(([name, value]) => differences(value, have[name], `${path}.${name}`))
      : wrong()
  return Object.is(want, key === "content" ? plainText(have) : have) ? [] : wrong()
}

const matcherDifferences = (want: Json, have: unknown, path: string): ReadonlyArray<string> => {
  const bad: Array<string> = []
  const text = typeof have === "string" ? have : have === undefined || have === null ? "" : JSON.stringify(have)
  if (want["$any"] === true && (have === undefined || have === null || have === "")) bad.push(`${path} is missing`)
  if (typeof want["$has"] === "string" && !text.includes(want["$has"]))
    bad.push(`${path} lacks ${show(want["$has"])}: ${show(have)}`)
  if (typeof want["$min"] === "number" && !(typeof have === "number" && have >= want["$min"] - 1e-9))
    bad.push(`${path} is ${show(have)}, wanted at least ${want["$min"]}`)
  if (typeof want["$max"] === "number" && !(typeof have === "number" && have <= want["$max"] + 1e-9))
    bad.push(`${path} is ${show(have)}, wanted at most ${want["$max"]}`)
  return bad
}

const holds = (want: unknown, have: unknown): boolean => differences(want, have, "value").length === 0

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

const roleOf = (request: Json): unknown => request["role"] ?? "main"

interface Line {
  readonly line: Json
  readonly scenario: Json
  readonly all: ReadonlyArray<Json>
  readonly main: ReadonlyArray<Json>
  readonly results: ReadonlyArray<unknown>
  readonly events: ReadonlyArray<unknown>
  readonly parts: ReadonlyArray<Json>
}

const messagesAt = (request: Json): ReadonlyArray<unknown> =>
  isObject(request["body"]) ? listOf(request["body"]["messages"]) : []

const bodyAt = (request: Json, key: string): unknown =>
  (isObject(request["body"]) ? request["body"][key] : undefined) ?? null

const withPlainCalls = (result: unknown): unknown => {
  if (!isObject(result) || !Array.isArray(result["toolCalls"])) return result
  return {
    ...result,
    toolCalls: result["toolCalls"].filter(isObject).map((call) => {
      const fn = isObject(call["function"]) ? call["function"] : {}
      return {
        id: call["id"],
        name: call["name"] ?? fn["name"],
        args: parsed(call["args"] ?? call["arguments"] ?? fn["arguments"])
      }
    })
  }
}

const resultDifferences = (want: unknown, have: unknown, path: string): ReadonlyArray<string> =>
  differences(want, withPlainCalls(have), path)

/** An expectation that is not of its kind never holds: a slip of the pen must not pass. */
const unreadable = (want: unknown, what: string): ReadonlyArray<string> => [`${what} cannot be ${show(want)}`]

const requestDifferences = (want: unknown, have: Json | undefined, at: number): ReadonlyArray<string> => {
  const path = `request ${at + 1}`
  if (have === undefined) return [`${path} was not sent`]
  if (want === null) return []
  if (!isObject(want)) return unreadable(want, `the expectation of ${path}`)
  const { bodyHas, bodyLacks, firstMessage, lastMessage, systemCount, messageCount, ...rest } = want
  const text = JSON.stringify(have["body"] ?? null)
  const messages = messagesAt(have)
  const isIn = (part: unknown): boolean =>
    typeof part === "string" && (text.includes(part) || text.includes(JSON.stringify(part).slice(1, -1)))
  const systems = messages.filter((message) => isObject(message) && message["role"] === "system").length
  return [
    ...differences(rest, have, path),
    ...listOf(bodyHas)
      .filter((part) => !isIn(part))
      .map((part) => `${path} lacks ${show(part)}`),
    ...listOf(bodyLacks)
      .filter(isIn)
      .map((part) => `${path} has ${show(part)}`),
    ...(firstMessage === undefined ? [] : differences(firstMessage, messages[0], `${path}.firstMessage`)),
    ...(lastMessage === undefined ? [] : differences(lastMessage, messages.at(-1), `${path}.lastMessage`)),
    ...(systemCount === undefined ? [] : differences(systemCount, systems, `${path}.systemCount`)),
    ...(messageCount === undefined ? [] : differences(messageCount, messages.length, `${path}.messageCount`))
  ]
}

const orderDifferences = (wants: unknown, haves: ReadonlyArray<unknown>, what: string): ReadonlyArray<string> => {
  let from = 0
  for (const want of listOf(wants)) {
    const at = haves.findIndex((have, index) => index >= from && holds(want, have))
    if (at === -1) return [`${what} lack ${show(want)} after entry ${from}`]
    from = at + 1
  }
  return []
}

const timesOf = (line: Line): ReadonlyArray<number> =>
  line.main.map((request) => (typeof request["atMs"] === "number" ? request["atMs"] : 0))

/** Distances between consecutive main requests. */
const gapsOf = (line: Line): ReadonlyArray<number> => {
  const times = timesOf(line)
  return times.slice(1).map((at, index) => at - numberAt(times, index))
}

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

const countDifferences = (want: unknown, count: (key: string) => number, what: string): ReadonlyArray<string> =>
  isObject(want)
    ? Object.entries(want).flatMap(([key, number]) => differences(number, count(key), `number of ${key} ${what}`))
    : unreadable(want, `the number of ${what}`)

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

type Rule = (want: unknown, line: Line) => ReadonlyArray<string>

const said = (isTrue: boolean, sentence: string): ReadonlyArray<string> => (isTrue ? [] : [sentence])

/** Main requests that differ from the first in what is read of them. */
const changes = (line: Line, read: (request: Json) => unknown, what: string): ReadonlyArray<string> => {
  const [first, ...rest] = line.main.map(read)
  return rest.flatMap((value, at) => said(isSame(value, first), `request ${at + 2} has other ${what} than the first`))
}

const rules: Readonly<Record<string, Rule>> = {
  requests: (want, line) => [
    ...differences(listOf(want).length, line.main.length, "number of main requests"),
    ...listOf(want).flatMap((request, at) => requestDifferences(request, line.main[at], at))
  ],
  requestCount: (want, line) => differences(want, line.main.length, "number of main requests"),
  requestModels: (want, line) =>
    differences(
      want,
      line.main.map((request) => request["model"]),
      "models"
    ),
  requestAtMs: (want, line) =>
    differences(
      want,
      [...timesOf(line)].sort((a, b) => a - b),
      "requestAtMs"
    ),
  roleCounts: (want, line) =>
    countDifferences(want, (role) => line.all.filter((request) => roleOf(request) === role).length, "requests"),
  rolesInOrder: (want, line) => differences(want, line.all.map(roleOf), "roles"),
  sleepsMs: (want, line) =>
    differences(
      want,
      listOf(line.line["sleepsMs"]).filter((sleep) => typeof sleep === "number" && sleep > 0),
      "sleepsMs"
    ),
  minGapMs: (want, line) =>
    gapsOf(line).flatMap((gap, index) =>
      said(
        typeof want === "number" && gap >= want - 1,
        `request ${index + 2} comes ${gap} ms after the one before, wanted at least ${show(want)}`
      )
    ),
  gapsNonDecreasing: (_want, line) => {
    const gaps = gapsOf(line)
    return said(
      gaps.every((gap, at) => at === 0 || gap >= numberAt(gaps, at - 1) - 1),
      `gaps between requests shrink: ${show(gaps)}`
    )
  },
  elapsedMs: (want, line) => differences(want, line.line["elapsedMs"], "elapsedMs"),
  endsAtMs: (want, line) => {
    const first = line.results[0]
    return differences(want, (isObject(first) ? first["endedAtMs"] : undefined) ?? line.line["elapsedMs"], "endsAtMs")
  },
  result: (want, line) => resultDifferences(want, line.results[0], "result"),
  results: (want, line) => [
    ...differences(listOf(want).length, line.results.length, "number of results"),
    ...listOf(want).flatMap((result, at) => resultDifferences(result, line.results[at], `results[${at}]`))
  ],
  resultCounts: (want, line) =>
    listOf(want).flatMap((entry) =>
      isObject(entry)
        ? differences(
            entry["count"],
            line.results.filter((result) => resultDifferences(entry["like"], result, "result").length === 0).length,
            `number of results like ${show(entry["like"])}`
          )
        : unreadable(entry, "an entry of resultCounts")
    ),
  anyOf: (want, line) => {
    const tries = listOf(want).map((expect) =>
      isObject(expect) ? lineDifferences(expect, line) : unreadable(expect, "a way")
    )
    return said(
      tries.some((found) => found.length === 0),
      `none of the ways holds: ${tries.map((found) => found[0]).join(" | ")}`
    )
  },
  history: (want, line) => differences(want, line.line["history"], "history"),
  historyUnchanged: (want, line) => differences(want, line.line["historyUnchanged"], "historyUnchanged"),
  historyHas: (want, line) => {
    const text = JSON.stringify(line.line["history"] ?? null)
    return listOf(want).flatMap((part) => said(text.includes(String(part)), `history lacks ${show(part)}`))
  },
  usageTotal: (want, line) => differences(want, line.line["usageTotal"], "usageTotal"),
  costUsd: (want, line) => differences(want, line.line["costUsd"], "costUsd"),
  toolExecutions: (want, line) => differences(want, line.line["toolExecutions"] ?? [], "toolExecutions"),
  toolExecutionCounts: (want, line) =>
    countDifferences(
      want,
      (name) => listOf(line.line["toolExecutions"]).filter((run) => isObject(run) && run["name"] === name).length,
      "runs"
    ),
  toolResults: (want, line) => differences(want, line.line["toolResults"] ?? [], "toolResults"),
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
  requestTails: (want, line) =>
    listOf(want).flatMap((tail, at) => {
      if (!Array.isArray(tail)) return []
      const request = line.main[at]
      return request === undefined
        ? [`request ${at + 1} was not sent`]
        : differences(tail, messagesAt(request).slice(-tail.length), `tail of request ${at + 1}`)
    }),
  lastRoleOfEachRequest: (want, line) =>
    line.main.flatMap((request, at) => {
      const last = messagesAt(request).at(-1)
      return differences(want, isObject(last) ? last["role"] : undefined, `last role of request ${at + 1}`)
    }),
  sameMessagesAcrossRequests: (_want, line) => changes(line, messagesAt, "messages"),
  sameToolsAcrossRequests: (_want, line) => changes(line, (request) => bodyAt(request, "tools"), "tools"),
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
    ),
  cacheMarkers: cacheDifferences,
  secretsAbsent: (want, line) => {
    const text = JSON.stringify(line.line)
    return listOf(want).flatMap((secret) => said(!text.includes(String(secret)), "a secret is in the output"))
  },
  connectionsOpenAtEnd: (want, line) => differences(want, line.line["connectionsOpen"], "connectionsOpen"),
  exitCode: (want, line) => differences(want, line.line["exitCode"], "exitCode")
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
