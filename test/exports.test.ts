import { assert, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as agent from "../src/agent.ts"
import * as ai from "../src/ai.ts"
import * as anthropic from "../src/anthropic.ts"
import * as cluster from "../src/cluster.ts"
import * as durable from "../src/durable.ts"
import * as fetch from "../src/fetch.ts"
import * as core from "../src/index.ts"
import * as openai from "../src/openai.ts"
import * as postgres from "../src/postgres.ts"
import * as prices from "../src/prices.ts"
import * as promise from "../src/promise.ts"
import * as redis from "../src/redis.ts"
import * as sqlite from "../src/sqlite.ts"
import * as stores from "../src/stores.ts"
import * as telemetry from "../src/telemetry.ts"
import * as testing from "../src/testing.ts"

/** Public names are promises: a change here is a change for users and needs a change note. */
it("exports these names", () => {
  assert.deepStrictEqual(
    {
      agent: Object.keys(agent).sort(),
      ai: Object.keys(ai).sort(),
      anthropic: Object.keys(anthropic).sort(),
      cluster: Object.keys(cluster).sort(),
      core: Object.keys(core).sort(),
      durable: Object.keys(durable).sort(),
      fetch: Object.keys(fetch).sort(),
      openai: Object.keys(openai).sort(),
      postgres: Object.keys(postgres).sort(),
      prices: Object.keys(prices).sort(),
      promise: Object.keys(promise).sort(),
      redis: Object.keys(redis).sort(),
      sqlite: Object.keys(sqlite).sort(),
      stores: Object.keys(stores).sort(),
      telemetry: Object.keys(telemetry).sort(),
      testing: Object.keys(testing).sort()
    },
    JSON.parse(readFileSync(join(import.meta.dirname, "fixtures/public-names.json"), "utf8"))
  )
})

/** An entry point that the table above forgets would be a promise nobody holds. */
it("pins every entry point of the package", () => {
  const { exports } = JSON.parse(readFileSync(join(import.meta.dirname, "../package.json"), "utf8")) as {
    readonly exports: Readonly<Record<string, unknown>>
  }
  const names = JSON.parse(readFileSync(join(import.meta.dirname, "fixtures/public-names.json"), "utf8")) as object
  const entries = Object.keys(exports).filter((name) => name !== "./package.json")
  assert.deepStrictEqual(
    entries.map((name) => (name === "." ? "core" : name.slice(2))).sort(),
    Object.keys(names).sort()
  )
})

it("has every entry point for import and for require", () => {
  const { exports }: { readonly exports: Readonly<Record<string, unknown>> } = JSON.parse(
    readFileSync(join(import.meta.dirname, "../package.json"), "utf8")
  )
  for (const [entry, target] of Object.entries(exports))
    if (typeof target === "object")
      for (const [condition, path] of [
        ["default", /^\.\/dist\/\w+\.js$/],
        ["node", /^\.\/dist\/node\/\w+\.js$/]
      ] as const)
        assert.match(Reflect.get(target ?? {}, condition) ?? "", path, entry)
})
