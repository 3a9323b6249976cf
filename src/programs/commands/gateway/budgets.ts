/** The budgets of the gateway's keys in this process: reserved before a request goes out, settled when it has ended. */
import * as KeyBudget from "./KeyBudget.ts"
import type { GatewayKey } from "./GatewayConfig.ts"

export type Admitted =
  | { readonly _tag: "Admitted"; readonly settle: (spent: KeyBudget.Use) => void }
  | { readonly _tag: "Refused"; readonly limit: string; readonly seconds: number }
  /** What several gateways share cannot be asked, and nothing is spent without it. */
  | { readonly _tag: "Away" }

export interface Budgets {
  readonly admit: (key: GatewayKey | null, worst: KeyBudget.Use) => Admitted | Promise<Admitted>
  /** USD that are reserved or spent in the running day, by key. */
  readonly spending: () => ReadonlyMap<string, number>
}

/** Of this process alone: the answer is there at once. */
export interface OwnBudgets extends Budgets {
  readonly admit: (key: GatewayKey | null, worst: KeyBudget.Use) => Admitted
}

const free: Admitted = { _tag: "Admitted", settle: () => undefined }

/** `now` reads the wall clock: windows are whole minutes and days of it. */
export const makeBudgets = (now: () => number): OwnBudgets => {
  // Invariant: what is in a key's counts and not settled is reserved by a request under way.
  const uses = new Map<string, KeyBudget.KeyUse>()
  return {
    admit: (key, worst) => {
      if (key === null || key.budget === null) return free
      const { name, budget } = key
      const at = now()
      const use = uses.get(name) ?? KeyBudget.unused
      const refusal = KeyBudget.exhausted(budget, use, worst, at)
      if (refusal !== null) {
        const seconds = Math.max(1, Math.ceil((refusal.until - at) / 1_000))
        return { _tag: "Refused", limit: refusal.limit, seconds }
      }
      const taken = KeyBudget.reserve(use, worst, at)
      uses.set(name, taken.use)
      let isSettled = false
      return {
        _tag: "Admitted",
        settle: (spent) => {
          if (isSettled) return
          isSettled = true
          uses.set(name, KeyBudget.settle(uses.get(name) ?? KeyBudget.unused, taken.reserved, spent, now()))
        }
      }
    },
    spending: () => new Map([...uses].map(([name, use]) => [name, KeyBudget.at(use, now()).nanoUsd / 1e9]))
  }
}
