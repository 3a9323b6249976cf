/** One sentence per failure that a user can act on. A pure table: never reads a provider's words. */
import type { FaultKind } from "./FaultKind.ts"
import type { FailReason } from "./RecoveryAction.ts"

export interface Situation {
  readonly kind: FaultKind
  readonly code: string | null
  readonly status: number | null
  /** Epoch milliseconds of a known reset; null = unknown. */
  readonly resetAtEpochMillis: number | null
  readonly inBand: boolean
}

const table: Readonly<Record<FaultKind, string>> = {
  rate_limited:
    "The provider limits how often this key may ask. Wait a moment, lower the rate, or use a preset that waits longer.",
  quota_exhausted:
    "The quota or credit of this account is used up. Add credit, raise the limit, or use another key; trying again now does not help.",
  overloaded: "The provider has too much to do. Try again in a few minutes, or add a fallback model.",
  prompt_too_long:
    "The input does not fit the model's window. Shorten it, switch compaction on, or use a model with a larger window.",
  server_error: "The provider failed. Try again in a few minutes; if it stays, look at the provider's status page.",
  timeout: "No answer came in time. Try again, allow more time, or add a fallback model.",
  connection: "The provider could not be reached. Check the network, the proxy and the base URL.",
  interrupted: "The answer broke off on the way. Try again; a preset other than strict repeats it by itself.",
  auth: "The key is missing, wrong or revoked. Check the key and which provider it belongs to.",
  permission: "This key may not use this model or feature. Ask the owner of the organisation, or use another model.",
  not_found: "The model or address does not exist. Check the model's name and the base URL.",
  invalid_request:
    "The provider does not accept the request as it is. The code and the provider's message name the field to change.",
  payload_too_large: "The request body is too large for the server. Send less, or smaller attachments.",
  content_filtered: "A content filter refused the request. Change the content; trying again does not help.",
  malformed_response:
    "The answer is not a valid reply. Check that the base URL is an API and not a login or proxy page.",
  empty_reply: "The provider sent an empty reply. Try again; a preset other than strict repeats it by itself."
}

export const guidanceFor = (situation: Situation): string => table[situation.kind]

const reasons: { readonly [K in FailReason]?: string } = {
  Attempts:
    "All retries are used up. Try again in a few minutes, add a fallback model, or use the preset unattended, which keeps waiting.",
  Continuations:
    "The reply is longer than the budget and its continuations. `partial` holds the text so far: ask for the rest, or raise escalatedMaxTokens or maxContinuations.",
  SmallGain: "The continuations brought almost nothing. `partial` holds the text so far; ask for smaller pieces.",
  TruncatedToolCall:
    "A tool call was cut by the output budget and was not run. Raise escalatedMaxTokens, or ask for smaller tool arguments.",
  EmptyFragment:
    "The whole output budget went into invisible text. Raise escalatedMaxTokens, or lower the reasoning effort.",
  InvalidRetryAfter:
    "The provider sent a wait hint that cannot be read. Try again later, or use the preset broad, which skips such hints.",
  Deadline: "The time for this request is used up. Try again at `retryAt` if it is set, or allow a longer deadline.",
  StillTooLong:
    "The input is too long even after compaction. Remove large messages, or use a model with a larger window.",
  NothingToCompact:
    "The input is too long and there is nothing old to summarise. Shorten the last messages, or use a model with a larger window.",
  SummaryFailed:
    "The input is too long and the summary failed; the history is untouched. Try again, or shorten the history yourself.",
  NotSmaller: "The input is too long and the summary was not shorter; the history is untouched. Remove large messages.",
  Budget: "The budget of this session is used up. The finished work is kept; raise the limit to go on."
}

/** Guidance for what recovery gave up on. */
export const guidanceForReason = (reason: FailReason): string => reasons[reason] ?? "Try again later."

/** What a reply can be besides a failure. */
export type ReplyValue = "ok" | "output_truncated" | "refusal" | "content_filtered"

const values: Readonly<Record<ReplyValue, string>> = {
  ok: "The answer is complete. Nothing to do.",
  output_truncated:
    "The reply was cut by the output budget. holdfast raises the budget once and then lets the model continue; by hand: raise max_tokens, or ask for the rest.",
  refusal: "The model declined to answer. Trying the same again rarely helps; change the request.",
  content_filtered: "A content filter stopped the reply. Change the content; trying again does not help."
}

/** Guidance for a reply that is a value. */
export const guidanceForValue = (value: ReplyValue): string => values[value]
