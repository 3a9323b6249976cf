/** The error body of a status, in the words of each wire: what a provider says beside it when nothing else is asked for. */
import type { Json } from "../domain/chat/json.ts"
import type { WireName } from "./wireAnswers.ts"

const openAiCodes: Readonly<Record<number, string>> = {
  401: "invalid_api_key",
  404: "model_not_found",
  429: "rate_limit_exceeded",
  503: "server_is_overloaded",
  529: "server_is_overloaded"
}

const anthropicTypes: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error",
  504: "timeout_error",
  529: "overloaded_error"
}

const openAiBody = (status: number, code: string | undefined): Json => ({
  error: {
    message: "synthetic",
    type: status >= 500 ? "server_error" : "invalid_request_error",
    param: null,
    code: code ?? openAiCodes[status] ?? null
  }
})

const bodies: { readonly [W in WireName]: (status: number, code: string | undefined) => Json } = {
  chat: openAiBody,
  responses: openAiBody,
  messages: (status, code) => ({
    type: "error",
    error: { type: code ?? anthropicTypes[status] ?? "api_error", message: "synthetic" }
  })
}

/** `code` stands in the place of the status's own word. */
export const statusBody = (wire: WireName, status: number, code?: string): Json => bodies[wire](status, code)
