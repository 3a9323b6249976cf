/** A result line as the rules of `expect` read it. */
import { type Json, isObject } from "../../../domain/chat/json.ts"
import { differences, holds, listOf, show, unreadable } from "./differences.ts"

export interface Line {
  readonly line: Json
  readonly scenario: Json
  readonly all: ReadonlyArray<Json>
  readonly main: ReadonlyArray<Json>
  readonly results: ReadonlyArray<unknown>
  readonly events: ReadonlyArray<unknown>
  readonly parts: ReadonlyArray<Json>
}

/** What of an expectation does not hold, in words; empty = it holds. */
export type Rule = (want: unknown, line: Line) => ReadonlyArray<string>

export const roleOf = (request: Json): unknown => request["role"] ?? "main"

export const messagesAt = (request: Json): ReadonlyArray<unknown> =>
  isObject(request["body"]) ? listOf(request["body"]["messages"]) : []

export const bodyAt = (request: Json, key: string): unknown =>
  (isObject(request["body"]) ? request["body"][key] : undefined) ?? null

export const countDifferences = (want: unknown, count: (key: string) => number, what: string): ReadonlyArray<string> =>
  isObject(want)
    ? Object.entries(want).flatMap(([key, number]) => differences(number, count(key), `number of ${key} ${what}`))
    : unreadable(want, `the number of ${what}`)

export const orderDifferences = (
  wants: unknown,
  haves: ReadonlyArray<unknown>,
  what: string
): ReadonlyArray<string> => {
  let from = 0
  for (const want of listOf(wants)) {
    const at = haves.findIndex((have, index) => index >= from && holds(want, have))
    if (at === -1) return [`${what} lack ${show(want)} after entry ${from}`]
    from = at + 1
  }
  return []
}
