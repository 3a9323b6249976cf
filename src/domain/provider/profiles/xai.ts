/** xAI. `code` is a fixed sentence (the name of a gRPC status), `error` the text; a JSON error may follow a 200. */
import { makeProfile, rowsOf } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const xai = makeProfile({
  name: "xai",
  baseUrls: ["api.x.ai", "*.api.x.ai"],
  codeAt: ["/code"],
  // Source: docs.x.ai/developers/debugging; the codes are the sentences of gRPC statuses
  rows: [
    ...rowsOf("overloaded", ["The service is currently unavailable"]),
    ...rowsOf("quota_exhausted", ["personal-team-blocked:spending-limit"]),
    ...rowsOf("rate_limited", ["Some resource has been exhausted"]),
    ...rowsOf("auth", ["The request does not have valid authentication credentials for the operation"]),
    ...rowsOf("permission", ["The caller does not have permission to execute the specified operation"]),
    ...rowsOf("not_found", ["Some requested entity was not found"]),
    ...rowsOf("timeout", [
      "The operation expired before completion",
      "Deadline expired before operation could complete"
    ]),
    ...rowsOf("server_error", ["Internal error", "Internal errors", "Unknown error"], { status: 200 }),
    ...rowsOf("invalid_request", ["Client specified an invalid argument"], { status: 200 })
  ],
  finishReasons,
  finishFaults
})
