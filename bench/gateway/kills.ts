/**
 * Clients that are killed at random bytes, some of them twice, before the built gateway as a process: each comes back for the
 * rest, with its run id and an offset, or with the id of its background response and the number of its last event. Exit 1 when
 * one does not get every byte, a provider was asked twice, or more is kept than may be:
 * `npm run build && node bench/gateway/kills.ts [--clients 1000] [--seed 1]`.
 */
import { request } from "node:http"
import { cpus, loadavg } from "node:os"
import { parseArgs } from "node:util"
import { startGateway } from "../agents/gatewayProcess.ts"
import { atOnce } from "../measure.ts"
import { pathOf, wholeText, type WireName } from "../wall/answers.ts"
import { hearAll } from "../wall/client.ts"
import { startProvider } from "../wall/provider.ts"
import { rssOf } from "./processes.ts"

const { values } = parseArgs({
  options: {
    clients: { type: "string", default: "1000" },
    seed: { type: "string", default: "1" },
    width: { type: "string", default: "16" }
  }
})
const clients = Number(values.clients)

/** Chance that can be had again. */
let state = Number(values.seed)
const below = (limit: number): number => {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
  return Math.floor((state / 2 ** 32) * limit)
}

const provider = await startProvider({ unit: 10, ownIds: true })
const gateway = await startGateway(provider.baseUrl.replace(/\/v1$/, ""), {}, { built: true })
const wires: ReadonlyArray<WireName> = ["chat", "responses", "messages"]

interface Heard {
  readonly status: number
  readonly bytes: Buffer
}

/** Reads so many bytes at most, then kills its connection; Infinity = to the end. */
const read = (
  method: string,
  path: string,
  body: string | null,
  headers: Record<string, string>,
  most: number
): Promise<Heard> =>
  new Promise((resolve) => {
    const chunks: Array<Buffer> = []
    let length = 0
    let status = 0
    const end = (): void => resolve({ status, bytes: Buffer.concat(chunks).subarray(0, most) })
    const asked = request(`${gateway.origin}${path}`, { method, headers }, (response) => {
      status = response.statusCode ?? 0
      response.on("data", (chunk: Buffer) => {
        chunks.push(chunk)
        length += chunk.length
        if (length >= most) asked.destroy()
      })
      response.on("error", () => undefined)
      response.on("close", end)
    })
    asked.on("error", end)
    asked.end(body ?? undefined)
  })

const longest: Readonly<Record<WireName, number>> = { chat: 12_000, responses: 17_000, messages: 9_000 }
const faults: Array<string> = []
const counts = { byRunId: 0, byResponseId: 0, killed: 0, bytesBefore: 0, bytesAfter: 0, refusedAtFirst: 0 }

const bodyOf = (wire: WireName, model: string): Record<string, unknown> =>
  wire === "responses" ? { model, stream: true, input: "go" } : { model, stream: true, max_tokens: 1_000, messages: [] }

/** Every whole event that was seen, and the number of the last one. */
const seenOf = (bytes: Buffer): { readonly text: string; readonly last: number } => {
  const all = bytes.toString("utf8")
  const text = all.slice(0, all.lastIndexOf("\n\n") + 2)
  return { text, last: Number([...text.matchAll(/"sequence_number":(\d+)/g)].at(-1)?.[1] ?? -1) }
}

const byResponseId = async (model: string): Promise<void> => {
  const body = JSON.stringify({ ...bodyOf("responses", model), background: true, store: true })
  const headers = { "content-type": "application/json" }
  // Its id stands in the first event: a client that has not seen that knows nothing to come back with.
  const first = await read("POST", pathOf.responses, body, headers, 600 + below(16_000))
  const id = /"id":"(resp_[^"]+)"/.exec(first.bytes.toString("utf8"))?.[1] ?? ""
  let { text, last } = seenOf(first.bytes)
  counts.killed += 1
  for (const most of [1 + below(6_000), Infinity]) {
    const after = last < 0 ? "" : `&starting_after=${last}`
    const more = await read("GET", `${pathOf.responses}/${id}?stream=true${after}`, null, {}, most)
    if (more.status !== 200) faults.push(`${model}: ${more.status} ${more.bytes.toString("utf8").slice(0, 200)}`)
    const seen = seenOf(more.bytes)
    text += seen.text
    last = Math.max(last, seen.last)
    if (most < Infinity) counts.killed += 1
  }
  counts.byResponseId += 1
  const numbers = [...text.matchAll(/"sequence_number":(\d+)/g)].map(([, number]) => Number(number))
  if (numbers.some((number, index) => number !== index)) faults.push(`${model}: its events are ${numbers.join(" ")}`)
  judge(model, "responses", text)
}

const judge = (model: string, wire: WireName, text: string): void => {
  const heard = hearAll(wire, text)
  if (!heard.isWhole || heard.text !== wholeText) faults.push(`${model}: ${heard.error ?? heard.text}`)
}

const byRunId = async (model: string, wire: WireName): Promise<void> => {
  const body = JSON.stringify(bodyOf(wire, model))
  const headers = { "x-holdfast-run-id": `run-${model}`, "content-type": "application/json" }
  const first = await read("POST", pathOf[wire], body, headers, 1 + below(longest[wire]))
  counts.bytesBefore += first.bytes.length
  let seen = first.bytes
  counts.killed += 1
  for (const most of [...(below(3) === 0 ? [1 + below(3_000)] : []), Infinity]) {
    const more = await read("POST", pathOf[wire], body, { ...headers, "x-holdfast-offset": String(seen.length) }, most)
    if (more.status !== 200) faults.push(`${model}: ${more.status}`)
    seen = Buffer.concat([seen, more.bytes])
    counts.bytesAfter += more.bytes.length
    if (most < Infinity) counts.killed += 1
  }
  counts.byRunId += 1
  const whole = await read("POST", pathOf[wire], body, headers, Infinity)
  if (!whole.bytes.equals(seen)) faults.push(`${model}: other bytes than the whole has`)
  judge(model, wire, seen.toString("utf8"))
}

const keptBytes = async (): Promise<number> => {
  const text = await (await fetch(`${gateway.origin}/metrics`)).text()
  return Number(/^holdfast_kept_bytes (\S+)/m.exec(text)?.[1])
}

console.log(
  `Node ${process.version}, ${cpus().length} x ${cpus()[0]?.model ?? "unknown processor"}, load ${loadavg()[0]?.toFixed(2)}; rss before ${rssOf(gateway.pid).toFixed(0)} MB`
)
let index = 0
await atOnce(clients, Number(values.width), async () => {
  const number = index++
  const isBackground = number % 4 === 3
  // One in ten is refused at first, too; but a background response, which is made once.
  const isBroken = number % 10 === 9 && !isBackground
  if (isBroken) counts.refusedAtFirst += 1
  const model = `${isBroken ? "s03" : "ok"}:${number}`
  await (isBackground ? byResponseId(model) : byRunId(model, wires[number % wires.length] ?? "chat"))
})
const times = new Map<string, number>()
for (const { model } of provider.asked) times.set(model, (times.get(model) ?? 0) + 1)
for (const [model, count] of times)
  if (count !== (model.startsWith("s03") ? 2 : 1)) faults.push(`${model}: its provider was asked ${count} times`)
const kept = await keptBytes()
if (!(kept <= 64 * 1024 * 1024)) faults.push(`${kept} bytes are kept`)
for (const fault of faults.slice(0, 20)) console.log(fault)
console.log(
  JSON.stringify({
    clients,
    ...counts,
    askedAtProvider: provider.asked.length,
    keptMB: Math.round(kept / 104_857.6) / 10,
    rssMB: Math.round(rssOf(gateway.pid)),
    faults: faults.length
  })
)
await gateway.close()
await provider.close()
process.exitCode = faults.length === 0 ? 0 : 1
