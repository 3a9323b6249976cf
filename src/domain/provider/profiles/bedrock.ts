/** Amazon Bedrock. The exception's name stands in a header; inside a stream it is the key of the event. */
import { makeProfile, rowsOf, type CodeRow, wordIds } from "../ProviderProfile.ts"
import type { FaultKind } from "../../failure/FaultKind.ts"
import { finishFaults, finishReasons } from "./words.ts"

/** Exceptions as events of a stream. */
const events: ReadonlyArray<readonly [string, FaultKind]> = [
  ["modelStreamErrorException", "server_error"],
  ["internalServerException", "server_error"],
  ["serviceUnavailableException", "server_error"],
  ["throttlingException", "rate_limited"],
  ["modelTimeoutException", "timeout"],
  ["validationException", "invalid_request"]
]

export const bedrock = makeProfile({
  name: "bedrock",
  baseUrls: ["bedrock-runtime.*.amazonaws.com", "bedrock-mantle.*.api.aws"],
  codeAt: ["header:x-amzn-errortype", "/__type"],
  // Sources: docs.aws.amazon.com/bedrock/latest/APIReference, InvokeModel, ConverseStream and common errors;
  // docs.aws.amazon.com/bedrock/latest/userguide/troubleshooting-api-error-codes.html, which names some without "Exception"
  rows: [
    ...rowsOf("overloaded", ["ModelNotReadyException"]),
    ...rowsOf("rate_limited", ["ThrottlingException", "TooManyRequestsException"]),
    ...rowsOf("quota_exhausted", ["ServiceQuotaExceededException"]),
    ...rowsOf("server_error", ["ModelErrorException", "ModelStreamErrorException", "InternalServerException"]),
    ...rowsOf("timeout", ["ModelTimeoutException"]),
    ...rowsOf("auth", ["UnrecognizedClientException", "ExpiredTokenException", "InvalidSignatureException"]),
    ...rowsOf("auth", [
      "IncompleteSignatureException",
      "IncompleteSignature",
      "MissingAuthenticationTokenException",
      "InvalidClientTokenId",
      "RequestExpired"
    ]),
    ...rowsOf("permission", ["AccessDeniedException", "OptInRequired", "NotAuthorized", "FTUFormNotFilled"]),
    ...rowsOf("not_found", ["ResourceNotFoundException"]),
    ...events.map(([name, kind]): CodeRow => ({ status: 200, at: `/${name}`, value: name, match: "present", kind }))
  ],
  statuses: { 424: "server_error" },
  inBandAt: events.map(([name]) => ({ at: `/${name}`, unless: null })),
  finishReasons,
  finishFaults,
  capabilities: { cacheMarkers: true },
  returns: { message: ["content_blocks"], call: [] },
  callIds: wordIds,
  toolNames: wordIds
})
