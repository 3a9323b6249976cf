/**
 * CPU per chunk of a long stream, one stream after the other; and the time to the first token. The floor is undici with
 * nothing but an SSE parser and JSON.parse. Rows of other clients run when bench/ has them installed.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { createParser } from "eventsource-parser"
import OpenAI from "openai"
import type { ChatCompletionMessageParam } from "openai/resources/chat/completions"
import { request } from "undici"
import { RecoveryPolicy } from "../src/domain/recovery/RecoveryPolicy.ts"
import type { ModelRequestExecutor } from "../src/services/Recovery.ts"
import { compare, figureOf, medianOf, type Row, type Table } from "./measure.ts"
import { others } from "./others.ts"
import type { Provider } from "./provider.ts"
import { clientOf, messages, model, recoveryOver } from "./subjects.ts"

/** Chunks of one stream. */
export const chunks = 2_000

const bare = "openai SDK iterator"
const ours = "holdfast strict"
const floor = "floor: undici, eventsource-parser"

const sent: Array<ChatCompletionMessageParam> = JSON.parse(JSON.stringify(messages))
const body = {
  model,
  messages: sent,
  max_tokens: 8_000,
  stream: true as const,
  stream_options: { include_usage: true }
}

const times = (work: () => Promise<number>) => async (count: number) => {
  for (let run = 0; run < count; run += 1) {
    const seen = await work()
    if (seen < chunks * 6) throw new Error(`only ${seen} characters of the stream arrived`)
  }
}

/** Reads it all; the length of the text. */
const bySdk = async (sdk: OpenAI): Promise<number> => {
  let seen = 0
  for await (const chunk of await sdk.chat.completions.create(body))
    seen += chunk.choices[0]?.delta.content?.length ?? 0
  return seen
}

const byHoldfast = (recovery: ModelRequestExecutor): Promise<number> =>
  Effect.runPromise(
    Effect.suspend(() => {
      let seen = 0
      return Stream.runForEachArray(recovery.stream({ messages }), (parts) => {
        for (const part of parts) if (part._tag === "TextDelta") seen += part.text.length
        return Effect.void
      }).pipe(Effect.map(() => seen))
    })
  )

const byUndici = async (baseUrl: string): Promise<number> => {
  let seen = 0
  const parser = createParser({
    onEvent: ({ data }) => {
      if (data === "[DONE]") return
      const chunk: { choices: Array<{ delta: { content?: string } }> } = JSON.parse(data)
      seen += chunk.choices[0]?.delta.content?.length ?? 0
    }
  })
  const answer = await request(`${baseUrl}/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body)
  })
  const decoder = new TextDecoder()
  for await (const piece of answer.body) parser.feed(decoder.decode(piece, { stream: true }))
  return seen
}

export const stream = async ({ baseUrl }: Provider): Promise<Table> => {
  const sdk = new OpenAI({ apiKey: "bench-key", baseURL: baseUrl, maxRetries: 0 })
  const client = clientOf(baseUrl)
  const strict = await recoveryOver(client, RecoveryPolicy.strict)
  const broad = await recoveryOver(client, RecoveryPolicy.broad)
  const withFetch = await recoveryOver(clientOf(baseUrl, { fetch: globalThis.fetch }), RecoveryPolicy.strict)
  const peers = await others(baseUrl, model)
  const rows: ReadonlyArray<Row> = [
    { name: floor, run: times(() => byUndici(baseUrl)) },
    { name: bare, run: times(() => bySdk(sdk)) },
    { name: ours, run: times(() => byHoldfast(strict)) },
    { name: "holdfast broad", run: times(() => byHoldfast(broad)) },
    { name: "holdfast strict, Node's fetch", run: times(() => byHoldfast(withFetch)) },
    ...peers.map(({ name, read }): Row => ({ name, run: times(read) }))
  ]
  const figures = await compare(rows, { rounds: 9, count: 4, warmUp: 6, units: chunks })
  return {
    title: `A stream of ${chunks} chunks`,
    unit: "microseconds of CPU per chunk",
    figures,
    base: bare,
    targets: [
      {
        name: "per chunk, ratio to the SDK's iterator",
        value: medianOf(figures, ours) / medianOf(figures, bare),
        limit: 1.25
      },
      ...peers.map(({ name }) => ({
        name: `per chunk, ratio to ${name}`,
        value: medianOf(figures, ours) / medianOf(figures, name),
        limit: 1
      }))
    ]
  }
}

/** Milliseconds from the call to the first text, one request at a time, rows in turn. */
export const firstToken = async ({ baseUrl }: Provider): Promise<Table> => {
  const sdk = new OpenAI({ apiKey: "bench-key", baseURL: baseUrl, maxRetries: 0 })
  const recovery = await recoveryOver(clientOf(baseUrl), RecoveryPolicy.broad)
  const ends: ReadonlyArray<{ readonly name: string; readonly first: () => Promise<unknown> }> = [
    {
      name: bare,
      first: async () => {
        for await (const chunk of await sdk.chat.completions.create(body))
          if ((chunk.choices[0]?.delta.content ?? "") !== "") return chunk
        return null
      }
    },
    {
      name: "holdfast broad",
      first: () =>
        Effect.runPromise(Stream.runHead(Stream.filter(recovery.stream({ messages }), (p) => p._tag === "TextDelta")))
    }
  ]
  const samples = ends.map((): Array<number> => [])
  for (let round = -20; round < 150; round += 1)
    for (const [index, { first }] of ends.entries()) {
      const before = performance.now()
      await first()
      if (round >= 0) samples[index]!.push(performance.now() - before)
    }
  const figures = ends.map(({ name }, index) => figureOf(name, samples[index]!))
  return {
    title: "From the call to the first token and the end of the reading",
    unit: "milliseconds",
    figures,
    base: bare,
    targets: [
      {
        name: "first token, ratio to the SDK",
        value: medianOf(figures, "holdfast broad") / medianOf(figures, bare),
        limit: 1.5
      }
    ]
  }
}
