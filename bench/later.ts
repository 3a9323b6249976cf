/**
 * What each layer costs when answers come in a later turn of the event loop, 64 calls at once, as over a network: the
 * adapter alone, the loop above it, the Promise edge above that. In memory and over loopback HTTP, apart.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import OpenAI from "openai"
import type { ChatCompletionMessageParam } from "openai/resources/chat/completions"
import { request } from "undici"
import { RecoveryPolicy, type RecoveryPolicyInput } from "../src/domain/recovery/RecoveryPolicy.ts"
import { makeReply } from "../src/layers/ScriptedModel.ts"
import * as UndiciFetch from "../src/layers/provider/undiciFetch.ts"
import { createRecovery } from "../src/promise.ts"
import { ModelClient } from "../src/services/ModelClient.ts"
import { atOnce, compare, medianOf, type Row, type Table } from "./measure.ts"
import type { Provider } from "./provider.ts"
import { clientOf, messages, model, recoveryOver } from "./subjects.ts"

const width = 64
type Client = (typeof ModelClient)["Service"]
type Preset = Omit<RecoveryPolicyInput, "routes">

const wire = { messages, model, maxOutputTokens: 8_000, role: "main" as const }

/** Timers and route health off, one by one: what the loop's cost is made of. */
const untimed: Partial<RecoveryPolicyInput> = {
  deadline: null,
  hardCap: null,
  firstTokenTimeout: null,
  idleTimeout: null,
  contentTimeout: null,
  attemptTimeout: null,
  heartbeat: null
}

const inEffect = (call: Effect.Effect<unknown, unknown>) => (count: number) =>
  Effect.runPromise(Effect.forEach(Array.from({ length: count }), () => call, { concurrency: width, discard: true }))

/** Rows over one client: adapter, loop, edge. */
const layersOver = async (name: string, client: Client): Promise<ReadonlyArray<Row>> => {
  const over = async (preset: Preset) => {
    const recovery = await recoveryOver(client, preset)
    return inEffect(Effect.suspend(() => recovery.complete({ messages })))
  }
  const edge = (preset: Preset) => {
    const recovery = createRecovery({ policy: { ...preset, routes: [{ model }] }, client })
    return (count: number) => atOnce(count, width, () => recovery.complete({ messages }))
  }
  return [
    { name: `${name}: adapter alone`, run: inEffect(Effect.suspend(() => client.generate(wire))) },
    { name: `${name}: Recovery broad`, run: await over(RecoveryPolicy.broad) },
    { name: `${name}: without timers`, run: await over({ ...RecoveryPolicy.broad, ...untimed }) },
    { name: `${name}: without route health`, run: await over({ ...RecoveryPolicy.broad, routeHealth: null }) },
    { name: `${name}: without both`, run: await over({ ...RecoveryPolicy.broad, ...untimed, routeHealth: null }) },
    { name: `${name}: Promise edge broad`, run: edge(RecoveryPolicy.broad) },
    { name: `${name}: Promise edge strict`, run: edge(RecoveryPolicy.strict) }
  ]
}

const targetsOf = (figures: Table["figures"], name: string): Table["targets"] => {
  const at = (row: string): number => medianOf(figures, `${name}: ${row}`)
  return [
    {
      name: `${name}: loop above the adapter, microseconds`,
      value: at("Recovery broad") - at("adapter alone"),
      limit: 40
    },
    {
      name: `${name}: edge above the loop, microseconds`,
      value: at("Promise edge broad") - at("Recovery broad"),
      limit: 15
    }
  ]
}

export const later = async (): Promise<Table> => {
  const reply = makeReply({ text: "At noon.", model })
  const client = ModelClient.of({
    generate: () =>
      Effect.callback((resume) => {
        setImmediate(() => resume(Effect.succeed(reply)))
      }),
    stream: () => Stream.empty
  })
  const rows = await layersOver("memory", client)
  const figures = await compare(rows, { rounds: 11, count: 4_096, warmUp: 8_192 })
  return {
    title: `Answers in a later turn of the event loop, in memory, ${width} at once`,
    unit: "microseconds of CPU per call",
    figures,
    base: "memory: adapter alone",
    targets: targetsOf(figures, "memory")
  }
}

export const laterHttp = async ({ baseUrl }: Provider): Promise<Table> => {
  const sent: Array<ChatCompletionMessageParam> = JSON.parse(JSON.stringify(messages))
  const body = { model, messages: sent, max_tokens: 8_000 }
  const text = JSON.stringify(body)
  const bySdk = (sdk: OpenAI) => (count: number) => atOnce(count, width, () => sdk.chat.completions.create(body))
  const apiKey = "bench-key"
  const rows: ReadonlyArray<Row> = [
    {
      name: "bare undici",
      run: (count) =>
        atOnce(count, width, async () => {
          const answer = await request(`${baseUrl}/chat/completions`, { method: "POST", body: text })
          return answer.body.json()
        })
    },
    { name: "openai SDK, its default retries", run: bySdk(new OpenAI({ apiKey, baseURL: baseUrl })) },
    {
      name: "openai SDK, holdfast's transport",
      run: bySdk(new OpenAI({ apiKey, baseURL: baseUrl, maxRetries: 0, fetch: UndiciFetch.make() }))
    },
    ...(await layersOver("http", clientOf(baseUrl)))
  ]
  // A shorter warm-up would measure the compilation of the rows with the most code.
  const figures = await compare(rows, { rounds: 9, count: 768, warmUp: 4_096 })
  return {
    title: `Answers over loopback HTTP, ${width} at once`,
    unit: "microseconds of CPU per call",
    figures,
    base: "openai SDK, its default retries",
    targets: [
      ...targetsOf(figures, "http"),
      {
        name: "http: Promise edge broad, ratio to the SDK with its retries",
        value: medianOf(figures, "http: Promise edge broad") / medianOf(figures, "openai SDK, its default retries"),
        limit: 1
      }
    ]
  }
}
