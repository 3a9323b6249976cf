/** What one recorded answer means: its kind, its wait hints, what the machine does next, and what a person can do. */
import type { FinishReason } from "../../../domain/chat/ModelReply.ts"
import { inBandStatus } from "../../../domain/failure/FaultKind.ts"
import { guidanceFor, guidanceForValue } from "../../../domain/failure/Guidance.ts"
import { waitOf, type HintReading } from "../../../domain/failure/Hint.ts"
import { makeModelError } from "../../../domain/failure/ModelError.ts"
import type { ReplyValue } from "../../../domain/failure/words.ts"
import { classifyAnswer, type Verdict } from "../../../domain/provider/classify.ts"
import { generic } from "../../../domain/provider/profiles/generic.ts"
import { profileNamed } from "../../../domain/provider/Profiles.ts"
import type { ProviderProfile } from "../../../domain/provider/ProviderProfile.ts"
import { parseRetryAfter } from "../../../domain/provider/RetryAfter.ts"
import type { Ended } from "../../../domain/recovery/outcomeOf.ts"
import type { Flaw } from "../../../domain/wires/wireReply.ts"
import type { AnswerCase } from "./answerCase.ts"
import { isRetried, nextOf, type Next } from "./nextOf.ts"
import { profileShown } from "./profileShown.ts"
import { readAnswer, warningsOf, type Reading } from "./readAnswer.ts"

export interface Explanation {
  readonly id: string
  readonly kind: string
  readonly code: string | null
  readonly retryAfterSeconds: number | null | "invalid"
  readonly hintSeconds: number | null
  readonly hintSource: string | null
  /** Where the wait that a retry keeps comes from; null = no hint can be read, or nobody retries. */
  readonly obeyed: string | null
  /** What the machine does next, by preset. */
  readonly next: Next
  readonly retryable: { readonly strict: boolean; readonly broad: boolean }
  readonly error: string | null
  readonly profile: string
  readonly guidance: string
  /** What the reading had to assume. */
  readonly notes: ReadonlyArray<string>
}

const retryAfterOf = (given: AnswerCase, serverEpochMillis: number | null): number | null | "invalid" => {
  const raw = given.headers["retry-after"]
  if (raw === undefined) return null
  const value = parseRetryAfter(raw)
  if (value._tag === "Invalid") return "invalid"
  const hint: HintReading =
    value._tag === "Delay"
      ? { ...value, source: "retry-after" }
      : { ...value, source: "retry-after", serverEpochMillis }
  return (waitOf(hint, given.wallMillis) ?? 0) / 1000
}

const notesOf = (profile: ProviderProfile, given: AnswerCase): ReadonlyArray<string> => [
  ...(given.isBare === true
    ? ["the status is not known: only codes in the body were read, and strict goes by the status"]
    : []),
  ...(given.provider !== null && profileNamed(given.provider) === null && profile.name === generic.name
    ? [`there is no profile ${JSON.stringify(given.provider)}: read as ${generic.name}`]
    : [])
]

const valueOf = (reason: FinishReason): ReplyValue => {
  switch (reason) {
    case "length":
    case "window_full":
      return "output_truncated"
    case "content_filter":
      return "content_filtered"
    case "refusal":
      return "refusal"
    default:
      return "ok"
  }
}

/** What every explanation says, whatever the answer is. */
const commonOf = (profile: ProviderProfile, given: AnswerCase, hints: ReadonlyArray<HintReading>) => {
  const hint = hints.find(({ source, _tag }) => source !== "retry-after" && _tag !== "Invalid")
  const dated = classifyAnswer(profile, given).hints.find((one) => one._tag === "At")
  const wait = hint === undefined ? null : waitOf(hint, given.wallMillis)
  return {
    id: given.id,
    retryAfterSeconds: retryAfterOf(given, dated?._tag === "At" ? dated.serverEpochMillis : null),
    hintSeconds: wait === null ? null : wait / 1000,
    hintSource: hint?.source ?? null,
    profile: profile.name,
    notes: notesOf(profile, given)
  }
}

const retryableIn = (next: Next) => ({ strict: isRetried(next.strict), broad: isRetried(next.broad) })

const explainValue = (
  profile: ProviderProfile,
  given: AnswerCase,
  ended: Ended,
  seen: Reading["seen"]
): Explanation => {
  const kind = ended.refusal === null ? valueOf(ended.finishReason) : "refusal"
  const next = nextOf({ result: ended, seen, streaming: given.sse !== null, wallMillis: given.wallMillis })
  return {
    ...commonOf(profile, given, []),
    obeyed: null,
    kind,
    code: null,
    next,
    retryable: retryableIn(next),
    error: null,
    guidance: guidanceForValue(kind)
  }
}

/** What is malformed to the letter, and read all the same by recovery. */
const readAllTheSame = (profile: ProviderProfile, given: AnswerCase): ReadonlyArray<string> => {
  const warnings = warningsOf(profile, given)
  if (warnings === null) return []
  const told = warnings.length === 0 ? "" : `, and warns: ${warnings.join(" ")}`
  return [`recovery reads this answer as a reply under the profile ${profile.name}${told}`]
}

const explainFault = (
  profile: ProviderProfile,
  given: AnswerCase,
  fault: Verdict | Flaw,
  seen: Reading["seen"]
): Explanation => {
  const isOk = given.status >= 200 && given.status <= 299
  const { kind, code } = fault
  const verdict = "hints" in fault ? fault : null
  const hints = verdict?.hints ?? []
  const status = kind === "interrupted" ? null : isOk ? inBandStatus : given.status
  const error = makeModelError({
    kind,
    status,
    code,
    param: verdict?.param ?? null,
    hints,
    shouldRetry: verdict?.shouldRetry ?? null,
    resetAt: verdict?.resetAt ?? null
  })
  const next = nextOf({ result: error, seen, streaming: given.sse !== null, wallMillis: given.wallMillis })
  const retryable = retryableIn(next)
  // The order of the hints is their authority; strict fails on a bad one instead of going on to the next.
  const obeyed = hints.find((one) => waitOf(one, given.wallMillis) !== null)
  const common = commonOf(profile, given, hints)
  return {
    ...common,
    notes: kind === "malformed_response" ? [...common.notes, ...readAllTheSame(profile, given)] : common.notes,
    kind: kind === "interrupted" || kind === "empty_reply" ? "malformed_response" : kind,
    code,
    obeyed: retryable.strict || retryable.broad ? (obeyed?.source ?? null) : null,
    next,
    retryable,
    error: error._tag,
    guidance: guidanceFor({
      kind,
      code,
      param: error.param,
      status,
      resetAtEpochMillis: error.resetAt,
      inBand: isOk
    })
  }
}

/** Everything about one answer. Reads structure only. */
export const explainAnswer = (profile: ProviderProfile, given: AnswerCase): Explanation => {
  const { found, seen } = readAnswer(profile, given)
  return "finishReason" in found ? explainValue(profile, given, found, seen) : explainFault(profile, given, found, seen)
}

/** The same where nobody named a profile: with the one that the answer shows, and what it is there, as a note. */
export const explainUnnamed = (given: AnswerCase): Explanation => {
  const plain = explainAnswer(generic, given)
  const shown = profileNamed(profileShown(given) ?? generic.name) ?? generic
  if (shown.name === generic.name) return plain
  const there = explainAnswer(shown, given)
  const word = there.code === null ? there.kind : `${there.kind} (${there.code})`
  const note = `this looks like an answer of ${shown.name}: with --profile ${shown.name} it is ${word}`
  return { ...plain, notes: [...plain.notes, note] }
}
