import { assert, describe, it } from "@effect/vitest"
import { mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { SharedStoreShape } from "../../../../src/services/SharedStore.ts"
import { SharedStore, StoreAway } from "../../../../src/services/SharedStore.ts"
import * as StoreSqlite from "../../../../src/layers/stores/shared/StoreSqlite.ts"
import type { Admitted } from "../../../../src/programs/commands/gateway/budgets.ts"
import type { GatewayKey } from "../../../../src/programs/commands/gateway/GatewayConfig.ts"
import { dayMillis, minuteMillis, type KeyLimits } from "../../../../src/programs/commands/gateway/KeyBudget.ts"
import { makeSharedBudgets } from "../../../../src/programs/commands/gateway/sharedBudgets.ts"

const keyWith = (budget: KeyLimits, name = "CALLER"): GatewayKey => ({ name, secret: Redacted.make("k"), budget })

/** The store forgets what is long over: the beginning of this minute. */
const noon = Math.floor(Date.now() / minuteMillis) * minuteMillis
const restOfDay = (dayMillis - (noon % dayMillis)) / 1_000

/** The store of a file, which can be away for one of the gateways. */
const places = (path: string) =>
  Effect.map(StoreSqlite.make({ path }), (store) => {
    let isAway = false
    const orAway = <A>(effect: Effect.Effect<A, StoreAway>): Effect.Effect<A, StoreAway> =>
      Effect.suspend(() =>
        isAway ? Effect.fail(new StoreAway({ store: "file", reason: "is away", isSent: true })) : effect
      )
    const shape: SharedStoreShape = {
      ...store,
      reserve: (one) => orAway(store.reserve(one)),
      settle: (one) => orAway(store.settle(one)),
      renew: (some) => orAway(store.renew(some)),
      isAway: () => isAway
    }
    return { shape, leave: () => void (isAway = true), comeBack: () => void (isAway = false) }
  })

const gateway = (shape: SharedStoreShape, now: () => number = () => noon, usdWhileAway: number | null = null) =>
  Effect.provideService(makeSharedBudgets({ now, usdWhileAway }), SharedStore, shape)

const withFile = <A>(body: (path: string) => Effect.Effect<A, unknown, Scope.Scope>): Promise<A> =>
  Effect.runPromise(Effect.scoped(body(join(mkdtempSync(join(tmpdir(), "shared-")), "shared.db"))))

const told = (answer: Admitted): string =>
  answer._tag === "Refused" ? `${answer.limit} ${answer.seconds}` : answer._tag

const settle = (answer: Admitted, tokens: number, usd: number | null): void => {
  if (answer._tag !== "Admitted") throw new Error(told(answer))
  answer.settle({ tokens, usd })
}

describe("budgets that gateways share", () => {
  it("never pass a limit together, and give back what was not spent", () =>
    withFile((path) =>
      Effect.gen(function* () {
        const [one, two] = yield* Effect.all([
          Effect.flatMap(places(path), ({ shape }) => gateway(shape)),
          Effect.flatMap(places(path), ({ shape }) => gateway(shape))
        ])
        const key = keyWith({ usdPerDay: 10 })
        const worst = { tokens: 100, usd: 1 }
        const ask = (many: number) =>
          Effect.promise(() =>
            Promise.all(
              Array.from({ length: many }, (_, at) => (at % 2 === 0 ? one : two)).map(({ admit }) => admit(key, worst))
            )
          )
        const first = yield* ask(30)
        const admitted = first.filter(({ _tag }) => _tag === "Admitted")
        assert.strictEqual(admitted.length, 10)
        assert.deepStrictEqual(
          new Set(first.filter((answer) => answer._tag === "Refused").map(told)),
          new Set([`usdPerDay ${restOfDay}`])
        )
        for (const answer of admitted) settle(answer, 50, 0.25)
        // A second time changes nothing.
        for (const answer of admitted) settle(answer, 50, 9)
        yield* Effect.sleep(100)
        const second = yield* ask(30)
        assert.strictEqual(second.filter(({ _tag }) => _tag === "Admitted").length, 7)
        assert.strictEqual(one.spending().get("CALLER"), 9.5)
        assert.strictEqual(
          told(yield* Effect.promise(async () => two.admit(keyWith({ usdPerDay: 1 }, "OTHER"), worst))),
          "Admitted"
        )
      })
    ))

  it("count requests and tokens of a minute together, a request larger than the window alone in it", () =>
    withFile((path) =>
      Effect.gen(function* () {
        let now = noon
        const stores = yield* Effect.all([places(path), places(path)])
        const [one, two] = yield* Effect.all(stores.map(({ shape }) => gateway(shape, () => now)))
        const admit = (of: typeof one, limits: KeyLimits, tokens: number) =>
          Effect.promise(async () => await of!.admit(keyWith(limits), { tokens, usd: null }))
        const requests = { requestsPerMinute: 2 }
        assert.strictEqual(told(yield* admit(one, requests, 1)), "Admitted")
        assert.strictEqual(told(yield* admit(two, requests, 1)), "Admitted")
        assert.strictEqual(told(yield* admit(one, requests, 1)), "requestsPerMinute 60")
        now += minuteMillis
        assert.strictEqual(told(yield* admit(one, requests, 1)), "Admitted")
        now += minuteMillis
        const tokens = { tokensPerMinute: 1_000 }
        assert.strictEqual(told(yield* admit(one, tokens, 5_000)), "Admitted")
        now += 15_000
        assert.strictEqual(told(yield* admit(two, tokens, 1)), "tokensPerMinute 45")
      })
    ))

  it("are closed for money and open for rates while the store is away, and book what happened meanwhile", () =>
    withFile((path) =>
      Effect.gen(function* () {
        const [near, far] = yield* Effect.all([places(path), places(path)])
        const [one, two] = yield* Effect.all([gateway(near.shape), gateway(far.shape)])
        const key = keyWith({ usdPerDay: 10, requestsPerMinute: 100 })
        const worst = { tokens: 100, usd: 1 }
        const before = yield* Effect.promise(async () => one.admit(key, worst))
        near.leave()
        assert.strictEqual(told(yield* Effect.promise(async () => one.admit(key, worst))), "Away")
        const rates = keyWith({ requestsPerMinute: 2 }, "RATES")
        const answers = yield* Effect.promise(async () => [
          await one.admit(rates, worst),
          await one.admit(rates, worst),
          await one.admit(rates, worst)
        ])
        assert.deepStrictEqual(answers.map(told), ["Admitted", "Admitted", "requestsPerMinute 60"])
        settle(before, 10, 0.5)
        near.comeBack()
        yield* Effect.sleep(600)
        yield* Effect.promise(async () => two.admit(key, worst))
        assert.strictEqual(two.spending().get("CALLER"), 1.5)
      })
    ))

  it("have a share of their own while the store is away, when the configuration gives one", () =>
    withFile((path) =>
      Effect.gen(function* () {
        const [near, far] = yield* Effect.all([places(path), places(path)])
        const [one, two] = yield* Effect.all([gateway(near.shape, () => noon, 2), gateway(far.shape)])
        const key = keyWith({ usdPerDay: 10 })
        const worst = { tokens: 100, usd: 1 }
        near.leave()
        const answers = yield* Effect.promise(async () => [
          await one.admit(key, worst),
          await one.admit(key, worst),
          await one.admit(key, worst)
        ])
        assert.deepStrictEqual(answers.map(told), ["Admitted", "Admitted", `usdPerDay ${restOfDay}`])
        for (const answer of answers.slice(0, 2)) settle(answer, 100, 0.75)
        near.comeBack()
        yield* Effect.sleep(600)
        yield* Effect.promise(async () => two.admit(key, worst))
        assert.strictEqual(two.spending().get("CALLER"), 2.5)
      })
    ))
})
