import { assert, it } from "@effect/vitest"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Random from "effect/Random"
import { TestClock } from "effect/testing"
import { ConfigurationError } from "../../../../src/domain/failure/ConfigurationError.ts"
import { BudgetExceeded } from "../../../../src/domain/failure/AgentError.ts"
import * as BudgetShared from "../../../../src/layers/stores/shared/BudgetShared.ts"
import * as StoreSqlite from "../../../../src/layers/stores/shared/StoreSqlite.ts"
import type { LedgerShape, Reservation } from "../../../../src/services/BudgetLedger.ts"
import { SharedStore, StoreAway, type SharedStoreShape } from "../../../../src/services/SharedStore.ts"
import { runs } from "../../../support/runs.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "holdfast-shared-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

const sqlite = Effect.flatMap(folder, (path) => StoreSqlite.make({ path: join(path, "shared.db") }))

const ledgerOn = (store: SharedStoreShape, options: Partial<BudgetShared.BudgetSharedOptions> = {}) =>
  BudgetShared.make({ name: "a", limits: { maxTokens: 1_000, maxCostUsd: null }, ...options }).pipe(
    Effect.provideService(SharedStore, SharedStore.of(store))
  )

/** A store that can be cut off, before or after it has done what it was asked. */
const cuttable = (store: SharedStoreShape) => {
  let cut: "here" | "before" | "after" = "here"
  const away = (isSent: boolean) => new StoreAway({ store: "test", reason: "is away", isSent })
  const through = <A>(asked: Effect.Effect<A, StoreAway>): Effect.Effect<A, StoreAway> =>
    Effect.suspend(() =>
      cut === "here"
        ? asked
        : cut === "before"
          ? Effect.fail(away(false))
          : Effect.andThen(asked, Effect.fail(away(true)))
    )
  const shape: SharedStoreShape = {
    name: "test",
    isAway: () => cut !== "here",
    reserve: (one) => through(store.reserve(one)),
    settle: (one) => through(store.settle(one)),
    renew: (all) => through(store.renew(all)),
    standings: (accounts) => through(store.standings(accounts)),
    swap: (one, patience) => through(store.swap(one, patience))
  }
  return { shape, set: (next: typeof cut) => void (cut = next) }
}

const limitOf = (exit: Exit.Exit<unknown, unknown>): string | null => {
  const failure = Exit.isFailure(exit) ? Cause.squash(exit.cause) : null
  return failure instanceof BudgetExceeded ? failure.limit : null
}

const below = (limit: number) => Effect.map(Random.next, (chance) => Math.floor(chance * limit))

const tokens = (count: number) => ({ tokens: count, costUsd: null })

it.effect("equals the sum of what was settled, whatever is cut off in between, and never admits beyond its limit", () =>
  Effect.gen(function* () {
    for (let run = 0; run < Math.ceil(runs(400) / 20); run += 1)
      yield* Effect.scoped(
        Effect.gen(function* () {
          const store = yield* sqlite
          const parts = [cuttable(store), cuttable(store), cuttable(store)]
          const ledgers = yield* Effect.forEach(parts, ({ shape }) => ledgerOn(shape))
          const held: Array<readonly [LedgerShape, Reservation]> = []
          let spent = 0
          for (let step = 0; step < 60; step += 1) {
            const at = yield* below(3)
            const [ledger, part] = [ledgers[at]!, parts[at]!]
            const what = yield* below(10)
            if (what < 2) part.set(["here", "before", "after"][yield* below(3)] as "here")
            else if (what < 6) {
              const exit = yield* Effect.exit(ledger.admit(tokens(1 + (yield* below(300)))))
              if (Exit.isSuccess(exit)) held.push([ledger, exit.value])
            } else if (held.length > 0) {
              const [[owner, reservation]] = held.splice(yield* below(held.length), 1) as [[LedgerShape, Reservation]]
              const used = yield* below(reservation.worst.tokens + 1)
              spent += used
              yield* owner.settle(reservation, tokens(used))
            }
            const reserved = held.reduce((sum, [, { worst }]) => sum + worst.tokens, 0)
            assert.isAtMost(spent + reserved, 1_000)
          }
          for (const part of parts) part.set("here")
          for (const [owner, reservation] of held) {
            spent += reservation.worst.tokens
            yield* owner.settle(reservation, reservation.worst)
          }
          // Each process tells what it could not tell before.
          for (const ledger of ledgers) yield* ledger.balance
          const end = yield* ledgers[0]!.balance
          assert.strictEqual(end.spent.tokens, spent)
          assert.strictEqual(end.reserved.tokens, 0)
        })
      )
  })
)

it.effect("holds a reservation as long as its process lives, and one lease longer", () =>
  Effect.gen(function* () {
    const store = yield* sqlite
    const dying = cuttable(store)
    const other = yield* ledgerOn(store)
    const one = yield* ledgerOn(dying.shape)
    yield* one.admit(tokens(1_000))
    yield* TestClock.adjust("10 minutes")
    assert.strictEqual(limitOf(yield* Effect.exit(other.admit(tokens(1)))), "tokens")
    dying.set("before")
    yield* TestClock.adjust("39 seconds")
    assert.strictEqual(limitOf(yield* Effect.exit(other.admit(tokens(1)))), "tokens")
    yield* TestClock.adjust("21 seconds")
    yield* other.admit(tokens(1))
  })
)

it.effect("books what was spent also when the lease had ended", () =>
  Effect.gen(function* () {
    const store = yield* sqlite
    const frozen = cuttable(store)
    const one = yield* ledgerOn(frozen.shape)
    const reservation = yield* one.admit(tokens(400))
    frozen.set("before")
    yield* TestClock.adjust("2 minutes")
    assert.strictEqual((yield* (yield* ledgerOn(store)).balance).reserved.tokens, 0)
    yield* one.settle(reservation, tokens(300))
    frozen.set("here")
    yield* TestClock.adjust("1 second")
    assert.strictEqual((yield* (yield* ledgerOn(store)).balance).spent.tokens, 300)
  })
)

it.effect("admits nothing while the store is away, and says so", () =>
  Effect.gen(function* () {
    const part = cuttable(yield* sqlite)
    const ledger = yield* ledgerOn(part.shape)
    part.set("before")
    const exit = yield* Effect.exit(ledger.admit(tokens(1)))
    assert.strictEqual(limitOf(exit), "store")
    const failure = Exit.isFailure(exit) ? Cause.squash(exit.cause) : null
    assert.match(String(failure), /the store of the shared budget does not answer/)
    part.set("here")
    yield* ledger.admit(tokens(1))
  })
)

it.effect("spends its share while the store is away, no more than was left, and books it after", () =>
  Effect.gen(function* () {
    const store = yield* sqlite
    const part = cuttable(store)
    const ledger = yield* ledgerOn(part.shape, { whileAway: { maxTokens: 500, maxCostUsd: null } })
    const first = yield* ledger.admit(tokens(700))
    yield* ledger.settle(first, tokens(700))
    part.set("before")
    const share = yield* ledger.admit(tokens(300))
    assert.strictEqual(limitOf(yield* Effect.exit(ledger.admit(tokens(1)))), "tokens")
    yield* ledger.settle(share, tokens(250))
    part.set("here")
    yield* TestClock.adjust("1 second")
    const { spent, reserved } = yield* (yield* ledgerOn(store)).balance
    assert.deepStrictEqual([spent.tokens, reserved.tokens], [950, 0])
  })
)

it.effect("asks a child's own limit and the shared one, and gives back what the shared one refuses", () =>
  Effect.gen(function* () {
    const ledger = yield* ledgerOn(yield* sqlite)
    const child = yield* ledger.child({ maxTokens: 1_500, maxCostUsd: null })
    const taken = yield* ledger.admit(tokens(900))
    assert.strictEqual(limitOf(yield* Effect.exit(child.admit(tokens(200)))), "tokens")
    assert.strictEqual((yield* child.balance).reserved.tokens, 0)
    yield* ledger.settle(taken, tokens(0))
    const own = yield* child.admit(tokens(200))
    yield* child.settle(own, tokens(150))
    assert.deepStrictEqual([(yield* child.balance).spent.tokens, (yield* ledger.balance).spent.tokens], [150, 150])
    assert.strictEqual(child.limits.maxTokens, 1_000)
  })
)

it.effect("refuses what has no price under a limit in USD, without asking the store", () =>
  Effect.gen(function* () {
    const ledger = yield* ledgerOn(yield* sqlite, { limits: { maxTokens: null, maxCostUsd: 1 } })
    assert.strictEqual(limitOf(yield* Effect.exit(ledger.admit(tokens(1)))), "usd")
  })
)

it.effect.each([
  { options: { name: "" }, field: "name" },
  { options: { limits: { maxTokens: -1, maxCostUsd: null } }, field: "limits.maxTokens" },
  { options: { limits: { maxTokens: null, maxCostUsd: Number.NaN } }, field: "limits.maxCostUsd" },
  { options: { whileAway: { maxTokens: Infinity, maxCostUsd: null } }, field: "whileAway.maxTokens" },
  { options: { lease: "10 millis" as const }, field: "lease" },
  { options: { lease: "Infinity" as const }, field: "lease" }
])("names the field that cannot work: $field", ({ options, field }) =>
  Effect.gen(function* () {
    const failure = yield* Effect.flip(ledgerOn(yield* sqlite, options))
    assert.instanceOf(failure, ConfigurationError)
    assert.strictEqual(failure.field, field)
  })
)
