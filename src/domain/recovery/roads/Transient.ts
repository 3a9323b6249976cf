/**
 * The transient road: what is retried, how long the wait is, and when another route takes over. Pure; milliseconds.
 */
import { isCertificateCode, isNowhereCode } from "../../failure/connectionCodes.ts"
import type { Faulted, SummaryFaulted } from "../Outcome.ts"
import type { RetryClass, OutcomeClass, RecoveryPolicy } from "../RecoveryPolicy.ts"
import { routeAt } from "../RecoveryPolicy.ts"
import { endOf, type RecoveryState } from "../RecoveryState.ts"
import { grainOf, shortHintMillis, waitOf } from "../../failure/Hint.ts"
import type { Tick } from "../Tick.ts"
import { fail, to, type Transition } from "../Transition.ts"
import type { WaitOrigin } from "../../failure/FailReason.ts"
import type { Shown } from "../RecoveryAction.ts"
import { onGone } from "./Gone.ts"
import { shownAfterFault } from "./Shown.ts"

type Fault = Faulted | SummaryFaulted

/** Codes that blame the model's own answer and not the request: the next sample is mostly a good one. */
const botchedCodes: ReadonlySet<string> = new Set([
  "tool_use_failed",
  "MALFORMED_FUNCTION_CALL",
  "UNEXPECTED_TOOL_CALL",
  "TOO_MANY_TOOL_CALLS",
  "MALFORMED_RESPONSE",
  "malformed_model_output",
  "malformed_tool_use",
  "tool_calls_missing",
  "tool_call_without_name"
])

/** How often in a row a botched sample is asked again: a third one is no bad luck. */
const maxSamples = 2

/** Class of a fault for retries and runs; null = it has none and is never transient. */
export const classOf = (fault: Pick<Fault, "kind" | "code">): Exclude<OutcomeClass, "overflow"> | null => {
  switch (fault.kind) {
    case "rate_limited":
      return "rateLimit"
    case "overloaded":
      return "overload"
    case "server_error":
      return "serverError"
    case "timeout":
      return "silent"
    case "connection":
      return "connection"
    case "interrupted":
      return "cut"
    case "empty_reply":
      return "empty"
    case "malformed_response":
    case "invalid_request":
      return fault.code !== null && botchedCodes.has(fault.code) ? "sample" : null
    default:
      return null
  }
}

const byStatus = (retry: ReadonlyArray<RetryClass>, fault: Fault): boolean =>
  (fault.status === 429 && retry.includes("http429")) || (fault.status === 529 && retry.includes("http529"))

const isStatusBound = (policy: RecoveryPolicy): boolean =>
  policy.retry.includes("http429") || policy.retry.includes("http529")

/** Whether the policy repeats this fault at all; attempts and time are judged elsewhere. */
export const isRetryable = (policy: RecoveryPolicy, fault: Fault): boolean => {
  // A quota verdict beats any header, and a "do not" is obeyed everywhere.
  if (fault.kind === "quota_exhausted" || fault.shouldRetry === false) return false
  if (fault.kind === "connection" && isCertificateCode(fault.code)) return false
  const group = classOf(fault)
  return (
    byStatus(policy.retry, fault) ||
    (group !== null && policy.retry.includes(group)) ||
    (fault.shouldRetry === true && policy.trustShouldRetry)
  )
}

/** The class that counts towards a fallback. In strict only HTTP 429 and 529 have one: the status alone decides. */
export const runClassOf = (policy: RecoveryPolicy, fault: Fault): OutcomeClass | null => {
  if (!isStatusBound(policy)) return classOf(fault)
  if (fault.status === 529) return "overload"
  if (fault.status === 429) return "rateLimit"
  const group = classOf(fault)
  return group !== null && policy.retry.includes(group) ? group : null
}

/** The run of consecutive outcomes after one more of this class; any other outcome ends a run. */
export const countRun = (state: RecoveryState, group: OutcomeClass | null): RecoveryState["run"] =>
  group === null ? null : { class: group, count: state.run?.class === group ? state.run.count + 1 : 1 }

/** Index of the route that takes over when a run is long enough; null = stay. */
export const nextRoute = (policy: RecoveryPolicy, state: RecoveryState, run: RecoveryState["run"]): number | null => {
  if (run === null || run.class === "empty" || run.class === "sample") return null
  const limit = policy.fallbackAfter[run.class]
  if (limit === undefined || run.count < limit) return null
  const next = policy.routes.findIndex((_, at) => at > state.route && !state.gone.includes(at))
  return next === -1 ? null : next
}

interface Hint {
  readonly invalid: boolean
  readonly millis: number | null
  /** By how much the wait may be longer than what was meant, because clocks are written in whole seconds. */
  readonly grain: number
}

const noHint: Hint = { invalid: false, millis: null, grain: 0 }

/** First usable hint. With `exact` the first hint decides even when it is bad; else a bad one is skipped. */
const readHint = (policy: RecoveryPolicy, fault: Fault, tick: Tick): Hint => {
  for (const hint of fault.hints) {
    const millis = waitOf(hint, tick.wall)
    if (millis !== null) return { invalid: false, millis, grain: grainOf(hint) }
    if (policy.retryAfter === "exact") return { ...noHint, invalid: true }
  }
  return noHint
}

/** Where the hint stood that a retry on the same route passes over because it cannot be read; null = there is none. */
export const skippedHint = (policy: RecoveryPolicy, fault: Fault, wallMillis: number): string | null => {
  if (policy.retryAfter === "exact") return null
  const [first] = fault.hints
  return first === undefined || waitOf(first, wallMillis) !== null ? null : first.source
}

/** Most doublings of the spread on repeated rate limits (measured: more brings nothing). */
const maxDoublings = 5
/** Smallest range of the spread after a repeated hint in milliseconds, before it is doubled. */
const minSpread = 5_000
/** Largest range of the spread: after a reset in hours nobody comes back hours later for others' sake. */
const maxSpread = 600_000
/** Largest share of the time left after a hint that its spread may take: the rest is for the answer. */
const spreadShare = 0.5

/** How far random time on top of a hint may reach, so that clients that were told the same do not return together. */
export const rangeOf = (millis: number, repeats: number): number =>
  Math.min(
    maxSpread,
    repeats === 0 ? millis * firstShare(millis) : Math.max(minSpread, millis) * 2 ** Math.min(repeats, maxDoublings)
  )

/**
 * Range of the spread after a first hint, as a share of it. A short hint is kept nearly to the letter; in front of a long
 * one a crowd gathers, which needs about twice its time to be served. In between the share rises evenly.
 */
const firstShare = (millis: number): number => {
  const rise = Math.min(1, Math.max(0, millis / shortHintMillis - 1))
  return shortHintSpread + (longHintSpread - shortHintSpread) * rise
}
const shortHintSpread = 0.25
/** Reached at twice the length of a short hint. */
const longHintSpread = 2

/**
 * The range that leaves time for the answer. `room` is the time from the hint's end to the request's (null = no end);
 * `widest` is the range of an earlier wait: what was affordable then is not narrowed later, or waits would shrink and burn
 * the attempts that are left.
 */
export const spreadOf = (range: number, room: number | null, widest: number): number =>
  room === null ? range : Math.min(range, Math.max(0, spreadShare * room, widest))

const hasTimeFor = (state: RecoveryState, tick: Tick, delayMillis: number): boolean => {
  const end = endOf(state)
  return end === null || tick.now + delayMillis < end
}

interface Wait {
  readonly delayMillis: number
  readonly origin: WaitOrigin
  readonly spreadRange: number
}

/** A hint as it was told, and whether its route lets calls leave at a limiter's pace. */
interface Told {
  readonly millis: number
  readonly grain: number
  readonly isPaced: boolean
}

/** A wait that is longer than what was meant is a part of the spread already; half of the range stays. */
const narrowed = (range: number, grain: number): number => Math.max(range / 2, range - grain)

/** The hint itself is never shortened. One that was followed in vain before counts no less than the backoff. */
const hintWait = (policy: RecoveryPolicy, state: RecoveryState, { millis, grain, isPaced }: Told, tick: Tick): Wait => {
  if (policy.retryAfter === "exact") return { delayMillis: millis, origin: "hint", spreadRange: 0 }
  const end = endOf(state)
  const room = end === null ? null : end - tick.now - millis
  // Refused again after a wait: the crowd is no smaller than it was, however short the new hint. Where calls leave one
  // after the other there is no crowd.
  const range = isPaced
    ? narrowed(rangeOf(millis, 0), grain)
    : Math.max(narrowed(rangeOf(millis, state.rateLimits), grain), state.spreadRange)
  const spreadRange = spreadOf(range, room, state.spreadRange)
  const hinted = millis + tick.spread * spreadRange
  const backoff = state.hintsInVain > 0 ? (tick.backoffMillis ?? 0) : 0
  return backoff > hinted
    ? { delayMillis: backoff, origin: "backoff", spreadRange }
    : { delayMillis: hinted, origin: "hint", spreadRange }
}

/** Of a fragment whose tokens nobody has counted. */
const charsPerToken = 4

/** Repeats of what was thrown without a network code: a lost connection in a browser, or a mistake in a program. */
const maxUnnamed = 2

/** Whether a connection failed so often in a row that another try is none: nobody is there, or a program is wrong. */
const isHopeless = (policy: RecoveryPolicy, fault: Faulted, run: RecoveryState["run"]): boolean => {
  if (fault.kind !== "connection" || run === null) return false
  if (fault.unnamed === true) return run.count > maxUnnamed
  const limit = policy.unreachableAfter
  return limit !== null && fault.unanswered === true && isNowhereCode(fault.code) && run.count >= limit
}

/** A fault of the main conversation. */
export const onFault = (policy: RecoveryPolicy, before: RecoveryState, fault: Faulted, tick: Tick): Transition => {
  const run = countRun(before, runClassOf(policy, fault))
  const state: RecoveryState = { ...before, run }
  if (policy.shedOnOverload && run?.class === "overload") return fail(state, "Shed")
  if (!isRetryable(policy, fault)) return onGone(policy, state, fault, tick) ?? fail(state, "Passthrough")
  if (run?.class === "sample" && run.count > maxSamples) return fail(state, "Passthrough")
  if (isHopeless(policy, fault, run) && nextRoute(policy, state, run) === null) return fail(state, "Passthrough")
  if (policy.onCut === "fail" && (fault.delivered > 0 || fault.unfinishable)) return fail(state, "Passthrough")
  const shown = shownAfterFault(policy, state, fault)
  const keptTokens =
    shown === "resume" ? before.keptTokens + Math.ceil(fault.delivered / charsPerToken) : before.keptTokens
  return retry(policy, { ...state, keptTokens }, fault, tick, nextRoute(policy, state, run), shown)
}

/** A transient failure of a summary request waits like one of the main request and uses a retry; it is no attempt. */
export const onSummaryFault = (
  policy: RecoveryPolicy,
  state: RecoveryState,
  fault: SummaryFaulted,
  tick: Tick
): Transition => {
  if (!isRetryable(policy, fault)) return fail(state, "SummaryFailed")
  const next = retry(policy, state, fault, tick, null, "none")
  switch (next.action._tag) {
    case "Retry":
      return to(next.state, {
        _tag: "Compact",
        delayMillis: next.action.delayMillis,
        origin: next.action.origin,
        shown: "none"
      })
    case "Fail":
      return next.action.reason === "Attempts" ? fail(next.state, "SummaryFailed") : next
    default:
      return next
  }
}

/** Shortest and longest wait before the first switch of a request under route health: just enough to spread a crowd. */
const shortestSwitch = 50
const longestSwitch = 250

/** null = the backoff. Route health knows that the other route is well; a second switch waits like any retry. */
const switchWait = (policy: RecoveryPolicy, state: RecoveryState, target: number | null, tick: Tick): number | null =>
  target === null || policy.routeHealth === null || state.switched
    ? null
    : shortestSwitch + (longestSwitch - shortestSwitch) * tick.spread

/**
 * Index of the route that the request leaves for at once, because the breaker of its own has opened and another route
 * takes it: once, and where the way back is open, too.
 */
const wayOut = (policy: RecoveryPolicy, state: RecoveryState, fault: Fault): number | null =>
  fault._tag === "Faulted" &&
  !state.left &&
  policy.fallbackScope === "health" &&
  fault.other !== null &&
  !state.gone.includes(fault.other)
    ? fault.other
    : null

const leave = (policy: RecoveryPolicy, state: RecoveryState, other: number, shown: Shown): Transition =>
  to(
    { ...state, route: other, run: null, left: true },
    {
      _tag: "Fallback",
      delayMillis: 0,
      origin: "held",
      shown,
      from: routeAt(policy, state.route).model,
      to: routeAt(policy, other).model,
      why: "breaker"
    }
  )

/**
 * One more retry, or the end of them. The backoff step rises with every transient failure, also when a hint is used;
 * a retry that changes the route waits the normal backoff, since a hint speaks for its own route only.
 */
const retry = (
  policy: RecoveryPolicy,
  before: RecoveryState,
  fault: Fault,
  tick: Tick,
  target: number | null,
  shown: Shown
): Transition => {
  const transients = before.transients + 1
  const counted: RecoveryState = { ...before, transients }
  if (policy.maxAttempts !== null && transients >= policy.maxAttempts) return fail(counted, "Attempts")
  const other = target === null ? wayOut(policy, before, fault) : null
  if (other !== null && tick.backoffMillis !== null) return leave(policy, counted, other, shown)
  const hint = target === null ? readHint(policy, fault, tick) : noHint
  if (hint.invalid) return fail(counted, "InvalidRetryAfter")
  if (hint.millis === null && tick.backoffMillis === null) return fail(counted, "Attempts")
  if (hint.millis !== null && policy.resetCap !== null && hint.millis > policy.resetCap)
    return fail(counted, "Deadline", hint.millis)
  const wait: Wait =
    hint.millis === null
      ? {
          delayMillis: switchWait(policy, before, target, tick) ?? tick.backoffMillis ?? 0,
          origin: "backoff",
          spreadRange: before.spreadRange
        }
      : hintWait(
          policy,
          counted,
          { millis: hint.millis, grain: hint.grain, isPaced: fault._tag === "Faulted" && fault.paced === true },
          tick
        )
  const { delayMillis, origin, spreadRange } = wait
  if (!hasTimeFor(counted, tick, delayMillis))
    return fail(counted, "Deadline", origin === "hint" ? hint.millis : delayMillis)
  const isHinted = hint.millis !== null
  const state: RecoveryState = {
    ...counted,
    rateLimits: isHinted && fault.kind === "rate_limited" ? before.rateLimits + 1 : before.rateLimits,
    hintsInVain: isHinted ? before.hintsInVain + 1 : before.hintsInVain,
    spreadRange
  }
  return target === null
    ? to(state, { _tag: "Retry", delayMillis, origin, shown, why: fault.kind })
    : to(
        // A hint speaks for its own route.
        { ...state, route: target, run: null, switched: true, hintsInVain: 0 },
        {
          _tag: "Fallback",
          delayMillis,
          origin,
          shown,
          from: routeAt(policy, before.route).model,
          to: routeAt(policy, target).model,
          why: fault.kind
        }
      )
}
