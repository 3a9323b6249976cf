/** What an address says of a request: which of the three APIs it is, or what may be done with it otherwise. Pure. */
import { chatNative } from "./chatNative.ts"
import { messagesNative } from "./messagesNative.ts"
import type { NativeWire } from "./NativeWire.ts"
import { responsesNative } from "./responsesNative.ts"

export interface NativeAddress {
  /** null = none of the three. */
  readonly wire: NativeWire | null
  /** The model or deployment in the path; null = it is in the body. */
  readonly model: string | null
  /** A call that creates nothing on the server: it may be sent again. */
  readonly isRepeatable: boolean
}

/** Azure names the deployment in the path of chat. */
const deployment = /\/deployments\/([^/]+)\/chat\/completions$/

/** POSTs that only compute. */
const repeatable =
  /\/(embeddings|moderations|completions|rerank|messages\/count_tokens|responses\/input_tokens|responses\/compact)$|\/model\/[^/]+\/(invoke|invoke-with-response-stream|converse|converse-stream)$|:(rawPredict|streamRawPredict|generateContent|streamGenerateContent|countTokens)$/

const wireOf = (path: string): NativeWire | null => {
  if (path.endsWith("/chat/completions")) return chatNative
  if (path.endsWith("/responses")) return responsesNative
  // A thread of the assistants has messages, too.
  if (path.endsWith("/messages") && !/\/threads\/[^/]+\/messages$/.test(path)) return messagesNative
  return null
}

export const addressOf = (url: string): NativeAddress => {
  const path = (URL.canParse(url) ? new URL(url).pathname : "").replace(/\/+$/, "")
  const found = deployment.exec(path)?.[1]
  return {
    wire: wireOf(path),
    model: found === undefined ? null : decodeURIComponent(found),
    isRepeatable: repeatable.test(path)
  }
}

/** The address for another model; the same where the model is in the body. */
export const withModel = (url: string, address: NativeAddress, model: string): string => {
  if (address.model === null) return url
  const changed = new URL(url)
  changed.pathname = changed.pathname.replace(/\/deployments\/[^/]+\//, `/deployments/${encodeURIComponent(model)}/`)
  return String(changed)
}
