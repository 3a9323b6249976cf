/**
 * LM Studio. Errors are a bare string; inside a stream an event named error without a code. Source: lmstudio.ai/docs.
 */
import { makeProfile } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const lmstudio = makeProfile({
  name: "lmstudio",
  baseUrls: ["localhost:1234", "127.0.0.1:1234"],
  finishReasons,
  finishFaults
})
