/**
 * Cohere. Bodies hold an id and a text: the status decides. Status 498 is its own: a blocked input or output.
 * Source: docs.cohere.com/reference/errors.
 */
import { makeProfile } from "../ProviderProfile.ts"
import { finishFaults, finishReasons } from "./words.ts"

export const cohere = makeProfile({
  name: "cohere",
  baseUrls: ["api.cohere.com", "api.cohere.ai"],
  finishReasons,
  finishFaults
})
