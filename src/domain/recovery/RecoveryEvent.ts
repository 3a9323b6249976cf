/**
 * What recovery tells while it works: one line of NDJSON each. Exactly one `Finished` per request, also on
 * interruption. Folding the `Transitioned` lines through `transition` gives the same actions: a log is a test case.
 * No message text, no key and no header value is in any event.
 */
import * as Schema from "effect/Schema"
import { Outcome } from "./Outcome.ts"
import { RecoveryAction } from "./RecoveryAction.ts"
import { RecoveryPolicy } from "./RecoveryPolicy.ts"
import { RecoveryState } from "./RecoveryState.ts"
import { Tick } from "./Tick.ts"
import { Count, Usage } from "../chat/Usage.ts"

/** In every event: our name of the request, and the instant. */
const of = {
  requestId: Schema.String,
  /** Wall clock, epoch milliseconds. */
  epochMs: Schema.Finite,
  /** Monotonic milliseconds since the request began. */
  elapsedMs: Schema.Finite
}
/** The provider's own id of an HTTP request; null = it gave none, or there was no request. */
const providerRequestId = Schema.NullOr(Schema.String)

export const RecoveryEvent = Schema.TaggedUnion({
  Started: { ...of, policy: RecoveryPolicy, state: RecoveryState },
  AttemptStarted: { ...of, attempt: Count, model: Schema.String, maxOutputTokens: Schema.NullOr(Count) },
  /** `providerRequestId` is that of the attempt, or of the summary, the outcome is about. */
  Transitioned: {
    ...of,
    outcome: Outcome,
    tick: Tick,
    action: RecoveryAction,
    state: RecoveryState,
    providerRequestId
  },
  /** A wait begins (in every preset), or goes on after a heartbeat. */
  Waiting: { ...of, remainingMs: Schema.Finite, attempt: Count, status: Schema.NullOr(Schema.Int) },
  ModelSwitched: { ...of, from: Schema.String, to: Schema.String },
  /** A partial reply was dropped or set aside. */
  AttemptReset: { ...of, attempt: Count },
  UsageSeen: {
    ...of,
    role: Schema.Literals(["main", "summarizer", "background"]),
    attempt: Schema.NullOr(Count),
    usage: Usage,
    /** False when the request ended without its final usage. */
    final: Schema.Boolean,
    /** USD; null = unknown. */
    costUsd: Schema.NullOr(Schema.Finite),
    providerRequestId
  },
  /** Token estimates of the window before and after a compaction. */
  Compacted: { ...of, before: Count, after: Count },
  /** The provider counted far fewer prompt tokens than were sent: a server cut the prompt silently. */
  PromptShrunk: { ...of, estimated: Count, reported: Count },
  /** `remainingMs` during a wait; absent while an attempt is in flight. */
  Heartbeat: { ...of, remainingMs: Schema.optionalKey(Schema.Finite), attempt: Count },
  /** A wait hint that was passed over because it cannot be read, as a sentence for a log; no text of a provider. */
  Noted: { ...of, note: Schema.String },
  /** `elapsedMs` is what the request has taken in all. */
  Finished: {
    ...of,
    attempts: Count,
    ok: Schema.Boolean,
    /** Tag of the failure; null = there is none: a reply, or a request that was taken back. */
    tag: Schema.NullOr(Schema.String),
    /** The caller took the request back. */
    cancelled: Schema.Boolean,
    /** USD of every HTTP request together; null = unknown for one of them. */
    costUsd: Schema.NullOr(Schema.Finite)
  }
})
export type RecoveryEvent = typeof RecoveryEvent.Type

type WithoutInstant<Event> = Event extends unknown ? Omit<Event, "epochMs" | "elapsedMs"> : never
/** An event before its instant is noted. */
export type Happening = WithoutInstant<RecoveryEvent>

/** One event as JSON; with `JSON.stringify` a line of a log. */
export const encode = Schema.encodeUnknownEffect(Schema.toCodecJson(RecoveryEvent))
