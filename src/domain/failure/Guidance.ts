/** One sentence per failure that a user can act on. A pure table: never reads a provider's words. */
import type { FaultKind } from "./FaultKind.ts"
import type { FailReason } from "./FailReason.ts"
import { refusedPart } from "./RefusedPart.ts"
import { instantText, spanText } from "./wording.ts"
import { codeWords, faultWords, reasonWords, replyWords, type ReplyValue } from "./words.ts"

export interface Situation {
  readonly kind: FaultKind
  readonly code: string | null
  /** The refused field, by name; left out or null = none is named. */
  readonly param?: string | null
  /** Host and port that never answered; left out or null = not known. */
  readonly address?: string | null
  readonly status: number | null
  /** Epoch milliseconds of a known reset; null = unknown. */
  readonly resetAtEpochMillis: number | null
  readonly inBand: boolean
}

/** What a field of a request must be, by its path without indices. */
const requirements: Readonly<Record<string, string>> = {
  request: "must be an object with `messages`",
  messages: "must be a list of messages",
  "messages[]": "must be an object with `role` and `content`",
  "messages[].role": "must be system, developer, user, assistant or tool",
  "messages[].content": "must be a text or a list of parts; only an assistant may leave it out",
  "messages[].content[]": "must be an object with a `type`",
  "messages[].tool_call_id": "must be the id of the call it answers",
  "messages[].tool_calls": "must be a list of tool calls",
  "messages[].tool_calls[]": "must have an `id` and a `function` with `name` and `arguments`, all of them texts",
  tools: "must be a list of tools",
  "tools[]": "must have the type function and a `function` with a `name`",
  maxOutputTokens: "must be a whole number from 1",
  priority: "must be foreground or background",
  params: "must be an object: further fields of the provider's request body",
  "params.model": "belongs to the policy: name the model in `routes`",
  "params.messages": "belongs beside `params`: give `messages`",
  "params.stream": "is set by holdfast: call `stream` or `complete`",
  "params.n": "must be 1 or absent: one request has one reply",
  "params.functions": "is the legacy form of tools: give `tools`",
  "params.max_tokens": "is set by holdfast: give `maxOutputTokens`",
  "params.max_completion_tokens": "is set by holdfast: give `maxOutputTokens`"
}

const hasHints = (kind: FaultKind, code: string): boolean =>
  codeWords[kind]?.some(([, codes]) => codes.includes(code)) === true

/** Fields of a request's top that are called something else here. */
const otherNames: Readonly<Record<string, string>> = {
  model: "belongs to the policy: name the model in `routes`",
  stream: "is set by holdfast: call `stream` or `complete`",
  max_tokens: "is set by holdfast: give `maxOutputTokens`",
  max_completion_tokens: "is set by holdfast: give `maxOutputTokens`",
  max_output_tokens: "is set by holdfast: give `maxOutputTokens`",
  maxTokens: "is set by holdfast: give `maxOutputTokens`",
  system: "belongs into `messages`: a message with the role system comes first",
  input: "is called `messages` here",
  prompt: "is called `messages` here",
  signal: "belongs into the options of the call, beside the request",
  deadline: "belongs into the options of the call, beside the request",
  policy: "belongs into the options of the call, beside the request"
}

/** A name at the top of a request that holdfast does not read. */
const unknownFieldGuidance = (code: string): string | null => {
  if (!/^[A-Za-z_$][\w$-]*$/.test(code) || hasHints("invalid_request", code)) return null
  const other = Object.hasOwn(otherNames, code) ? otherNames[code] : undefined
  return other ?? "belongs into `params`: further fields of the provider's request body"
}

/** For a request that was refused before it was sent, whose code is the path of a field; null = another refusal. */
const fieldGuidance = ({ kind, code, status }: Situation): string | null => {
  if (kind !== "invalid_request" || status !== null || code === null) return null
  const path = code.replaceAll(/\[\d+\]/g, "[]")
  const requirement = (Object.hasOwn(requirements, path) ? requirements[path] : undefined) ?? unknownFieldGuidance(code)
  return requirement === null ? null : `Nothing was sent. \`${code}\` ${requirement}.`
}

const budgetRefused =
  "The provider refuses the output budget. Lower `initialMaxTokens`, give the route's `outputLimit`, or choose the budget's wire name with `budgetParam`."

/** A refusal that names a field nobody but the policy sets; null = another. */
const settingGuidance = ({ kind, param }: Situation): string | null =>
  kind === "invalid_request" && refusedPart(param ?? null) === "budget" ? budgetRefused : null

/** An address that nobody has ever answered at is most likely the wrong one. */
const addressGuidance = ({ kind, address = null }: Situation): string | null =>
  kind === "connection" && address !== null
    ? `Nothing has ever answered at ${address}: check the base URL, its port, the network and the proxy.`
    : null

const sentenceOf = (situation: Situation): string =>
  fieldGuidance(situation) ?? addressGuidance(situation) ?? settingGuidance(situation) ?? codeGuidance(situation)

const codeGuidance = ({ kind, code }: Situation): string =>
  (code === null ? undefined : codeWords[kind]?.find(([, codes]) => codes.includes(code))?.[0]) ??
  faultWords[kind].advice

/** What happened, as the beginning of a message. */
export const saidOf = (kind: FaultKind, status: number | null): string =>
  kind === "invalid_request" && status === null ? "the request cannot be sent as it is" : faultWords[kind].said

/** What happened and what to do; with a known reset also when it makes sense to try again. */
export const guidanceFor = (situation: Situation): string => {
  const reset = instantText(situation.resetAtEpochMillis)
  return reset === null ? sentenceOf(situation) : `${sentenceOf(situation)} It is full again at ${reset}.`
}

/** Guidance for what recovery gave up on. */
export const guidanceForReason = (reason: FailReason): string => reasonWords[reason].advice

/** What the time of a request went into. */
export interface TimeSpent {
  /** Epoch milliseconds from which another try makes sense; null = unknown. */
  readonly retryAt: number | null
  /** The last failure; null = nothing had failed. */
  readonly last: { readonly kind: FaultKind; readonly status: number | null } | null
  /** Silence of the provider that used up the time, and the field of the policy that would have ended it; null = none did. */
  readonly silence: { readonly millis: number; readonly field: string } | null
}

/** Guidance when the time is used up: when to come back, what failed last, and which timer ends such a silence. */
export const guidanceForDeadline = ({ retryAt, last, silence }: TimeSpent): string => {
  const instant = instantText(retryAt)
  const answered = last === null || last.status === null ? "no answer" : `HTTP ${last.status}`
  return [
    instant === null
      ? reasonWords.Deadline.advice
      : `The wait does not fit into the time for this request. Try again from ${instant} on, or allow a longer deadline.`,
    ...(last === null ? [] : [`Last cause: ${last.kind} (${answered}).`]),
    ...(silence === null
      ? []
      : [
          `${spanText(silence.millis)} of the time went in silence: a shorter \`${silence.field}\` leaves time for another try.`
        ])
  ].join(" ")
}

/** Guidance for a reply that is a value. */
export const guidanceForValue = (value: ReplyValue): string => replyWords[value]
