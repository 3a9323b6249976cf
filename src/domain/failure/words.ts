/**
 * What is said of every kind of fault and every reason to give up: what happened, and what a user can do about it. Each is
 * said here and nowhere else. Never a provider's words.
 */
import type { FailReason } from "./FailReason.ts"
import type { FaultKind } from "./FaultKind.ts"

export interface Words {
  /** What happened, as the beginning of a message. */
  readonly said: string
  /** What to do, in whole sentences. */
  readonly advice: string
}

/** Kinds of faults; `name` is for lists, in a word or three. */
export const faultWords: Readonly<Record<FaultKind, Words & { readonly name: string }>> = {
  rate_limited: {
    name: "rate limit",
    said: "the provider limits the request rate",
    advice:
      "The provider limits how often this key may ask. Wait a moment, lower the rate, or use a preset that waits longer."
  },
  quota_exhausted: {
    name: "quota used up",
    said: "the quota or credit of this account is used up",
    advice:
      "The quota or credit of this account is used up. Add credit, raise the limit, or use another key; trying again now does not help."
  },
  overloaded: {
    name: "overloaded",
    said: "the provider is overloaded",
    advice: "The provider has too much to do. Try again in a few minutes, or add a fallback model."
  },
  prompt_too_long: {
    name: "input too long",
    said: "the input is too long for the model",
    advice:
      "The input does not fit the model's window. Shorten it, switch compaction on, or use a model with a larger window."
  },
  server_error: {
    name: "server error",
    said: "the provider failed",
    advice: "The provider failed. Try again in a few minutes; if it stays, look at the provider's status page."
  },
  timeout: {
    name: "no answer in time",
    said: "the provider did not answer in time",
    advice: "No answer came in time. Try again, allow more time, or add a fallback model."
  },
  connection: {
    name: "connection failed",
    said: "the provider could not be reached",
    advice: "The provider could not be reached. Check the network, the proxy and the base URL."
  },
  interrupted: {
    name: "answer broke off",
    said: "the answer broke off",
    advice: "The answer broke off on the way. Try again; a preset other than strict repeats it by itself."
  },
  auth: {
    name: "key not accepted",
    said: "the provider does not accept the key",
    advice: "The key is missing, wrong or revoked. Check the key and which provider it belongs to."
  },
  permission: {
    name: "no permission",
    said: "the key has no permission for this request",
    advice: "This key may not use this model or feature. Ask the owner of the organisation, or use another model."
  },
  not_found: {
    name: "not found",
    said: "the model or address does not exist",
    advice: "The model or address does not exist. Check the model's name and the base URL."
  },
  invalid_request: {
    name: "request not accepted",
    said: "the provider does not accept the request",
    advice:
      "The provider does not accept the request as it is. Its code, and its own words in `providerMessage`, name the field to change."
  },
  payload_too_large: {
    name: "body too large",
    said: "the request body is too large",
    advice: "The request body is too large for the server. Send less, or smaller attachments."
  },
  content_filtered: {
    name: "content filter",
    said: "a content filter refused the request",
    advice: "A content filter refused the request. Change the content; trying again does not help."
  },
  malformed_response: {
    name: "not a valid reply",
    said: "the answer is not a valid reply",
    advice: "The answer is not a valid reply. Check that the base URL is an API and not a login or proxy page."
  },
  empty_reply: {
    name: "empty reply",
    said: "the provider sent an empty reply",
    advice: "The provider sent an empty reply. Try again; a preset other than strict repeats it by itself."
  }
}

/** The same for each reason recovery ends for. */
export const reasonWords: Readonly<Record<FailReason, Words>> = {
  Passthrough: {
    said: "the last failure is not one that recovery repairs",
    advice: "See the failure itself: trying the same again does not help."
  },
  Shed: {
    said: "the request was given up to make room for others",
    advice: "Try again in a few minutes, or ask in the foreground."
  },
  Attempts: {
    said: "all retries are used up",
    advice:
      "All retries are used up. Try again in a few minutes, add a fallback model, or use the preset unattended, which keeps waiting."
  },
  Continuations: {
    said: "all continuations are used up",
    advice:
      "The reply is longer than the budget and its continuations. `partial` holds the text so far: ask for the rest, or raise escalatedMaxTokens or maxContinuations."
  },
  SmallGain: {
    said: "the continuations brought almost nothing",
    advice: "The continuations brought almost nothing. `partial` holds the text so far; ask for smaller pieces."
  },
  TruncatedToolCall: {
    said: "a tool call was cut by the output budget",
    advice:
      "A tool call was cut by the output budget and was not run. Raise escalatedMaxTokens, or ask for smaller tool arguments."
  },
  TruncatedStructure: {
    said: "the structured answer does not fit its output budget",
    advice:
      "The structured answer does not fit its output budget, and half of it cannot be continued. Raise `escalatedMaxTokens` (or the caller's `maxOutputTokens`), or ask for a smaller answer."
  },
  EmptyFragment: {
    said: "the output budget went into invisible text",
    advice: "The whole output budget went into invisible text. Raise escalatedMaxTokens, or lower the reasoning effort."
  },
  InvalidRetryAfter: {
    said: "the provider's wait hint cannot be read",
    advice:
      "The provider sent a wait hint that cannot be read. Try again later, or use the preset broad, which skips such hints."
  },
  Deadline: {
    said: "the time for this request is used up",
    advice: "The time for this request is used up. Try again later, or allow a longer deadline."
  },
  StillTooLong: {
    said: "still too long after compaction",
    advice: "The input is too long even after compaction. Remove large messages, or use a model with a larger window."
  },
  NothingToCompact: {
    said: "nothing old to summarise",
    advice:
      "The input is too long and there is nothing old to summarise. Shorten the last messages, or use a model with a larger window."
  },
  SummaryFailed: {
    said: "the summary failed",
    advice:
      "The input is too long and the summary failed; the history is untouched. Try again, or shorten the history yourself."
  },
  NotSmaller: {
    said: "the summary was not shorter",
    advice: "The input is too long and the summary was not shorter; the history is untouched. Remove large messages."
  },
  Budget: {
    said: "the budget of this session is used up",
    advice: "The budget of this session is used up. The finished work is kept; raise the limit to go on."
  }
}

/** A shared budget whose store is away: nothing is spent that could not be counted. */
export const budgetStoreAdvice =
  "The store of the shared budget does not answer, and nothing is spent without it. Try again when it is back, or give this process a share for such times (`whileAway`)."

/** A sentence for some codes of a kind. */
type CodeAdvice = readonly [advice: string, codes: ReadonlyArray<string>]

/** Codes that tell more than their kind, in the words of several providers. The first that knows the code speaks. */
export const codeWords: { readonly [K in FaultKind]?: ReadonlyArray<CodeAdvice> } = {
  quota_exhausted: [
    [
      "The account's balance or credit is used up. Top it up, or use another key; trying again before that does not help.",
      [
        "credit_balance_exhausted",
        "billing_error",
        "openrouter_credits",
        "credit_limit",
        "payment_required",
        "1113",
        "insufficient_balance",
        "insufficient_balance_error",
        "Arrearage",
        "AccountOverdueError",
        "30001",
        "1008"
      ]
    ],
    [
      "A spending limit is reached. Its owner can raise it in the provider's console; trying again before that does not help.",
      [
        "project_spend_limit_exceeded",
        "organization_spend_limit_exceeded",
        "billing_hard_limit_reached",
        "budget_exceeded",
        "openrouter_key_limit",
        "SetLimitExceeded",
        "personal-team-blocked:spending-limit"
      ]
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
    [
      "The key is not one the provider knows. Copy it again, whole, from the provider's console.",
      [
        "invalid_api_key",
        "InvalidApiKey",
        "wrong_api_key",
        "incorrect_api_key_error",
        "API_KEY_INVALID",
        "1002",
        "2049"
      ]
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
      [
        "image_too_large",
        "invalid_image",
        "invalid_image_format",
        "image_parse_error",
        "invalid_image_url",
        "image_dimensions_too_large",
        "unsupported_image_media_type",
        "image_file_too_large"
      ]
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
  malformed_response: [
    [
      "The response is not finished: it was asked for in the background, or was cancelled. Ask for it again by its id until it is.",
      ["response_not_finished"]
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
  connection: [
    [
      "The server's certificate cannot be trusted, and asking again does not change that. Check the base URL, the machine's clock, and whether a proxy's own certificate has to be known (NODE_EXTRA_CA_CERTS).",
      [
        "CERT_HAS_EXPIRED",
        "CERT_NOT_YET_VALID",
        "DEPTH_ZERO_SELF_SIGNED_CERT",
        "SELF_SIGNED_CERT_IN_CHAIN",
        "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
        "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
        "ERR_TLS_CERT_ALTNAME_INVALID"
      ]
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

/** What a reply can be besides a failure. */
export type ReplyValue = "ok" | "output_truncated" | "refusal" | "content_filtered"

/** What a user can do about a reply that is a value. */
export const replyWords: Readonly<Record<ReplyValue, string>> = {
  ok: "The answer is complete. Nothing to do.",
  output_truncated:
    "The reply was cut by the output budget. holdfast raises the budget once and then lets the model continue; by hand: raise max_tokens, or ask for the rest.",
  refusal: "The model declined to answer. Trying the same again rarely helps; change the request.",
  content_filtered: "A content filter stopped the reply. Change the content; trying again does not help."
}
