/** The prompt cache of one session: the first lifetime the eligibility source offers holds to the end. */
import * as Effect from "effect/Effect"
import { latch, type CacheTtl } from "../domain/chat/PromptCache.ts"

/** One effect per session; ask it before each turn. `offered` null = not eligible. */
export const make = (offered: Effect.Effect<CacheTtl | null>): Effect.Effect<Effect.Effect<CacheTtl | null>> =>
  Effect.sync(() => {
    let latched: CacheTtl | null = null
    return Effect.suspend(() =>
      latched !== null
        ? Effect.succeed(latched)
        : Effect.map(offered, (ttl) => {
            latched = latch(latched, ttl)
            return latched
          })
    )
  })
