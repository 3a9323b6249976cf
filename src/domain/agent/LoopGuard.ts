/**
 * Notices a model that goes in circles. Pure: calls and results go in, a verdict comes out; the state is small JSON.
 *
 * Three detectors over the last 30 calls. *Ping-pong*: a tail of whole repeats of one cycle of 2 to 5 different calls
 * with equal results. *Repeat*: one equal call again and again, whatever its results and whatever lies between. *No
 * progress*: a polling tool that keeps saying the same. A call is judged before it runs and noted after; the breaking
 * call is not run, except under no progress, which needs its result. Arguments are read, never changed.
 */
import { digest } from "../chat/digest.ts"
import * as Schema from "effect/Schema"
import { canonicalText } from "./CanonicalJson.ts"
import type { Detector } from "../failure/Detector.ts"
import { Count } from "../chat/Usage.ts"

/** Calls the guard remembers, the current one included. */
const windowSize = 30
const repeatWarnsAt = 5
const repeatBreaksAt = 8
const noProgressBreaksAt = 10
const cycleLengths = [2, 3, 4, 5] as const
const cycleWarnsAt = (length: number): number => Math.max(5, 2 * length)
export const cycleBreaksAt = (length: number): number => Math.max(8, 3 * length)

const Entry = Schema.Struct({
  /** Fingerprint of name and arguments. */
  call: Schema.String,
  /** Fingerprint of the result; null = not known yet. */
  result: Schema.NullOr(Schema.String),
  polling: Schema.Boolean
})
type Entry = typeof Entry.Type

export const LoopGuardState = Schema.Struct({
  /** Calls judged so far, over the whole run. */
  calls: Count,
  /** The last calls, oldest first. */
  entries: Schema.Array(Entry),
  /** Detector and pattern of every warning that was given: one warning each. */
  warned: Schema.Array(Schema.String)
})
export type LoopGuardState = typeof LoopGuardState.Type

export const initial: LoopGuardState = { calls: 0, entries: [], warned: [] }

/** A call as the guard sees it. `arguments` is the JSON text of the model. */
export interface GuardedCall {
  readonly name: string
  readonly arguments: string
  readonly polling: boolean
}

/** A result as the guard sees it: two failures are equal when kind and tag are, whatever their text. */
export interface GuardedResult {
  readonly isFailure: boolean
  readonly kind: string
  readonly errorTag: string | null
  readonly content: string
}

/** What was seen, for the warning and for the failure. */
export interface Finding {
  readonly detector: Detector
  /** Number of the call that was judged, from 1, over the run. */
  readonly atCall: number
  /** Equal calls in the window, or calls in the tail of a cycle. */
  readonly count: number
  /** Calls of the cycle; 1 for the other detectors. */
  readonly cycle: number
  readonly tool: string
}

/** `Alone`: this call's result may end the run, so it does not run beside others. */
export type Verdict =
  | { readonly _tag: "Run" }
  | { readonly _tag: "Alone" }
  | { readonly _tag: "Break"; readonly finding: Finding }

/** Longest text that stands for itself in a fingerprint; longer ones are hashed. */
const plainLength = 160

const short = (text: string): string =>
  text.length <= plainLength ? text : `${text.slice(0, plainLength / 2)}~${text.length}~${digest(text)}`

/** Equal calls have equal fingerprints: the same tool, the same arguments as JSON values. */
export const fingerprint = (name: string, args: string): string => `${name} ${short(canonicalText(args))}`

export const resultFingerprint = (result: GuardedResult): string =>
  result.isFailure ? `failure ${result.kind} ${result.errorTag ?? ""}` : `ok ${short(result.content)}`

interface Tail {
  readonly length: number
  readonly cycle: number
  readonly pattern: string
}

const isEqualResult = (left: Entry, right: Entry): boolean =>
  left.result === null || right.result === null || left.result === right.result

/** The tail of whole repeats of one cycle of `length` different calls; null when there are not two of them. */
const tailOf = (entries: ReadonlyArray<Entry>, length: number): Tail | null => {
  const cycle = entries.slice(-length)
  if (cycle.length < length || new Set(cycle.map((entry) => entry.call)).size < length) return null
  if (cycle.some((entry) => entry.polling)) return null
  let matched = length
  for (let index = entries.length - length - 1; index >= 0; index -= 1) {
    const earlier = entries[index]
    const later = entries[index + length]
    if (earlier === undefined || later === undefined || earlier.call !== later.call || !isEqualResult(earlier, later))
      break
    matched += 1
  }
  const whole = Math.floor(matched / length) * length
  if (whole < 2 * length) return null
  // The same cycle entered at another point is the same pattern.
  const calls = cycle.map((entry) => entry.call)
  const from = calls.indexOf(calls.reduce((least, call) => (call < least ? call : least)))
  return { length: whole, cycle: length, pattern: [...calls.slice(from), ...calls.slice(0, from)].join(" | ") }
}

const countEqual = (entries: ReadonlyArray<Entry>, call: string): number =>
  entries.filter((entry) => entry.call === call).length

/** Calls before this one that said the same as the latest of them. */
const equalPolls = (entries: ReadonlyArray<Entry>, call: string, result: string): number =>
  entries.filter((entry) => entry.call === call && entry.result === result).length

const entryOf = (call: GuardedCall): Entry => ({
  call: fingerprint(call.name, call.arguments),
  result: null,
  polling: call.polling
})

const windowWith = (state: LoopGuardState, entry: Entry): ReadonlyArray<Entry> =>
  [...state.entries, entry].slice(-windowSize)

/** Judges a call before it runs. `state` holds every call before it, with its result. */
export const judge = (state: LoopGuardState, call: GuardedCall): Verdict => {
  const entry = entryOf(call)
  const atCall = state.calls + 1
  if (call.polling) {
    const said = new Map<string, number>()
    for (const earlier of state.entries.slice(-(windowSize - 1)))
      if (earlier.call === entry.call && earlier.result !== null)
        said.set(earlier.result, (said.get(earlier.result) ?? 0) + 1)
    return Math.max(0, ...said.values()) >= noProgressBreaksAt - 1 ? { _tag: "Alone" } : { _tag: "Run" }
  }
  const entries = windowWith(state, entry)
  for (const length of cycleLengths) {
    const tail = tailOf(entries, length)
    if (tail !== null && tail.length >= cycleBreaksAt(length))
      return {
        _tag: "Break",
        finding: { detector: "ping_pong", atCall, count: tail.length, cycle: length, tool: call.name }
      }
  }
  const count = countEqual(entries, entry.call)
  return count >= repeatBreaksAt
    ? { _tag: "Break", finding: { detector: "repeat", atCall, count, cycle: 1, tool: call.name } }
    : { _tag: "Run" }
}

export interface Noted {
  readonly state: LoopGuardState
  readonly warning: Finding | null
  /** No progress: the run ends after this call. */
  readonly broken: Finding | null
}

const warnOnce = (state: LoopGuardState, pattern: string, finding: Finding): Noted => {
  const key = `${finding.detector} ${pattern}`
  return state.warned.includes(key)
    ? { state, warning: null, broken: null }
    : { state: { ...state, warned: [...state.warned, key] }, warning: finding, broken: null }
}

/** Notes a call with its result; `result` null = the call was not run. */
export const note = (before: LoopGuardState, call: GuardedCall, result: GuardedResult | null): Noted => {
  const entry: Entry = { ...entryOf(call), result: result === null ? null : resultFingerprint(result) }
  const entries = windowWith(before, entry)
  const atCall = before.calls + 1
  const state: LoopGuardState = { ...before, calls: atCall, entries }
  const quiet: Noted = { state, warning: null, broken: null }
  if (call.polling) {
    const count = entry.result === null ? 0 : equalPolls(entries, entry.call, entry.result)
    return count >= noProgressBreaksAt
      ? { ...quiet, broken: { detector: "no_progress", atCall, count, cycle: 1, tool: call.name } }
      : quiet
  }
  if (result === null) return quiet
  for (const length of cycleLengths) {
    const tail = tailOf(entries, length)
    if (tail !== null && tail.length >= cycleWarnsAt(length)) {
      const finding: Finding = {
        detector: "ping_pong",
        atCall,
        count: tail.length,
        cycle: length,
        tool: call.name
      }
      const noted = warnOnce(state, tail.pattern, finding)
      if (noted.warning !== null) return noted
    }
  }
  const count = countEqual(entries, entry.call)
  return count >= repeatWarnsAt
    ? warnOnce(state, entry.call, { detector: "repeat", atCall, count, cycle: 1, tool: call.name })
    : quiet
}

/** The finding in words the model, and a user, can act on. */
export const sentenceOf = (finding: Finding): string => {
  switch (finding.detector) {
    case "repeat":
      return `You have called ${finding.tool} ${finding.count} times with the same arguments. Use the results you have, change the arguments, or say what is missing.`
    case "ping_pong":
      return `The same ${finding.cycle} calls keep returning the same results (${finding.count} calls so far). Nothing new will come of it: take another way, or say what is missing.`
    case "no_progress":
      return `${finding.tool} has said the same ${finding.count} times. What it waits for does not move.`
  }
}
