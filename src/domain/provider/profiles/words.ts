/** Words that several providers share: finish reasons in their many spellings. */
import type { FaultKind } from "../../failure/FaultKind.ts"
import type { ProviderProfile } from "../ProviderProfile.ts"

type Reason = ProviderProfile["finishReasons"][string]

const all = <K>(kind: K, words: ReadonlyArray<string>): Readonly<Record<string, K>> =>
  Object.fromEntries(words.map((word) => [word, kind]))

/** Known spellings outside OpenAI's own list. */
export const finishReasons: Readonly<Record<string, Reason>> = {
  ...all<Reason>("stop", ["STOP", "eos", "eos_token", "EOS", "end_turn", "stop_sequence", "STOP_SEQUENCE", "COMPLETE"]),
  ...all<Reason>("stop", ["complete", "completed", "end", "stop_str", "FINISH_REASON_STOP"]),
  ...all<Reason>("length", ["max_tokens", "MAX_TOKENS", "max_new_tokens", "max_output_tokens", "LENGTH", "limit"]),
  ...all<Reason>("length", ["max_completion_tokens", "length_limit"]),
  ...all<Reason>("window_full", ["model_length", "model_context_window_exceeded", "ERROR_LIMIT", "context_length"]),
  ...all<Reason>("tool_calls", ["tool_use", "tool_call", "TOOL_CALL", "TOOL_CALLS", "tool_calls_stop"]),
  ...all<Reason>("content_filter", ["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"]),
  ...all<Reason>("content_filter", ["IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "ERROR_TOXIC"]),
  ...all<Reason>("content_filter", ["safety", "recitation", "blocklist", "prohibited_content", "sensitive"]),
  ...all<Reason>("content_filter", ["content_filtered", "guardrail_intervened", "CONTENT_FILTER", "MODEL_ARMOR"]),
  refusal: "refusal",
  pause_turn: "pause"
}

/** Finish reasons that are failures. */
export const finishFaults: Readonly<Record<string, FaultKind>> = {
  ...all<FaultKind>("server_error", ["error", "ERROR", "network_error", "abort", "server_error"]),
  ...all<FaultKind>("overloaded", ["insufficient_system_resource", "engine_overloaded"]),
  ...all<FaultKind>("timeout", ["TIMEOUT", "timeout", "deadline"]),
  ...all<FaultKind>("malformed_response", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS"]),
  ...all<FaultKind>("malformed_response", ["malformed_model_output", "malformed_tool_use", "MALFORMED_RESPONSE"])
}
