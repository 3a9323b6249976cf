/**
 * Whose answer it is, as far as headers and structure show it: for a suggestion where nobody named a profile. Never a message
 * text. The first row that fits speaks; rows of relays and hosts stand before those of the APIs they hand on.
 */
import { valueAt } from "../../../domain/provider/AnswerPlaces.ts"
import { parse } from "../../../domain/chat/json.ts"
import type { Pointer } from "../../../domain/provider/ProviderProfile.ts"
import * as Result from "effect/Result"
import type { AnswerCase } from "./answerCase.ts"

interface Sign {
  readonly profile: string
  /** Names of headers, or their beginnings. */
  readonly headers?: ReadonlyArray<string>
  /** Places that only this provider's bodies have. */
  readonly places?: ReadonlyArray<Pointer>
  /** A text at a place that begins so. */
  readonly texts?: ReadonlyArray<readonly [at: Pointer, start: string]>
}

const signs: ReadonlyArray<Sign> = [
  { profile: "litellm", headers: ["x-litellm-"] },
  { profile: "cloudflare", headers: ["cf-aig-"] },
  {
    profile: "openrouter",
    headers: ["x-generation-id"],
    places: ["/error/metadata/provider_name", "/openrouter_metadata"]
  },
  { profile: "azure", headers: ["apim-request-id", "azureml-model-session", "x-ms-region"] },
  {
    profile: "bedrock",
    headers: ["x-amzn-errortype", "x-amzn-bedrock-", "x-amzn-requestid"],
    places: ["/messageStop/stopReason"]
  },
  { profile: "groq", headers: ["x-groq-"], places: ["/x_groq"] },
  {
    profile: "anthropic",
    headers: ["anthropic-"],
    texts: [
      ["/request_id", "req_011"],
      ["/type", "message_"]
    ],
    places: ["/stop_reason"]
  },
  {
    profile: "gemini",
    headers: ["x-goog-"],
    places: ["/candidates", "/promptFeedback", "/usageMetadata"],
    texts: [["/error/details/0/@type", "type.googleapis.com/"]]
  },
  { profile: "dashscope", headers: ["x-dashscope-"], places: ["/output/choices"] },
  { profile: "minimax", places: ["/base_resp/status_code"] },
  { profile: "ollama", places: ["/done_reason"] },
  {
    profile: "openai",
    headers: ["openai-"],
    texts: [
      ["/object", "response"],
      ["/type", "response."]
    ]
  }
]

/** The body, or what the events of a stream hold. */
const bodiesOf = ({ body, sse }: AnswerCase): ReadonlyArray<unknown> =>
  sse === null
    ? [body]
    : sse
        .split(/\r\n|\n|\r/)
        .filter((line) => line.startsWith("data:"))
        .map((line) => parse(line.slice("data:".length)))
        .flatMap((payload) => (Result.isSuccess(payload) ? [payload.success] : []))

const fits = (
  { headers = [], places = [], texts = [] }: Sign,
  names: ReadonlyArray<string>,
  bodies: ReadonlyArray<unknown>
) =>
  headers.some((start) => names.some((name) => name.startsWith(start))) ||
  bodies.some(
    (body) =>
      places.some((place) => valueAt(body, place) !== undefined) ||
      texts.some(([place, start]) => String(valueAt(body, place) ?? "").startsWith(start))
  )

/** Name of the profile that an answer shows; null = it shows none. */
export const profileShown = (given: AnswerCase): string | null => {
  const names = Object.keys(given.headers)
  const bodies = bodiesOf(given)
  return signs.find((sign) => fits(sign, names, bodies))?.profile ?? null
}
