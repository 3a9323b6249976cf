/** Cohere. Bodies hold an id and a text: the status decides. Status 498 is its own: a blocked input or output. */
import { makeProfile } from "../ProviderProfile.ts"
import { finishFaults, finishReasons, inBandRows } from "./words.ts"

export const cohere = makeProfile({
  name: "cohere",
  baseUrls: ["api.cohere.com", "api.cohere.ai"],
  rows: inBandRows,
  finishReasons,
  finishFaults
})
