import { assert, describe, it } from "@effect/vitest"
import { spawn, type ChildProcess } from "node:child_process"
import { join } from "node:path"
import { createInterface } from "node:readline"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Cause from "effect/Cause"
import { afterAll, beforeAll } from "vitest"
import * as Account from "../../src/domain/budget/Account.ts"
import { BudgetExceeded } from "../../src/domain/failure/AgentError.ts"
import * as BudgetShared from "../../src/layers/stores/shared/BudgetShared.ts"
import { SharedStore, type SharedStoreShape } from "../../src/services/SharedStore.ts"
import { startStore, storeAt, type RunningStore, type StoreKind } from "../support/sharedStores.ts"

const kinds: ReadonlyArray<StoreKind> = ["sqlite", "redis", "postgres"]

interface Report {
  readonly admitted: number
  readonly nanoUsd: number
  readonly limits: ReadonlyArray<string>
}

interface Spender {
  readonly child: ChildProcess
  readonly go: () => void
  readonly report: Promise<Report>
}

const children = new Set<ChildProcess>()

const spender = async (
  server: RunningStore,
  options: {
    readonly name: string
    readonly usd: number
    readonly calls: number
    readonly mode?: string
    readonly lease?: number
  }
): Promise<Spender> => {
  const { name, usd, calls, mode = "spend", lease = 60_000 } = options
  const file = join(import.meta.dirname, "../support/spender.ts")
  const child = spawn(
    process.execPath,
    ["--no-warnings", file, server.kind, server.address, name, String(usd), String(calls), mode, String(lease)],
    { stdio: ["pipe", "pipe", "inherit"] }
  )
  children.add(child)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const ready = await lines.next()
  assert.strictEqual(ready.value, "ready")
  return {
    child,
    go: () => child.stdin?.write("go\n"),
    report: lines.next().then((line): Report => JSON.parse(String(line.value)))
  }
}

const withStore = <A, E>(server: RunningStore, body: (store: SharedStoreShape) => Effect.Effect<A, E, SharedStore>) =>
  Effect.runPromise(
    Effect.scoped(
      Effect.flatMap(storeAt(server.kind, server.address), (store) =>
        Effect.provideService(body(store), SharedStore, SharedStore.of(store))
      )
    )
  )

const accountOf = (name: string, nanoUsd: number): Account.Account => ({
  name,
  limits: { requests: null, tokens: null, nanoUsd },
  untilMillis: null
})

const pause = (millis: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, millis))

describe.each(kinds)("a budget over %s", (kind) => {
  let server: RunningStore
  beforeAll(async () => {
    server = await startStore(kind)
  })
  afterAll(async () => {
    for (const child of children) child.kill("SIGKILL")
    await server.stop()
  })

  it("never spends more than its limit when three processes make a thousand calls each at once", async () => {
    const three = await Promise.all([1, 2, 3].map(() => spender(server, { name: "race", usd: 10, calls: 1_000 })))
    for (const one of three) one.go()
    const reports = await Promise.all(three.map(({ report }) => report))
    const spent = reports.reduce((total, { nanoUsd }) => total + nanoUsd, 0)
    assert.isAtMost(spent, 10e9)
    // How much of it depends on the machine: a store that keeps a second's silence under load admits nothing.
    assert.isAbove(spent, 0)
    // The ledger is the sum of what the processes have in their trails, and nothing is reserved any more.
    const standings = await withStore(server, (store) => store.standings([accountOf("race", 10e9)]))
    assert.strictEqual(standings[0]?.spent.nanoUsd, spent)
    assert.deepStrictEqual(standings[0]?.reserved, Account.nothing)
  })

  it("gives the reservations of a killed process back within one lease, and not before", async () => {
    const lease = 3_000
    const holder = await spender(server, { name: "killed", usd: 1, calls: 20, mode: "hold", lease })
    holder.go()
    assert.strictEqual((await holder.report).admitted, 20)
    // Held for longer than a lease by the process that lives.
    await pause(lease + 1_000)
    const reserved = () =>
      withStore(server, (store) =>
        Effect.map(store.standings([accountOf("killed", 1e9)]), ([standing]) => standing?.reserved.nanoUsd)
      )
    assert.strictEqual(await reserved(), 1e9)
    holder.child.kill("SIGKILL")
    const killedAt = Date.now()
    while ((await reserved()) !== 0) {
      assert.isBelow(Date.now() - killedAt, lease + 1_500)
      await pause(100)
    }
    // Also of the answer that ends the loop: a store that keeps it for long is seen, too.
    assert.isBelow(Date.now() - killedAt, lease + 5_000)
    const next = await spender(server, { name: "killed", usd: 1, calls: 20 })
    next.go()
    assert.isAbove((await next.report).admitted, 0)
  })

  it("books what was spent before once per key, and settles a reservation once", () =>
    withStore(server, (store) =>
      Effect.scoped(
        Effect.gen(function* () {
          const options = { name: "booked", limits: { maxTokens: 1_000, maxCostUsd: null } }
          const one = yield* BudgetShared.make(options)
          const two = yield* BudgetShared.make(options)
          yield* one.book?.("turn/1", { tokens: 100, costUsd: null }) ?? Effect.void
          yield* two.book?.("turn/1", { tokens: 100, costUsd: null }) ?? Effect.void
          const reservation = yield* one.admit({ tokens: 900, costUsd: null })
          const refused = yield* Effect.exit(two.admit({ tokens: 1, costUsd: null }))
          assert.isTrue(Exit.isFailure(refused) && Cause.squash(refused.cause) instanceof BudgetExceeded)
          yield* one.settle(reservation, { tokens: 50, costUsd: null })
          yield* one.settle(reservation, { tokens: 50, costUsd: null })
          assert.strictEqual((yield* two.balance).spent.tokens, 150)
          assert.strictEqual((yield* two.balance).reserved.tokens, 0)
          assert.strictEqual(yield* two.room({ prices: null, promptTokens: 50 }), 800)
          assert.isFalse(store.isAway())
        })
      )
    ))
})
