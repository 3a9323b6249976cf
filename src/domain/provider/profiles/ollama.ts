/** Ollama. Errors are a bare string or a type that says nothing: the status decides. Long prompts are cut silently. */
import { makeProfile } from "../ProviderProfile.ts"
import { finishFaults, finishReasons, inBandRows } from "./words.ts"

export const ollama = makeProfile({
  name: "ollama",
  baseUrls: ["localhost:11434", "127.0.0.1:11434", "ollama.com"],
  rows: inBandRows,
  finishReasons,
  finishFaults
})
