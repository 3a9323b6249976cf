/**
 * What a recovered client costs over loopback HTTP, 64 at once: `holdfast(new OpenAI())` against the bare client, and
 * `recoveredFetch` alone over holdfast's transport; a JSON reply, and a stream of 100 chunks.
 */
import OpenAI from "openai"
import type { ChatCompletionMessageParam } from "openai/resources/chat/completions"
import { holdfast, recoveredFetch, RecoveryPolicy } from "../src/fetch.ts"
import { undiciTransport } from "../src/layers/provider/undiciExchange.ts"
import { atOnce, compare, medianOf, type Row, type Table } from "./measure.ts"
import { startProvider, type Provider } from "./provider.ts"
import { messages, model } from "./subjects.ts"

const width = 64
const chunks = 100
const sent: Array<ChatCompletionMessageParam> = JSON.parse(JSON.stringify(messages))
const body = { model, messages: sent, max_tokens: 8_000 }
const streamed = { ...body, stream: true as const, stream_options: { include_usage: true } }

const bare = "openai SDK"
const wrapped = "holdfast(new OpenAI())"
const alone = "recoveredFetch, holdfast's transport"

type Fetch = (input: string, init: RequestInit) => Promise<Response>

interface Work {
  readonly bySdk: (client: OpenAI) => Promise<unknown>
  readonly byFetch: (fetch: Fetch, baseUrl: string) => Promise<unknown>
}

const post = (fetch: Fetch, baseUrl: string, sentBody: object): Promise<Response> =>
  fetch(`${baseUrl}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer bench-key" },
    body: JSON.stringify(sentBody)
  })

const enough = (seen: number): void => {
  if (seen < chunks * 6) throw new Error(`only ${seen} characters of the stream arrived`)
}

const json: Work = {
  bySdk: (client) => client.chat.completions.create(body),
  byFetch: async (fetch, baseUrl) => (await post(fetch, baseUrl, body)).json()
}

const stream: Work = {
  bySdk: async (client) => {
    let seen = 0
    for await (const chunk of await client.chat.completions.create(streamed))
      seen += chunk.choices[0]?.delta.content?.length ?? 0
    enough(seen)
  },
  byFetch: async (fetch, baseUrl) => {
    let seen = 0
    const { body: read } = await post(fetch, baseUrl, streamed)
    if (read !== null) for await (const bytes of read) seen += bytes.length
    enough(seen)
  }
}

const tableOf = async (title: string, { bySdk, byFetch }: Work, baseUrl: string, count: number): Promise<Table> => {
  const options = { apiKey: "bench-key", baseURL: baseUrl, maxRetries: 0 }
  const transport = undiciTransport()
  const row = (name: string, work: () => Promise<unknown>): Row => ({
    name,
    run: (times) => atOnce(times, width, work)
  })
  const client = new OpenAI(options)
  const recovered = holdfast(new OpenAI(options), RecoveryPolicy.broad)
  const fast = holdfast(new OpenAI(options), RecoveryPolicy.broad, { fetch: transport as never })
  const fetch = recoveredFetch(RecoveryPolicy.broad, { fetch: transport as never })
  const rows = [
    row(bare, () => bySdk(client)),
    row(wrapped, () => bySdk(recovered)),
    row("holdfast(new OpenAI()), holdfast's transport", () => bySdk(fast)),
    row(alone, () => byFetch(fetch, baseUrl)),
    row("Node's fetch alone", () => byFetch(globalThis.fetch, baseUrl))
  ]
  // A shorter warm-up would measure the compilation of the rows with the most code.
  const figures = await compare(rows, { rounds: 11, count, warmUp: count * 5 })
  return {
    title: `${title}, ${width} at once`,
    unit: "microseconds of CPU per call",
    figures,
    base: bare,
    targets: [
      {
        name: "the same client, recovered, ratio",
        value: medianOf(figures, wrapped) / medianOf(figures, bare),
        limit: 1.15
      },
      {
        name: "the fetch alone, ratio to the SDK",
        value: medianOf(figures, alone) / medianOf(figures, bare),
        limit: 0.6
      }
    ]
  }
}

export const native = ({ baseUrl }: Provider): Promise<Table> =>
  tableOf("A native JSON reply over loopback HTTP", json, baseUrl, 768)

export const nativeStream = async (): Promise<Table> => {
  const provider = await startProvider(chunks)
  try {
    return await tableOf(`A native stream of ${chunks} chunks`, stream, provider.baseUrl, 192)
  } finally {
    provider.stop()
  }
}
