/** A server that is compatible with OpenAI and says nothing more about itself. */
import { makeProfile } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const generic = makeProfile({ name: "generic", finishReasons, finishFaults })
