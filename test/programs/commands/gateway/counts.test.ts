/** What the gateway tells of itself: metrics that are the sums of its events, and no more of them however callers name things. */
import { assert, describe, it } from "@effect/vitest"
import { afterEach } from "vitest"
import { pathOf, type WireName } from "../../../../bench/wall/answers.ts"
import { ask } from "../../../../bench/wall/client.ts"
import { startProvider } from "../../../../bench/wall/provider.ts"
import type { RecoveryEvent } from "../../../../src/domain/recovery/RecoveryEvent.ts"
import { makeBudgets } from "../../../../src/programs/commands/gateway/budgets.ts"
import { makeParts, makeShared } from "../../../../src/programs/commands/gateway/gateway.ts"
import { resolveConfig } from "../../../../src/programs/commands/gateway/GatewayConfig.ts"
import { startServer } from "../../../../src/programs/commands/gateway/server.ts"
import { isWhole } from "../../../support/runs.ts"

const open: Array<() => Promise<void>> = []
afterEach(async () => {
  for (const close of open.splice(0)) await close()
})

const prices = { inputPerM: 1_000, outputPerM: 2_000 }

const start = async (environment: Readonly<Record<string, string>>, more: object = {}) => {
  const provider = await startProvider({ unit: 5 })
  const value = {
    listen: { port: 0 },
    upstreams: { main: { baseUrl: provider.baseUrl } },
    routes: { "*": { upstream: "main", prices, policy: { backoff: { base: 1, factor: 2, cap: 5, jitter: 0 } } } },
    ...more
  }
  const config = resolveConfig("test", { value, placeOf: () => null }, environment)
  const budgets = makeBudgets(() => Date.now())
  const made = makeShared(budgets, () => 0)
  const events: Array<RecoveryEvent> = []
  const shared = {
    ...made,
    meter: (event: RecoveryEvent) => {
      events.push(event)
      made.meter(event)
    }
  }
  const server = await startServer({ parts: makeParts(config, shared), budgets, onFault: () => undefined })
  open.push(async () => {
    await server.drain(0)
    await provider.close()
  })
  return { provider, server, shared, events, config, budgets }
}

type Lines = ReadonlyMap<string, number>

const metricsAt = async (address: string): Promise<Lines> => {
  const text = await (await fetch(`${address}/metrics`)).text()
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"))
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ")))]))
}

const sumOf = (lines: Lines, name: string, label = ""): number =>
  [...lines].reduce((sum, [key, value]) => (key.startsWith(`${name}{`) && key.includes(label) ? sum + value : sum), 0)

const wires: ReadonlyArray<WireName> = ["chat", "responses", "messages"]

describe("the metrics of the gateway", () => {
  it("are the sums of its events, for answers, recoveries and failures of every wire", async () => {
    const { server, events, provider } = await start({})
    for (const [index, model] of ["ok", "s03", "s05", "s08", "s13", "ok"].entries())
      await ask({
        baseUrl: `${server.address}/v1`,
        wire: wires[index % wires.length] ?? "chat",
        model: `${model}:${index}`,
        headers: { "x-holdfast-fallback": "fb-ok" }
      })
    const lines = await metricsAt(server.address)
    const usages = events.flatMap((event) => (event._tag === "UsageSeen" ? [event] : []))
    const ended = events.flatMap((event) => (event._tag === "Finished" ? [event] : []))
    const total = (values: ReadonlyArray<number | null>) => values.reduce<number>((sum, one) => sum + (one ?? 0), 0)
    assert.strictEqual(sumOf(lines, "holdfast_attempts"), total(ended.map(({ attempts }) => attempts)))
    assert.strictEqual(sumOf(lines, "holdfast_attempts"), provider.asked.length)
    assert.strictEqual(
      sumOf(lines, "gen_ai_client_token_usage", 'type="input"'),
      total(usages.map(({ usage }) => usage.promptTokens))
    )
    assert.strictEqual(
      sumOf(lines, "gen_ai_client_token_usage", 'type="output"'),
      total(usages.map(({ usage }) => usage.completionTokens))
    )
    assert.approximately(sumOf(lines, "holdfast_cost_usd"), total(usages.map(({ costUsd }) => costUsd)), 1e-9)
    assert.isAbove(sumOf(lines, "holdfast_cost_usd"), 0)
    assert.strictEqual(sumOf(lines, "gen_ai_client_operation_duration_count"), ended.length)
    const goingOn = events.filter(
      (event) => event._tag === "Transitioned" && event.action._tag !== "Done" && event.action._tag !== "Fail"
    )
    assert.strictEqual(sumOf(lines, "holdfast_recoveries"), goingOn.length)
    assert.isAtLeast(sumOf(lines, "holdfast_resumed_streams"), 1)
  })

  it("stay under 2,000 series with 1,000 keys, each asking for models of its own that fail in every way", async () => {
    const names = Array.from({ length: 1_000 }, (_, index) => `KEY${index}`)
    const { server, shared, events, config, budgets } = await start(
      Object.fromEntries(names.map((name) => [name, `secret-${name}`])),
      {
        keys: names.map((name) => `env:${name}`),
        budgets: Object.fromEntries(names.map((name) => [`env:${name}`, { usdPerDay: 100 }]))
      }
    )
    const headers = { authorization: "Bearer secret-KEY7", "x-holdfast-fallback": "fb-ok" }
    for (const model of ["ok", "s01", "s03", "s05", "s08", "s12", "s13", "nowhere"])
      await ask({ baseUrl: `${server.address}/v1`, wire: "chat", model, headers })
    // What these requests told is told again by each key, of models of its own.
    const seen = [...events]
    for (const [index, key] of config.keys.entries()) {
      budgets.admit(key, { tokens: 10, usd: 0.01 * index })
      for (const event of seen)
        shared.meter({
          ...event,
          requestId: `${event.requestId}-${index}`,
          ...(event._tag === "AttemptStarted" ? { model: `${event.model}-${index}` } : {})
        })
    }
    const lines = await metricsAt(server.address)
    assert.isAbove(lines.size, 500)
    assert.isAtMost(lines.size, 2_000)
    const sent = (told: ReadonlyArray<RecoveryEvent>) => told.filter(({ _tag }) => _tag === "AttemptStarted").length
    assert.strictEqual(sumOf(lines, "holdfast_attempts"), sent(events))
  })

  it("and routes are remembered for some hundred models, whatever callers ask for", async () => {
    const { server, shared } = await start({})
    const names = Array.from({ length: isWhole ? 1_200 : 60 }, (_, index) => `nowhere:${"x".repeat(100)}${index}`)
    await Promise.all(
      [0, 1, 2, 3].map(async (lane) => {
        for (let index = lane; index < names.length; index += 4)
          await ask({ baseUrl: `${server.address}/v1`, wire: "chat", model: names[index] ?? "" })
      })
    )
    assert.isAtLeast(shared.states.size, Math.min(names.length, 500))
    assert.isAtMost(shared.states.size, 500)
  })
})

describe("the names that callers choose", () => {
  it("are refused when they are too long to be one", async () => {
    const { server, provider } = await start({})
    const answer = await fetch(`${server.address}${pathOf.chat}`, {
      method: "POST",
      body: JSON.stringify({ model: "m".repeat(513), messages: [] })
    })
    assert.strictEqual(answer.status, 400)
    assert.include(await answer.text(), "longer than 512")
    assert.strictEqual(provider.asked.length, 0)
  })

  it("are no fallback when they name the model itself", async () => {
    const { server, provider } = await start({})
    const heard = await ask({
      baseUrl: `${server.address}/v1`,
      wire: "chat",
      model: "s12",
      headers: { "x-holdfast-fallback": "s12" }
    })
    assert.include(heard.error ?? "", "context_length_exceeded")
    assert.deepStrictEqual(
      provider.asked.map(({ model }) => model),
      ["s12"]
    )
    const other = await ask({
      baseUrl: `${server.address}/v1`,
      wire: "chat",
      model: "s12",
      headers: { "x-holdfast-fallback": "fb-ok" }
    })
    assert.isTrue(other.isWhole)
  })
})
