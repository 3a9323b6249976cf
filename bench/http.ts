/** CPU per call over loopback HTTP, 64 at once: the bare `openai` SDK and holdfast, each with both transports. */
import * as Effect from "effect/Effect"
import OpenAI from "openai"
import type { ChatCompletionMessageParam } from "openai/resources/chat/completions"
import { RecoveryPolicy } from "../src/domain/recovery/RecoveryPolicy.ts"
import * as UndiciFetch from "../src/layers/provider/undiciFetch.ts"
import type { ModelRequestExecutor } from "../src/services/Recovery.ts"
import { atOnce, compare, medianOf, type Row, type Table } from "./measure.ts"
import type { Provider } from "./provider.ts"
import { clientOf, messages, model, recoveryOver } from "./subjects.ts"

const width = 64

const bare = "openai SDK"
const ours = "holdfast, default transport"
const oursWithFetch = "holdfast, Node's fetch"

export const http = async ({ baseUrl }: Provider): Promise<Table> => {
  const apiKey = "bench-key"
  const sdk = new OpenAI({ apiKey, baseURL: baseUrl, maxRetries: 0 })
  const fast = new OpenAI({ apiKey, baseURL: baseUrl, maxRetries: 0, fetch: UndiciFetch.make() })
  const sent: Array<ChatCompletionMessageParam> = JSON.parse(JSON.stringify(messages))
  const body = { model, messages: sent, max_tokens: 8_000 }
  const bySdk = (client: OpenAI, isAbortable: boolean) => (count: number) =>
    atOnce(count, width, () =>
      client.chat.completions.create(body, isAbortable ? { signal: new AbortController().signal } : {})
    )
  const byHoldfast = (recovery: ModelRequestExecutor) => (count: number) =>
    Effect.runPromise(
      Effect.forEach(Array.from({ length: count }), () => recovery.complete({ messages }), {
        concurrency: width,
        discard: true
      })
    )
  const withFetch = clientOf(baseUrl, { fetch: globalThis.fetch })
  const rows: ReadonlyArray<Row> = [
    { name: bare, run: bySdk(sdk, false) },
    { name: "openai SDK, caller's AbortSignal", run: bySdk(sdk, true) },
    { name: "openai SDK, holdfast's transport", run: bySdk(fast, false) },
    { name: oursWithFetch, run: byHoldfast(await recoveryOver(withFetch, RecoveryPolicy.strict)) },
    { name: ours, run: byHoldfast(await recoveryOver(clientOf(baseUrl), RecoveryPolicy.strict)) },
    {
      name: "holdfast broad, default transport",
      run: byHoldfast(await recoveryOver(clientOf(baseUrl), RecoveryPolicy.broad))
    }
  ]
  const figures = await compare(rows, { rounds: 11, count: 768, warmUp: 1_536 })
  return {
    title: `A call over loopback HTTP, ${width} at once`,
    unit: "microseconds of CPU per call",
    figures,
    base: bare,
    targets: [
      {
        name: "both with Node's fetch, ratio to the SDK",
        value: medianOf(figures, oursWithFetch) / medianOf(figures, bare),
        limit: 1.25
      },
      {
        name: "as installed, ratio to the SDK",
        value: medianOf(figures, ours) / medianOf(figures, bare),
        limit: 1
      }
    ]
  }
}
