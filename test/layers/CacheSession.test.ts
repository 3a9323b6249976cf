import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as CacheSession from "../../src/layers/CacheSession.ts"

it.effect("keeps the first lifetime it was offered, whatever the source says later", () =>
  Effect.gen(function* () {
    const said = [null, "5m", "1h"] as const
    let asked = 0
    const ttl = yield* CacheSession.make(Effect.sync(() => said[asked++] ?? null))
    assert.deepStrictEqual([yield* ttl, yield* ttl, yield* ttl, yield* ttl], [null, "5m", "5m", "5m"])
    assert.strictEqual(asked, 2)
  })
)
