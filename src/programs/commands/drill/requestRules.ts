/** Expectations on the requests that were sent, and on their times. */
import { type Json, isObject } from "../../../domain/chat/json.ts"
import { numberAt } from "../numberAt.ts"
import { type Line, type Rule, bodyAt, countDifferences, messagesAt, roleOf } from "./ExpectedLine.ts"
import { differences, isSame, listOf, said, show, unreadable } from "./differences.ts"

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

const timesOf = (line: Line): ReadonlyArray<number> =>
  line.main.map((request) => (typeof request["atMs"] === "number" ? request["atMs"] : 0))

/** Distances between consecutive main requests. */
const gapsOf = (line: Line): ReadonlyArray<number> => {
  const times = timesOf(line)
  return times.slice(1).map((at, index) => at - numberAt(times, index))
}

/** Main requests that differ from the first in what is read of them. */
const changes = (line: Line, read: (request: Json) => unknown, what: string): ReadonlyArray<string> => {
  const [first, ...rest] = line.main.map(read)
  return rest.flatMap((value, at) => said(isSame(value, first), `request ${at + 2} has other ${what} than the first`))
}

/** What was sent. */
export const requestRules: Readonly<Record<string, Rule>> = {
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
  roleCounts: (want, line) =>
    countDifferences(want, (role) => line.all.filter((request) => roleOf(request) === role).length, "requests"),
  rolesInOrder: (want, line) => differences(want, line.all.map(roleOf), "roles"),
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
  sameToolsAcrossRequests: (_want, line) => changes(line, (request) => bodyAt(request, "tools"), "tools")
}

/** When it was sent, and what was waited. */
export const timeRules: Readonly<Record<string, Rule>> = {
  requestAtMs: (want, line) =>
    differences(
      want,
      [...timesOf(line)].sort((a, b) => a - b),
      "requestAtMs"
    ),
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
  }
}
