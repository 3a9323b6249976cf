/** All provider profiles that come with the library, by name. Chosen by the caller or by base URL, never by an answer. */
import { generic } from "./profiles/generic.ts"
import { openai } from "./profiles/openai.ts"
import type { ProviderProfile } from "./ProviderProfile.ts"

export const profiles: ReadonlyArray<ProviderProfile> = [openai, generic]

/** The profile of this name; null = there is none. */
export const profileNamed = (name: string): ProviderProfile | null =>
  profiles.find((profile) => profile.name === name) ?? null
