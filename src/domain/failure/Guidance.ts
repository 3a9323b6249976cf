/** One sentence per failure that a user can act on. A pure table: never reads a provider's words. */
import type { FaultKind } from "./FaultKind.ts"
import type { FailReason } from "./FailReason.ts"
import { refusedPart } from "./RefusedPart.ts"
import { instantText } from "./wording.ts"

export interface Situation {
  readonly kind: FaultKind
  readonly code: string | null
  /** The refused field, by name; left out or null = none is named. */
  readonly param?: string | null
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
    "The provider does not accept the request as it is. Its code, and its own words in `providerMessage`, name the field to change.",
  payload_too_large: "The request body is too large for the server. Send less, or smaller attachments.",
  content_filtered: "A content filter refused the request. Change the content; trying again does not help.",
  malformed_response:
    "The answer is not a valid reply. Check that the base URL is an API and not a login or proxy page.",
  empty_reply: "The provider sent an empty reply. Try again; a preset other than strict repeats it by itself."
}

type Hints = readonly [sentence: string, codes: ReadonlyArray<string>]

/** Codes that tell more than their kind, in the words of several providers. The first that knows the code speaks. */
const byCode: { readonly [K in FaultKind]?: ReadonlyArray<Hints> } = {
  quota_exhausted: [
    [
      "The account's balance or credit is used up. Top it up, or use another key; trying again before that does not help.",
      ["credit_balance_exhausted", "billing_error", "openrouter_credits", "credit_limit", "payment_required", "1113"]
    ],
    [
      "The account's balance or credit is used up. Top it up, or use another key; trying again before that does not help.",
      ["insufficient_balance", "insufficient_balance_error", "Arrearage", "AccountOverdueError", "30001", "1008"]
    ],
    [
      "A spending limit is reached. Its owner can raise it in the provider's console; trying again before that does not help.",
      ["project_spend_limit_exceeded", "organization_spend_limit_exceeded", "billing_hard_limit_reached"]
    ],
    [
      "A spending limit is reached. Its owner can raise it in the provider's console; trying again before that does not help.",
      ["budget_exceeded", "openrouter_key_limit", "SetLimitExceeded", "personal-team-blocked:spending-limit"]
    ],
    [
      "The free allowance of the day is used up. It comes back tomorrow; a paid plan or another key works at once.",
      ["openrouter_free_tier_daily", "AllocationQuota.FreeTierOnly", "3036", "1304"]
    ],
    [
      "The usage limit of this plan is reached. Wait for its next period, or use a larger plan or another key.",
      ["organization_usage_limit_exceeded", "quota_exceeded", "1308", "1309", "1310", "2056"]
    ]
  ],
  auth: [
    ["The key is not one the provider knows. Copy it again, whole, from the provider's console.", ["invalid_api_key"]],
    [
      "The key is not one the provider knows. Copy it again, whole, from the provider's console.",
      ["InvalidApiKey", "wrong_api_key", "incorrect_api_key_error", "API_KEY_INVALID", "1002", "2049"]
    ],
    [
      "The key has expired or was revoked. Make a new one in the provider's console.",
      ["expired_key", "API_KEY_EXPIRED", "ExpiredTokenException", "key_revoked", "1003", "api_key_revoked"]
    ],
    [
      "The account or organisation of this key is closed. Ask its owner or the provider's support; another key works at once.",
      ["account_deactivated", "organization_disabled", "organization_deactivated", "account_disabled"]
    ]
  ],
  permission: [
    [
      "The account or organisation of this key is suspended. Ask its owner or the provider's support; another key works at once.",
      ["CONSUMER_SUSPENDED", "organization_disabled", "account_deactivated", "account_suspended", "5018", "1112"]
    ],
    [
      "The provider does not serve this country or region. Use a provider that does.",
      ["unsupported_country_region_territory"]
    ],
    [
      "The feature or model is not part of this plan or not switched on. Switch it on in the console, or use another model.",
      ["SERVICE_DISABLED", "key_model_access_denied", "team_model_access_denied", "Model.AccessDenied", "1311", "2061"]
    ]
  ],
  not_found: [
    [
      "No model of this name is served here. Check the spelling and whether the model was retired; `holdfast config` shows the name in use.",
      [
        "model_not_found",
        "ModelNotFound",
        "model_decommissioned",
        "model_not_supported",
        "invalid_model",
        "1211",
        "5007"
      ]
    ],
    ["No deployment has this name. Use the deployment's name in place of the model's.", ["DeploymentNotFound"]]
  ],
  invalid_request: [
    [
      "Nothing was sent. In `messages` a tool call lacks its result, or a result its call; the result stands right behind the call.",
      ["unpaired_tool_calls"]
    ],
    [
      "The request could not be built and was not sent. Check the headers and parameters: a value that no header or no JSON can carry.",
      ["request_not_built"]
    ],
    [
      "An image cannot be read or is too large. Make it smaller (under 5 MB, under 8,000 pixels a side) or save it in another format.",
      ["image_too_large", "invalid_image", "invalid_image_format", "image_parse_error", "invalid_image_url"]
    ],
    [
      "An image cannot be read or is too large. Make it smaller (under 5 MB, under 8,000 pixels a side) or save it in another format.",
      ["image_dimensions_too_large", "unsupported_image_media_type", "image_file_too_large"]
    ],
    [
      "A document cannot be read. Check that it is whole, not protected by a password and within the provider's page limit.",
      [
        "invalid_pdf",
        "invalid_document",
        "document_too_large",
        "too_many_pages",
        "pdf_password_protected",
        "invalid_file"
      ]
    ],
    [
      "The model broke the format of a tool call. Try again; simpler tools or another model help if it stays.",
      ["tool_use_failed"]
    ]
  ],
  payload_too_large: [
    [
      "The request is over the provider's size limit, most often because of images or documents. Send fewer or smaller ones.",
      ["request_too_large"]
    ]
  ],
  rate_limited: [
    [
      "The tokens of a minute are used up. Wait a moment, send shorter requests, or fewer at a time.",
      ["tokens", "token_quota_exceeded", "GenerateContentInputTokensPerModelPerMinute-FreeTier"]
    ]
  ],
  overloaded: [
    [
      "The model is not ready yet. Try again in a minute, or add a fallback model.",
      ["ModelNotReadyException", "ModelLoading", "ModelLoadingError"]
    ],
    [
      "Nothing was sent: other requests have just met an overload there, and background work makes room. Try again in a few minutes.",
      ["route_shut"]
    ]
  ]
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
  "params.max_tokens": "is set by holdfast: give `maxOutputTokens`",
  "params.max_completion_tokens": "is set by holdfast: give `maxOutputTokens`"
}

const hasHints = (kind: FaultKind, code: string): boolean =>
  byCode[kind]?.some(([, codes]) => codes.includes(code)) === true

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

const sentenceOf = (situation: Situation): string =>
  fieldGuidance(situation) ?? settingGuidance(situation) ?? codeGuidance(situation)

const codeGuidance = ({ kind, code }: Situation): string =>
  (code === null ? undefined : byCode[kind]?.find(([, codes]) => codes.includes(code))?.[0]) ?? table[kind]

/** What happened and what to do; with a known reset also when it makes sense to try again. */
export const guidanceFor = (situation: Situation): string => {
  const reset = instantText(situation.resetAtEpochMillis)
  return reset === null ? sentenceOf(situation) : `${sentenceOf(situation)} It is full again at ${reset}.`
}

const reasons: { readonly [K in FailReason]?: string } = {
  Attempts:
    "All retries are used up. Try again in a few minutes, add a fallback model, or use the preset unattended, which keeps waiting.",
  Continuations:
    "The reply is longer than the budget and its continuations. `partial` holds the text so far: ask for the rest, or raise escalatedMaxTokens or maxContinuations.",
  SmallGain: "The continuations brought almost nothing. `partial` holds the text so far; ask for smaller pieces.",
  TruncatedToolCall:
    "A tool call was cut by the output budget and was not run. Raise escalatedMaxTokens, or ask for smaller tool arguments.",
  TruncatedStructure:
    "The structured answer does not fit its output budget, and half of it cannot be continued. Raise `escalatedMaxTokens` (or the caller's `maxOutputTokens`), or ask for a smaller answer.",
  EmptyFragment:
    "The whole output budget went into invisible text. Raise escalatedMaxTokens, or lower the reasoning effort.",
  InvalidRetryAfter:
    "The provider sent a wait hint that cannot be read. Try again later, or use the preset broad, which skips such hints.",
  Deadline: "The time for this request is used up. Try again later, or allow a longer deadline.",
  StillTooLong:
    "The input is too long even after compaction. Remove large messages, or use a model with a larger window.",
  NothingToCompact:
    "The input is too long and there is nothing old to summarise. Shorten the last messages, or use a model with a larger window.",
  SummaryFailed:
    "The input is too long and the summary failed; the history is untouched. Try again, or shorten the history yourself.",
  NotSmaller: "The input is too long and the summary was not shorter; the history is untouched. Remove large messages.",
  Budget: "The budget of this session is used up. The finished work is kept; raise the limit to go on."
}

/** Guidance for what recovery gave up on. `retryAt`: epoch milliseconds from which another try makes sense; null = unknown. */
export const guidanceForReason = (reason: FailReason, retryAt: number | null = null): string => {
  const instant = instantText(retryAt)
  return reason === "Deadline" && instant !== null
    ? `The wait does not fit into the time for this request. Try again from ${instant} on, or allow a longer deadline.`
    : (reasons[reason] ?? "Try again later.")
}

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
