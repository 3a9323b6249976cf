/**
 * Replies in a provider's own format, as far as telling how they ended goes. Our adapters never meet them; `explain`
 * does, since people paste what they have. Structure only, as everywhere.
 */
import { valueAt } from "../../../domain/provider/AnswerPlaces.ts"
import { finishReasonOf } from "../../../domain/provider/classify.ts"
import type { FinishReason } from "../../../domain/chat/ModelReply.ts"
import { generic } from "../../../domain/provider/profiles/generic.ts"
import type { Pointer, ProviderProfile } from "../../../domain/provider/ProviderProfile.ts"

/** Places of a stop reason outside chat completions: Anthropic, Gemini, Bedrock, Cohere, Responses, DashScope, Ollama. */
const stopPlaces: ReadonlyArray<Pointer> = [
  "/stop_reason",
  "/delta/stop_reason",
  "/candidates/0/finishReason",
  "/stopReason",
  "/messageStop/stopReason",
  "/incomplete_details/reason",
  "/response/incomplete_details/reason",
  "/response/status",
  "/output/choices/0/finish_reason",
  "/output/finish_reason",
  "/finish_reason",
  "/delta/finish_reason",
  "/done_reason"
]

/** Keys that only native answers and events have at their top. */
const markers: ReadonlyArray<Pointer> = [
  "/candidates",
  "/promptFeedback",
  "/usageMetadata",
  "/output",
  "/contentBlockDelta",
  "/contentBlockStart",
  "/contentBlockStop",
  "/messageStart",
  "/messageStop",
  "/stop_reason",
  "/stopReason",
  "/done_reason",
  "/done"
]

/** Names of events in native streams, by their beginning. */
const eventNames = ["message_", "content_block_", "response.", "message-", "content-", "ping"]

/** A reply of the Responses API, which an adapter of ours reads. */
export const isResponse = (body: unknown): boolean => valueAt(body, "/object") === "response"

/** An event of its streams. */
export const isResponseEvent = (event: unknown): boolean =>
  String(valueAt(event, "/type") ?? "").startsWith("response.")

/** Whether a body or an event is in a native format. */
export const isNative = (body: unknown): boolean => {
  if (Array.isArray(valueAt(body, "/choices"))) return false
  const type = valueAt(body, "/type")
  if (type === "message" || (typeof type === "string" && eventNames.some((name) => type.startsWith(name)))) return true
  return isResponse(body) || markers.some((place) => valueAt(body, place) !== undefined)
}

/** How a native body or event says that the reply ended: null = it does not; "unknown" = in a word nobody knows. */
export const nativeFinish = (profile: ProviderProfile, body: unknown): FinishReason | "unknown" | null => {
  // A blocked prompt has no reply; the reason is one of many words, all of the same filter.
  if (typeof valueAt(body, "/promptFeedback/blockReason") === "string") return "content_filter"
  for (const place of stopPlaces) {
    const word = valueAt(body, place)
    if (typeof word !== "string" || word === "" || word === "in_progress" || word === "queued") continue
    if (word === "incomplete") continue
    return finishReasonOf(profile, word) ?? finishReasonOf(generic, word) ?? "unknown"
  }
  return isResponse(body) && valueAt(body, "/status") === "completed" ? "stop" : null
}

/** The stop word itself, for its failures (`error`, `TIMEOUT`). */
export const nativeStopWord = (body: unknown): string | null => {
  for (const place of stopPlaces) {
    const word = valueAt(body, place)
    if (typeof word === "string" && word !== "") return word
  }
  return null
}
