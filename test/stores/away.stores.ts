import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Logger from "effect/Logger"
import { afterAll, beforeAll } from "vitest"
import { BudgetExceeded } from "../../src/domain/failure/AgentError.ts"
import { RouteHealthConfig } from "../../src/domain/recovery/RouteHealthConfig.ts"
import { newcomer } from "../../src/domain/route/Admission.ts"
import * as BudgetShared from "../../src/layers/stores/shared/BudgetShared.ts"
import * as HealthShared from "../../src/layers/stores/shared/HealthShared.ts"
import type { HealthStoreShape } from "../../src/services/HealthStore.ts"
import { SharedStore, type SharedStoreShape } from "../../src/services/SharedStore.ts"
import { startStore, storeAt, type RunningStore, type StoreKind } from "../support/sharedStores.ts"

const kinds: ReadonlyArray<StoreKind> = ["redis", "postgres"]
const config = RouteHealthConfig.defaults

const admit = (health: HealthStoreShape) =>
  Effect.gen(function* () {
    const [nanos, wall] = yield* Effect.all([Clock.monotonicTimeNanos, Clock.currentTimeMillis])
    const tick = { now: Number(nanos) / 1e6, wall, backoffMillis: null, spread: 0.5, progressMillis: 0 }
    return yield* health.admit({ candidates: ["k\u0000m"], config, asker: newcomer }, tick)
  })

const timed = <A, E, R>(body: Effect.Effect<A, E, R>) =>
  Effect.map(
    Effect.all([Clock.currentTimeMillis, body, Clock.currentTimeMillis]),
    ([from, value, to]) => [value, to - from] as const
  )

const limitOf = (exit: Exit.Exit<unknown, unknown>): string | null => {
  const failure = Exit.isFailure(exit) ? Cause.squash(exit.cause) : null
  return failure instanceof BudgetExceeded ? failure.limit : null
}

/** The store, a ledger and the health over it, and every line that is logged. */
const withAll = <A, E>(
  server: RunningStore,
  body: (all: {
    readonly store: SharedStoreShape
    readonly ledger: Effect.Success<ReturnType<typeof BudgetShared.make>>
    readonly sharing: Effect.Success<ReturnType<typeof BudgetShared.make>>
    readonly health: HealthStoreShape
    readonly lines: ReadonlyArray<string>
  }) => Effect.Effect<A, E>
) => {
  const lines: Array<string> = []
  const logger = Logger.make(({ message }) => void lines.push(String(message)))
  return Effect.gen(function* () {
    const store = yield* storeAt(server.kind, server.address)
    const given = Effect.provideService(SharedStore, SharedStore.of(store))
    const limits = { maxTokens: 1_000_000, maxCostUsd: null }
    const ledger = yield* given(BudgetShared.make({ name: "closed", limits }))
    const whileAway = { maxTokens: 500, maxCostUsd: null }
    const sharing = yield* given(BudgetShared.make({ name: "sharing", limits, whileAway }))
    const health = yield* given(HealthShared.make())
    yield* admit(health)
    return yield* body({ store, ledger, sharing, health, lines })
  }).pipe(Effect.scoped, Effect.provide(Logger.layer([logger])), Effect.runPromise)
}

/** The machine may be busy with other things: the bound is of the code, and a little is the machine's. */
const machineMillis = 300

const untilBack = (store: SharedStoreShape) =>
  Effect.gen(function* () {
    while (store.isAway()) yield* Effect.sleep(20)
  })

const worst = { tokens: 100, costUsd: null }

const through = (server: RunningStore, go: () => unknown, come: () => unknown) =>
  withAll(server, ({ store, ledger, sharing, health, lines }) =>
    Effect.gen(function* () {
      const held = yield* ledger.admit(worst)
      yield* Effect.promise(async () => go())
      const [answer, first] = yield* timed(admit(health))
      assert.strictEqual(answer._tag, "Go")
      assert.isAtMost(first, 250 + machineMillis)
      const [refused] = yield* timed(Effect.exit(ledger.admit(worst)))
      assert.strictEqual(limitOf(refused), "store")
      // It is known by now: nobody waits any more.
      const [, again] = yield* timed(Effect.exit(ledger.admit(worst)))
      const [, more] = yield* timed(admit(health))
      assert.isAtMost(Math.max(again, more), machineMillis)
      const shared = yield* Effect.forEach([1, 2, 3, 4, 5, 6], () => Effect.exit(sharing.admit(worst)))
      assert.deepStrictEqual(shared.map(Exit.isSuccess), [true, true, true, true, true, false])
      // Settled while nobody can be told.
      yield* ledger.settle(held, { tokens: 70, costUsd: null })
      yield* Effect.sleep(1_500)
      assert.isTrue(store.isAway())
      assert.strictEqual(lines.length, 1, lines.join("\n"))
      yield* Effect.promise(async () => come())
      const [, back] = yield* timed(untilBack(store))
      assert.isAtMost(back, 2_000 + machineMillis)
      const next = yield* ledger.admit(worst)
      yield* ledger.settle(next, { tokens: 30, costUsd: null })
      const { spent, reserved } = yield* ledger.balance
      assert.deepStrictEqual([spent.tokens % 100, reserved.tokens], [0, 0])
      // What the share has admitted is reserved in the account now.
      assert.strictEqual((yield* sharing.balance).reserved.tokens % 500, 0)
      assert.strictEqual(lines.length, 2, lines.join("\n"))
      assert.match(lines.join("\n"), /is away: it .*\n.*is back/)
    })
  )

describe.each(kinds)("while %s is away", (kind) => {
  let server: RunningStore
  beforeAll(async () => {
    server = await startStore(kind)
  })
  afterAll(() => server.stop())

  it("goes on by itself within 250 ms when it is frozen, spends nothing or a share, and is back within 2 s", () =>
    through(server, server.freeze, server.thaw))

  it("does the same when it is killed and started again", () => through(server, server.kill, server.start))

  it("lets a process start while it is frozen", async () => {
    server.freeze()
    await withAll(server, ({ store, ledger, health }) =>
      Effect.gen(function* () {
        assert.isTrue(store.isAway())
        assert.strictEqual((yield* admit(health))._tag, "Go")
        assert.strictEqual(limitOf(yield* Effect.exit(ledger.admit(worst))), "store")
        server.thaw()
        yield* Effect.timeout(untilBack(store), "5 seconds")
        yield* ledger.admit(worst)
      })
    ).finally(server.thaw)
  })
})
