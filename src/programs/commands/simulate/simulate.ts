/** Runs fleets in virtual time, in slices, so that progress shows and an interruption is heard. */
import * as Effect from "effect/Effect"
import type { RecoveryPolicy } from "../../../domain/recovery/RecoveryPolicy.ts"
import { makeArrivals } from "./Arrivals.ts"
import { makeRun, type FleetResult } from "./FleetRun.ts"
import { rowOf, type FleetRow } from "./FleetRow.ts"
import { meanServiceMillis, type LoadTrace } from "./LoadTrace.ts"
import { machineBehaviour } from "./MachineBehaviour.ts"
import { oracle } from "./Oracle.ts"
import { peerBehaviour, type PeerName } from "./Peers.ts"
import { makeScenario, requestsPerClient, slotsFor, type Scenario, type ScenarioName } from "./World.ts"

/** Who the clients are. */
export type FleetPolicy =
  | { readonly _tag: "Machine"; readonly name: string; readonly policy: RecoveryPolicy }
  | { readonly _tag: "Peer"; readonly name: PeerName }

export interface FleetSetup {
  readonly scenario: ScenarioName
  readonly trace: LoadTrace
  readonly clients: number
  readonly agentsPerProcess: number
  readonly backgroundShare: number
}

export interface SeedResult {
  readonly scenario: Scenario
  readonly oracle: FleetResult
  readonly runs: ReadonlyArray<{ readonly row: FleetRow; readonly result: FleetResult }>
}

/** Events between two looks at the outside world: about 50 ms of work. */
const eventsPerSlice = 20_000

/** All policies on the same arrivals of one seed, beside the oracle. `progress` is told shares of the whole, 0..1. */
export const simulateSeed = Effect.fnUntraced(function* (
  setup: FleetSetup,
  policies: ReadonlyArray<FleetPolicy>,
  seed: number,
  progress: (share: number, name: string) => Effect.Effect<void>
): Effect.fn.Return<SeedResult> {
  const { clients, agentsPerProcess, trace } = setup
  const mean = meanServiceMillis(trace)
  const scenario = makeScenario(setup.scenario, clients, slotsFor(setup.scenario, clients, mean))
  yield* progress(0, "arrivals")
  const arrivals = makeArrivals({
    trace,
    perSecond: clients * requestsPerClient,
    horizonMillis: scenario.horizonMillis,
    seed,
    boost: scenario.boost,
    burst: scenario.burst
  })
  yield* Effect.yieldNow
  const best = oracle(scenario, arrivals)
  const runs: Array<SeedResult["runs"][number]> = []
  for (const policy of policies) {
    const run = makeRun({
      scenario,
      arrivals,
      meanServiceMillis: mean,
      clients,
      agentsPerProcess,
      backgroundShare: setup.backgroundShare,
      seed,
      behaviour: (requests, processes, random) =>
        policy._tag === "Peer"
          ? peerBehaviour(policy.name, requests, random)
          : machineBehaviour({ policy: policy.policy, requests, processes, random })
    })
    while (!run.advance(eventsPerSlice)) {
      yield* progress((runs.length + run.progress()) / policies.length, policy.name)
      yield* Effect.yieldNow
    }
    const result = run.result()
    const about = { scenario: setup.scenario, policy: policy.name, clients, agentsPerProcess, seed }
    runs.push({ row: rowOf(about, result.metrics, best.metrics), result })
  }
  return { scenario, oracle: best, runs }
})
