/** A log of events folded through the machine: the same outcomes and ticks must lead to the same actions. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { isObject, parse } from "../../../domain/chat/json.ts"
import { canonical } from "../../../domain/agent/CanonicalJson.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { Outcome } from "../../../domain/recovery/Outcome.ts"
import { RecoveryAction } from "../../../domain/recovery/RecoveryAction.ts"
import { transition } from "../../../domain/recovery/RecoveryMachine.ts"
import { RecoveryPolicy } from "../../../domain/recovery/RecoveryPolicy.ts"
import { RecoveryState } from "../../../domain/recovery/RecoveryState.ts"
import { Tick } from "../../../domain/recovery/Tick.ts"

const Started = Schema.Struct({
  _tag: Schema.Literal("Started"),
  requestId: Schema.String,
  policy: RecoveryPolicy,
  state: RecoveryState
})
const Transitioned = Schema.Struct({
  _tag: Schema.Literal("Transitioned"),
  requestId: Schema.String,
  outcome: Outcome,
  tick: Tick,
  action: RecoveryAction,
  state: RecoveryState
})

export interface ReplayStep {
  readonly requestId: string
  readonly outcome: Outcome
  readonly decided: RecoveryAction
  readonly recorded: RecoveryAction
  /** Action and state are the recorded ones. */
  readonly isSame: boolean
}

export interface Replayed {
  readonly steps: ReadonlyArray<ReplayStep>
  /** Logical requests whose Started event is in the log; 0 = the text is no log of recovery events. */
  readonly requests: number
}

const decodeStarted = Schema.decodeUnknownResult(Schema.toCodecJson(Started))
const decodeTransitioned = Schema.decodeUnknownResult(Schema.toCodecJson(Transitioned))

const encodePolicy = Schema.encodeUnknownResult(Schema.toCodecJson(RecoveryPolicy))

/** Fields that an earlier version's policy did not have are as when nobody sets them. */
const completed = (event: unknown): unknown => {
  const policy: unknown = isObject(event) ? event["policy"] : undefined
  if (!isObject(policy)) return event
  const unset = encodePolicy(new RecoveryPolicy({ routes: [{ model: "any" }] }))
  return Result.isSuccess(unset) && isObject(unset.success)
    ? { ...(isObject(event) ? event : {}), policy: { ...unset.success, ...policy } }
    : event
}

const bad = (line: number, reason: string): ConfigurationError =>
  new ConfigurationError({ field: `line ${line}`, reason })

const tagOf = (value: unknown): string | null =>
  typeof value === "object" && value !== null && "_tag" in value && typeof value._tag === "string" ? value._tag : null

/** The state as far as the log has it: what an earlier version did not count was not recorded. */
const asRecorded = (state: RecoveryState, event: unknown): unknown => {
  const recorded = isObject(event) ? event["state"] : undefined
  return isObject(recorded)
    ? Object.fromEntries(Object.entries(state).filter(([name]) => Object.hasOwn(recorded, name)))
    : state
}

/**
 * The lines of a log. A last one without its line break that only begins as JSON was cut off while it was written: it is left out.
 */
const linesOf = (text: string): ReadonlyArray<string> => {
  const lines = text.split("\n")
  const last = lines.at(-1) ?? ""
  return last.startsWith("{") && Result.isFailure(parse(last)) ? lines.slice(0, -1) : lines
}

/**
 * Lines of several requests may be mixed. A line that cannot be read throws a ConfigurationError that names it; only the
 * last one may be cut.
 */
export const replayLog = (text: string): Replayed => {
  const requests = new Map<string, { readonly policy: RecoveryPolicy; state: RecoveryState }>()
  const steps: Array<ReplayStep> = []
  for (const [index, line] of linesOf(text).entries()) {
    if (line.trim() === "") continue
    const json = parse(line)
    if (Result.isFailure(json)) throw bad(index + 1, "is not JSON")
    const tag = tagOf(json.success)
    if (tag === null) throw bad(index + 1, "is not an event: it has no _tag")
    if (tag === "Started") {
      const started = decodeStarted(completed(json.success))
      if (Result.isFailure(started)) throw bad(index + 1, "is not a Started event this version can read")
      requests.set(started.success.requestId, { policy: started.success.policy, state: started.success.state })
    }
    if (tag !== "Transitioned") continue
    const found = decodeTransitioned(json.success)
    if (Result.isFailure(found)) throw bad(index + 1, "is not a Transitioned event this version can read")
    const event = found.success
    const request = requests.get(event.requestId)
    if (request === undefined) throw bad(index + 1, `belongs to ${event.requestId}, whose Started event is missing`)
    const next = transition(request.policy, request.state, event.outcome, event.tick)
    steps.push({
      requestId: event.requestId,
      outcome: event.outcome,
      decided: next.action,
      recorded: event.action,
      isSame:
        canonical(next.action) === canonical(event.action) &&
        canonical(asRecorded(next.state, json.success)) === canonical(asRecorded(event.state, json.success))
    })
    request.state = next.state
  }
  return { steps, requests: requests.size }
}
