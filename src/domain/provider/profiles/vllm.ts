/** vLLM. The code is the status again, also inside a stream; a full window is a plain 400. */
import { makeProfile } from "../ProviderProfile.ts"
import { finishFaults, finishReasons, inBandRows } from "./words.ts"

export const vllm = makeProfile({ name: "vllm", rows: inBandRows, finishReasons, finishFaults })
