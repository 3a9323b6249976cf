/**
 * A rate that several processes keep together: so many requests or tokens in a window of time. Windows begin at whole
 * multiples of their length, and each is an account of its own in the store. Whoever does not fit waits for the next window;
 * a request larger than a whole window goes when it has one for itself.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import type { Account } from "../../../domain/budget/Account.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { SharedStore, StoreAway, type SharedStoreShape } from "../../../services/SharedStore.ts"
import { safeText } from "./safeText.ts"

export interface RateSharedOptions {
  /** Every process that gives this name keeps the rate with the others. */
  readonly name: string
  readonly window: Duration.Input
  /** In one window; left out = no limit of that kind. */
  readonly requests?: number
  readonly tokens?: number
  /** While the store is away: `open` lets everything go (it is a rate, not money), `closed` fails. Default `open`. */
  readonly whileAway?: "open" | "closed"
}

export interface RateShape {
  /** Takes a place now; null = it is taken, else the epoch milliseconds at which the next window begins. */
  readonly take: (tokens?: number) => Effect.Effect<number | null, StoreAway>
  /** Runs when there is a place. Waiting can be interrupted: a deadline around it holds. */
  readonly limited: <A, E, R>(body: Effect.Effect<A, E, R>, tokens?: number) => Effect.Effect<A, E | StoreAway, R>
}

/** Those who waited for a window do not come in its first moment all together: within this share of it. */
const spreadShare = 0.1

const faultOf = ({ name, window, requests, tokens }: RateSharedOptions): ConfigurationError | null => {
  if (name === "") return new ConfigurationError({ field: "name", reason: "is empty: it names the rate" })
  const span = Option.getOrNull(Duration.fromInput(window))
  if (span === null || !(Duration.toMillis(span) >= 100 && Duration.isFinite(span)))
    return new ConfigurationError({ field: "window", reason: "must be a time of 100 milliseconds or more" })
  for (const [field, limit] of Object.entries({ requests, tokens }))
    if (limit !== undefined && !(Number.isSafeInteger(limit) && limit > 0))
      return new ConfigurationError({ field, reason: "must be a whole number from 1" })
  return requests === undefined && tokens === undefined
    ? new ConfigurationError({ field: "requests", reason: "is missing: a rate limits requests or tokens" })
    : null
}

const rateOver = (store: SharedStoreShape, options: RateSharedOptions): RateShape => {
  const { name, requests = null, tokens: most = null, whileAway = "open" } = options
  const millis = Duration.toMillis(Duration.fromInputUnsafe(options.window))
  const process = crypto.randomUUID()
  let count = 0

  const take: RateShape["take"] = (tokens = 0) =>
    Effect.gen(function* () {
      const begin = Math.floor((yield* Clock.currentTimeMillis) / millis) * millis
      const account: Account = {
        name: `${safeText(name)}/${begin}`,
        limits: { requests, tokens: most, nanoUsd: null },
        untilMillis: begin + 2 * millis
      }
      count += 1
      const worst = { requests: 1, tokens: Math.min(Math.ceil(tokens), most ?? Infinity), nanoUsd: 0 }
      // Held for as long as the window counts; nothing of a rate is given back.
      const asked = { id: `${process}/${count}`, accounts: [account], worst, leaseMillis: 2 * millis }
      const { isAdmitted } = yield* store.reserve(asked)
      return isAdmitted ? null : begin + millis
    }).pipe(
      Effect.catchIf(
        (failure) => whileAway === "open" && failure instanceof StoreAway,
        () => Effect.succeed(null)
      )
    )

  const turn = (tokens: number | undefined): Effect.Effect<void, StoreAway> =>
    Effect.gen(function* () {
      let until = yield* take(tokens)
      while (until !== null) {
        const spread = spreadShare * millis * (yield* Random.next)
        yield* Effect.sleep(Math.max(1, until - (yield* Clock.currentTimeMillis) + spread))
        until = yield* take(tokens)
      }
    })

  return { take, limited: (body, tokens) => Effect.andThen(turn(tokens), body) }
}

export const make = (options: RateSharedOptions): Effect.Effect<RateShape, ConfigurationError, SharedStore> =>
  Effect.gen(function* () {
    const fault = faultOf(options)
    if (fault !== null) return yield* fault
    return rateOver(yield* SharedStore, options)
  })
