/**
 * Plays one scenario through the real SDK and says what happened as one result line. In virtual time the provider is an
 * in-process fetch; live it is a server on loopback.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { profileNamed } from "../../../domain/provider/Profiles.ts"
import type { JournalStoreShape } from "../../../services/JournalStore.ts"
import { makeDirect } from "../../../layers/provider/undiciFetch.ts"
import { type Play, type Stage, ledgerOf } from "./Stage.ts"
import type { ResultLine, Timed } from "./ResultLine.ts"
import type { Scenario } from "./Scenario.ts"
import * as VirtualClock from "./VirtualClock.ts"
import { notConfigured } from "./callLine.ts"
import { inProcess } from "./inProcessProvider.ts"
import { loopback } from "./loopbackProvider.ts"
import { makeRecord } from "./playAgent.ts"
import { lineOf } from "./playedLine.ts"
import { recoveryOf } from "./scenarioRecovery.ts"
import { actions, calls } from "./scriptCalls.ts"

export interface PlayOptions {
  readonly live: boolean
  /** Gets every event, whole; without it they stand in the line only, without their policy. */
  readonly record?: Array<Timed>
  /** Through the API's own SDK under `holdfast(client)`. */
  readonly isClient?: boolean
  /** Keeps the turns of an agent: what is played is the same. */
  readonly journals?: JournalStoreShape
}

/** Why a scenario cannot be played yet; null = it can. */
export const unsupported = (scenario: Scenario): string | null => {
  if (scenario.hand !== undefined && scenario.expect === undefined) return "shown by a test of its own"
  if (scenario.profile !== undefined && profileNamed(scenario.profile) === null)
    return `needs the provider profile ${scenario.profile}`
  return null
}

/** Real milliseconds that a connection may take to close behind a reply that is over: the client gives it a quarter second. */
const closingMillis = 500

const settled = async (provider: Stage["provider"]): Promise<void> => {
  const step = 10
  for (let waited = 0; provider.connectionsOpen() > 0 && waited < closingMillis; waited += step)
    await new Promise((resolve) => setTimeout(resolve, step))
}

const playWith = (play: Play): Effect.Effect<ResultLine> => {
  const { stage } = play
  return Effect.gen(function* () {
    const acting = yield* Effect.forkChild(actions(play))
    const outcome = yield* calls(play)
    const elapsedMs = stage.now()
    yield* Fiber.interrupt(acting)
    yield* Effect.promise(() => settled(stage.provider))
    return lineOf(play, outcome, elapsedMs)
  }).pipe(
    Effect.provide(recoveryOf(play)),
    Effect.catchTag("ConfigurationError", (error) =>
      Effect.succeed(lineOf(play, { ended: [notConfigured(error)], history: [] }, 0))
    )
  )
}

const playOn = (scenario: Scenario, stage: Stage, options: PlayOptions): Effect.Effect<ResultLine> =>
  Effect.flatMap(ledgerOf(scenario), (ledger) =>
    playWith({
      scenario,
      stage,
      isClient: options.isClient === true,
      events: options.record ?? [],
      parts: [],
      running: new Set(),
      agent: makeRecord(),
      ledger,
      journals: options.journals ?? null
    })
  )

const start = (scenario: Scenario): number => {
  const found = scenario.clockUtc === undefined ? undefined : Date.parse(scenario.clockUtc)
  return found === undefined || Number.isNaN(found) ? Date.UTC(2026, 0, 1) : found
}

const playVirtual = (scenario: Scenario, options: PlayOptions): Effect.Effect<ResultLine> =>
  Effect.promise(() => {
    const time = VirtualClock.make(start(scenario))
    const provider = inProcess(scenario, time)
    return time.run(
      Effect.runPromise(
        Effect.provideService(
          playOn(scenario, { now: time.now, provider, client: { fetch: provider.fetch } }, options),
          Clock.Clock,
          time.clock
        )
      )
    )
  })

const playLive = (scenario: Scenario, options: PlayOptions): Effect.Effect<ResultLine> =>
  Effect.acquireUseRelease(
    Effect.promise(() => loopback(scenario)),
    (provider) => {
      const startedAt = performance.now()
      const client = { baseUrl: provider.baseUrl, fetch: makeDirect() }
      return playOn(scenario, { now: () => performance.now() - startedAt, provider, client }, options)
    },
    (provider) => Effect.promise(provider.close)
  )

/** Plays a scenario; one that needs a missing part comes back as unsupported with the reason. */
export const play = (scenario: Scenario, options: PlayOptions): Effect.Effect<ResultLine> => {
  const why = unsupported(scenario)
  if (why !== null) return Effect.succeed({ id: scenario.id, status: "unsupported", why })
  return options.live ? playLive(scenario, options) : playVirtual(scenario, options)
}

/** A scenario entry that could not be read is told as unsupported, never skipped. */
export const playEntry = (
  entry: { readonly id: string; readonly scenario: Result.Result<Scenario, ConfigurationError> },
  options: PlayOptions
): Effect.Effect<ResultLine> =>
  Result.isSuccess(entry.scenario)
    ? play(entry.scenario.success, options)
    : Effect.succeed({ id: entry.id, status: "unsupported", why: entry.scenario.failure.message })
