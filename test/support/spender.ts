/**
 * One of several processes that spend from one account: `spender.ts STORE ADDRESS NAME USD CALLS MODE`. It asks for all its
 * calls at once, tells what it has spent, and ends; with the mode `hold` it keeps its reservations until it is killed.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Logger from "effect/Logger"
import * as BudgetShared from "../../src/layers/stores/shared/BudgetShared.ts"
import { SharedStore } from "../../src/services/SharedStore.ts"
import { storeAt } from "./sharedStores.ts"

const [kind = "", address = "", name = "", usd = "", calls = "", mode = "", lease = "60000"] = process.argv.slice(2)

const worst = { tokens: 1_000, costUsd: 0.05 }

const call = (ledger: Effect.Success<ReturnType<typeof BudgetShared.make>>, index: number) =>
  Effect.gen(function* () {
    const reservation = yield* Effect.exit(ledger.admit(worst))
    if (Exit.isFailure(reservation)) {
      const failure = Cause.squash(reservation.cause)
      return {
        admitted: 0,
        nanoUsd: 0,
        limit: failure instanceof Error && "limit" in failure ? failure.limit : "defect"
      }
    }
    if (mode === "hold") return { admitted: 1, nanoUsd: 0, limit: null }
    yield* Effect.sleep(index % 20)
    const costUsd = ((index % 50) + 1) / 1_000
    yield* ledger.settle(reservation.value, { tokens: 10, costUsd })
    return { admitted: 1, nanoUsd: Math.round(costUsd * 1e9), limit: null }
  })

const program = Effect.gen(function* () {
  const ledger = yield* BudgetShared.make({
    name,
    limits: { maxTokens: null, maxCostUsd: Number(usd) },
    lease: Number(lease)
  })
  process.stdout.write("ready\n")
  yield* Effect.promise(() => new Promise((resolve) => process.stdin.once("data", resolve)))
  const each = yield* Effect.forEach(
    Array.from({ length: Number(calls) }, (_, index) => index),
    (index) => call(ledger, index),
    { concurrency: "unbounded" }
  )
  const sum = (of: (one: (typeof each)[number]) => number): number => each.reduce((total, one) => total + of(one), 0)
  const limits = [...new Set(each.flatMap(({ limit }) => (limit === null ? [] : [limit])))]
  process.stdout.write(
    `${JSON.stringify({ admitted: sum(({ admitted }) => admitted), nanoUsd: sum(({ nanoUsd }) => nanoUsd), limits })}\n`
  )
  if (mode === "hold") return yield* Effect.never
})

/** What is logged is no part of the report. */
const toStderr = Logger.layer([Logger.make(({ message }) => void process.stderr.write(`${String(message)}\n`))])

await Effect.runPromise(
  Effect.scoped(
    Effect.flatMap(storeAt(kind, address), (store) =>
      Effect.provideService(program, SharedStore, SharedStore.of(store))
    )
  ).pipe(Effect.provide(toStderr))
)
process.exit(0)
