/**
 * Ollama. Errors are a bare string or a type that says nothing: the status decides. Long prompts are cut silently.
 * Source: docs.ollama.com/api/errors.
 */
import { makeProfile } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const ollama = makeProfile({
  name: "ollama",
  baseUrls: ["localhost:11434", "127.0.0.1:11434", "ollama.com"],
  finishReasons,
  finishFaults
})
