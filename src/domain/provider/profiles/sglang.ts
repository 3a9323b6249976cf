/** SGLang. Errors as vLLM's; a stop by the server is the finish reason `abort`. */
import { makeProfile } from "../ProviderProfile.ts"
import { finishFaults, finishReasons, inBandRows } from "./words.ts"

export const sglang = makeProfile({ name: "sglang", rows: inBandRows, finishReasons, finishFaults })
