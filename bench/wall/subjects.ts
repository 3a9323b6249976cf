/** Who stands before the wall: each takes a provider's address and says where its requests go. */
import { RecoveryPolicy, type RecoveryPolicyInput } from "../../src/domain/recovery/RecoveryPolicy.ts"
import { RouteHealthConfig } from "../../src/domain/recovery/RouteHealthConfig.ts"
import { recoveredFetch } from "../../src/fetch.ts"
import { makeBudgets } from "../../src/programs/commands/gateway/budgets.ts"
import { makeParts, makeShared } from "../../src/programs/commands/gateway/gateway.ts"
import { resolveConfig } from "../../src/programs/commands/gateway/GatewayConfig.ts"
import { startServer } from "../../src/programs/commands/gateway/server.ts"
import type { AskOptions } from "./client.ts"

export interface Started {
  /** Where a request for a model goes, with what tells the subject of the fallback. */
  readonly target: (model: string, fallback: string) => Omit<AskOptions, "wire">
  readonly close: () => Promise<void>
}

export interface Subject {
  readonly name: string
  /** Shown for comparison: its verdicts change no exit code. */
  readonly isReference: boolean
  readonly start: (setting: { readonly provider: string; readonly unit: number }) => Promise<Started>
}

/** No recovery at all: what the faults do to a client that asks once. */
const bare: Subject = {
  name: "bare",
  isReference: true,
  start: ({ provider }) =>
    Promise.resolve({
      target: (model) => ({ baseUrl: provider, model }),
      close: () => Promise.resolve()
    })
}

/** The policy of a route that meets the wall, its times in the wall's own seconds. */
const policyFor = (unit: number): Partial<RecoveryPolicyInput> => ({
  ...RecoveryPolicy.broad,
  backoff: { base: unit / 2, factor: 2, cap: 32 * unit, jitter: 0.25 },
  deadline: 300 * unit,
  hardCap: 1_800 * unit,
  firstTokenTimeout: 10 * unit,
  idleTimeout: 8 * unit,
  contentTimeout: 120 * unit,
  attemptTimeout: 600 * unit,
  fallbackAfter: { overload: 3, serverError: 2, silent: 1, cut: 2, rateLimit: 3, overflow: 1 },
  routeHealth: {
    ...RouteHealthConfig.defaults,
    counts: ["overload", "serverError", "silent", "cut", "connection"],
    window: 10 * unit,
    coolDown: 3 * unit,
    coolDownMax: 10 * unit,
    probeTimeout: 60 * unit,
    ramp: 5 * unit,
    hintSpread: 2 * unit,
    hintGateMax: 600 * unit
  }
})

const gatewayWith = (stream: "live" | "verified"): Subject => ({
  name: `gateway ${stream}`,
  isReference: false,
  start: async ({ provider, unit }) => {
    const config = resolveConfig(
      "wall",
      {
        value: {
          listen: { port: 0 },
          upstreams: { wall: { baseUrl: provider } },
          routes: { "*": { upstream: "wall", stream } }
        },
        placeOf: () => null
      },
      {}
    )
    const routes = new Map([...config.routes].map(([name, route]) => [name, { ...route, policy: policyFor(unit) }]))
    const budgets = makeBudgets(() => Date.now())
    const shared = makeShared(budgets, () => 0)
    const onFault = (cause: unknown): void => console.error(cause)
    const server = await startServer({ parts: makeParts({ ...config, routes }, shared), budgets, onFault })
    return {
      target: (model, fallback) => ({
        baseUrl: `${server.address}/v1`,
        model,
        headers: { "x-holdfast-fallback": fallback }
      }),
      close: () => server.drain(0)
    }
  }
})

const library: Subject = {
  name: "library",
  isReference: false,
  start: ({ provider, unit }) => {
    const fetches = new Map<string, typeof fetch>()
    const fetchFor = (fallback: string): typeof fetch => {
      const made =
        fetches.get(fallback) ??
        recoveredFetch({ ...policyFor(unit), fallbacks: [{ model: fallback }] }, { health: "own" })
      fetches.set(fallback, made)
      return made
    }
    return Promise.resolve({
      target: (model, fallback) => ({ baseUrl: provider, model, fetch: fetchFor(fallback) }),
      close: () => Promise.resolve()
    })
  }
}

export const startSubjects = (): ReadonlyArray<Subject> => [gatewayWith("live"), gatewayWith("verified"), library, bare]
