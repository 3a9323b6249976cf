/**
 * This checkout against others in one run, row by row: `node bench/versions.ts ../another-checkout ...`. Each needs its
 * packages; a checkout without an entry (no `holdfast/fetch`) has no row of it. The first one named is what ratios are taken
 * against.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import OpenAI from "openai"
import { resolve } from "node:path"
import { existsSync } from "node:fs"
import { pathToFileURL } from "node:url"
import { loadavg } from "node:os"
import { atOnce, compare, medianOf, print, type Figure, type Row } from "./measure.ts"
import { startProvider } from "./provider.ts"
import { messages, model } from "./subjects.ts"

type Subjects = typeof import("./subjects.ts")
type FetchEntry = typeof import("../src/fetch.ts")
type Transport = typeof import("../src/layers/provider/undiciExchange.ts")
type UndiciFetch = typeof import("../src/layers/provider/undiciFetch.ts")
type Scripted = typeof import("../src/layers/ScriptedModel.ts")
type Policies = typeof import("../src/domain/recovery/RecoveryPolicy.ts")
type Clients = typeof import("../src/services/ModelClient.ts")

const width = 64
const chunks = 100
const body = { model, messages: JSON.parse(JSON.stringify(messages)), max_tokens: 8_000 }
const streamed = { ...body, stream: true as const, stream_options: { include_usage: true } }

interface Version {
  readonly name: string
  readonly root: string
}

const own: Version = { name: "this checkout", root: resolve(import.meta.dirname, "..") }

const load = async <A>({ root }: Version, path: string): Promise<A> =>
  (await import(pathToFileURL(resolve(root, path)).href)) as A

const all = (call: () => Effect.Effect<unknown, unknown>) => (count: number) =>
  Effect.runPromise(
    Effect.forEach(Array.from({ length: count }), () => Effect.suspend(call), { concurrency: width, discard: true })
  )

/** Rows of one version, by the name of the table they stand in. */
const rowsOf = async (version: Version, baseUrl: string): Promise<Readonly<Record<string, Row["run"]>>> => {
  const { clientOf, recoveryOver } = await load<Subjects>(version, "bench/subjects.ts")
  const { RecoveryPolicy } = await load<Policies>(version, "src/domain/recovery/RecoveryPolicy.ts")
  const { makeReply } = await load<Scripted>(version, "src/layers/ScriptedModel.ts")
  const { ModelClient } = await load<Clients>(version, "src/services/ModelClient.ts")
  const reply = makeReply({ text: "At noon.", model })
  const memory = ModelClient.of({ generate: () => Effect.succeed(reply), stream: () => Stream.empty })
  const inMemory = await recoveryOver(memory, RecoveryPolicy.broad)
  const strict = await recoveryOver(clientOf(baseUrl), RecoveryPolicy.strict)
  const broad = await recoveryOver(clientOf(baseUrl), RecoveryPolicy.broad)
  const rows = {
    "in memory, broad": (count: number) =>
      Effect.runPromise(
        Effect.replicateEffect(
          Effect.suspend(() => inMemory.complete({ messages })),
          count,
          { discard: true }
        )
      ),
    "HTTP, strict": all(() => strict.complete({ messages })),
    "HTTP, broad": all(() => broad.complete({ messages })),
    "a stream of 100 chunks, broad": all(() => Stream.runDrain(broad.stream({ messages })))
  }
  return existsSync(resolve(version.root, "src/fetch.ts")) ? { ...rows, ...(await nativeRows(version, baseUrl)) } : rows
}

/** The default transport of that time. */
const transportOf = async (version: Version): Promise<ReturnType<Transport["undiciTransport"]>> => {
  const path = "src/layers/provider/undiciExchange.ts"
  if (existsSync(resolve(version.root, path))) return (await load<Transport>(version, path)).undiciTransport()
  return (await load<UndiciFetch>(version, "src/layers/provider/undiciFetch.ts")).make()
}

const nativeRows = async (version: Version, baseUrl: string): Promise<Readonly<Record<string, Row["run"]>>> => {
  const { holdfast, recoveredFetch, RecoveryPolicy } = await load<FetchEntry>(version, "src/fetch.ts")
  const transport = await transportOf(version)
  const client = holdfast(new OpenAI({ apiKey: "bench-key", baseURL: baseUrl, maxRetries: 0 }), RecoveryPolicy.broad)
  const alone = recoveredFetch(RecoveryPolicy.broad, { fetch: transport })
  const post = async (sent: object): Promise<string> => {
    const headers = { "content-type": "application/json", authorization: "Bearer bench-key" }
    return (await alone(`${baseUrl}/chat/completions`, { method: "POST", headers, body: JSON.stringify(sent) })).text()
  }
  const read = async (): Promise<void> => {
    for await (const _ of await client.chat.completions.create(streamed));
  }
  return {
    "holdfast(new OpenAI()), JSON": (count) => atOnce(count, width, () => client.chat.completions.create(body)),
    "recoveredFetch, JSON": (count) => atOnce(count, width, () => post(body)),
    "holdfast(new OpenAI()), 100 chunks": (count) => atOnce(count, width, read),
    "recoveredFetch, 100 chunks": (count) => atOnce(count, width, () => post(streamed))
  }
}

const countOf = (title: string): number => (title.includes("memory") ? 8_000 : title.includes("chunks") ? 192 : 768)

const versions = [
  ...process.argv.slice(2).map((root): Version => ({ name: root, root: resolve(process.cwd(), root) })),
  own
]
const provider = await startProvider(chunks)
const made = await Promise.all(versions.map((version) => rowsOf(version, provider.baseUrl)))
console.log(
  `Node ${process.version}, load ${loadavg()
    .map((one) => one.toFixed(2))
    .join(" ")}`
)
for (const title of Object.keys(made.at(-1) ?? {})) {
  const rows = versions.flatMap(({ name }, at): ReadonlyArray<Row> => {
    const run = made[at]?.[title]
    return run === undefined ? [] : [{ name, run }]
  })
  const count = countOf(title)
  const figures: ReadonlyArray<Figure> = await compare(rows, { rounds: 9, count, warmUp: count * 4 })
  const first = rows[0]?.name ?? own.name
  print({ title, unit: "microseconds of CPU per call", figures, base: first, targets: [] })
  console.log(`  ratio ${(medianOf(figures, own.name) / medianOf(figures, first)).toFixed(2)}`)
}
provider.stop()
process.exit(0)
