/**
 * The built gateway as a process under load: requests of all three APIs at a steady rate, half of them streams, a share of
 * them meeting faults and a share of their clients leaving midway. Prints what was lost or doubled, what failed in which
 * words, memory by the minute and what stays open: `npm run build && node bench/gateway/soak.ts [--seconds 600] [--rate 40]`.
 * Exit 1 when an answer was lost or doubled, or a socket stays.
 */
import { Agent, request } from "node:http"
import { cpus, loadavg } from "node:os"
import { parseArgs } from "node:util"
import { startGateway } from "../agents/gatewayProcess.ts"
import { startProcess } from "../provider.ts"
import { pathOf, wholeText, type WireName } from "../wall/answers.ts"
import { hearAll } from "../wall/client.ts"
import { cpuOf, rssOf } from "./processes.ts"

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "120" },
    rate: { type: "string", default: "40" },
    // Silence after the load, to see what is given back.
    idle: { type: "string", default: "60" }
  }
})
const seconds = Number(values.seconds)
const rate = Number(values.rate)

const wires: ReadonlyArray<WireName> = ["chat", "responses", "messages"]
/** Mostly fine; now and then what an agent meets in a day. A name of its own for each, so that every fault comes once. */
const faults = ["limited", "failing", "overloaded", "reset", "cut", "garbage", "endless", "page", "silent"]
const faultShare = 0.1
const leavingShare = 0.02

const provider = await startProcess(new URL("soakProvider.ts", import.meta.url), [])
const origin = `http://127.0.0.1:${provider.port}`
const gateway = await startGateway(origin, {}, { built: true })
const agent = new Agent({ keepAlive: true, maxSockets: Infinity })

/** The same places in every run. */
const shareOf = (index: number, seed: number): number => (index * 0.618_034 + seed) % 1

const prompt = "When does the tide turn, and how often in a day? ".repeat(80)
const bodyOf = (wire: WireName, model: string, stream: boolean): string => {
  const messages = [{ role: "user", content: prompt }]
  const own =
    wire === "responses" ? { input: messages } : wire === "messages" ? { messages, max_tokens: 1_000 } : { messages }
  return JSON.stringify({ model, stream, ...own })
}

interface Answered {
  readonly status: number
  readonly text: string
  readonly isBroken: boolean
}

/** One request, read to its end or, for a client that leaves, to its first byte. */
const send = (wire: WireName, body: string, leaves: boolean): Promise<Answered> =>
  new Promise((resolve) => {
    let status = 0
    const chunks: Array<Buffer> = []
    const end = (isBroken: boolean): void => resolve({ status, text: Buffer.concat(chunks).toString("utf8"), isBroken })
    const asked = request(
      `${gateway.origin}${pathOf[wire]}`,
      {
        method: "POST",
        agent,
        headers: { "content-type": "application/json", "content-length": Buffer.byteLength(body) }
      },
      (response) => {
        status = response.statusCode ?? 0
        response.on("data", (chunk: Buffer) => {
          chunks.push(chunk)
          if (leaves) asked.destroy()
        })
        response.on("error", () => end(true))
        response.on("end", () => end(false))
      }
    )
    asked.on("error", () => end(true))
    asked.end(body)
  })

const textIn = (wire: WireName, text: string): string => {
  const told = JSON.parse(text) as Record<string, unknown>
  const path =
    wire === "chat"
      ? ["choices", 0, "message", "content"]
      : wire === "messages"
        ? ["content", 0, "text"]
        : ["output", 0, "content", 0, "text"]
  return String(path.reduce<unknown>((inner, key) => Reflect.get(inner as object, key), told))
}

const counts = { asked: 0, whole: 0, told: 0, lost: 0, differing: 0, left: 0 }
/** What failed, by fault and words. */
const failures = new Map<string, number>()
let slowestMillis = 0

const failed = (kind: string, words: string): void => {
  const name = `${kind}: ${words.replace(/:\d+/g, "").slice(0, 200)}`
  failures.set(name, (failures.get(name) ?? 0) + 1)
}

const judge = (wire: WireName, kind: string, streams: boolean, { status, text, isBroken }: Answered): void => {
  if (status >= 400) {
    counts.told += 1
    return failed(kind, `${status} ${text}`)
  }
  const heard = isBroken
    ? { text: "", isWhole: false, error: `broken after ${text.length} bytes: ${text.slice(-150)}` }
    : streams
      ? hearAll(wire, text)
      : { text: textIn(wire, text), isWhole: true, error: null }
  if (heard.isWhole && heard.text === wholeText) counts.whole += 1
  else if (heard.isWhole) {
    counts.differing += 1
    failed(kind, `another text: ${heard.text}`)
  } else if (heard.error !== null && !isBroken) {
    counts.told += 1
    failed(kind, heard.error)
  } else {
    counts.lost += 1
    failed(kind, heard.error ?? "no end")
  }
}

const one = async (index: number): Promise<void> => {
  const isFaulty = shareOf(index, 0) < faultShare
  const kind = isFaulty ? (faults[Math.floor(index / 7) % faults.length] ?? "") : "ok"
  const wire = wires[index % wires.length] ?? "chat"
  const streams = index % 2 === 0
  const leaves = !isFaulty && shareOf(index, 0.5) < leavingShare
  counts.asked += 1
  const began = performance.now()
  const answered = await send(wire, bodyOf(wire, isFaulty ? `${kind}:${index}` : "ok", streams), leaves)
  const took = performance.now() - began
  if (took > 25_000) failed(kind, `${wire}, stream ${streams}: took ${Math.round(took / 1_000)} s`)
  slowestMillis = Math.max(slowestMillis, took)
  if (leaves) counts.left += 1
  else judge(wire, kind, streams, answered)
}

const megabytes = (bytes: number): number => Math.round(bytes / 1_048_576)

const metric = (text: string, name: string): number =>
  Number(new RegExp(`^${name} (\\S+)`, "m").exec(text)?.[1] ?? Number.NaN)

const line = async (name: string, underway: number): Promise<void> => {
  const text = await (await fetch(`${gateway.origin}/metrics`)).text()
  const heap = megabytes(metric(text, "nodejs_heap_size_used_bytes"))
  console.log(
    `${name}: rss ${rssOf(gateway.pid).toFixed(1)} MB, heap ${heap} MB, kept ${megabytes(metric(text, "holdfast_kept_bytes"))} MB, under way ${underway}, slowest ${Math.round(slowestMillis)} ms, load ${loadavg()[0]?.toFixed(2)}, ${JSON.stringify(counts)}`
  )
  slowestMillis = 0
}

console.log(
  `Node ${process.version}, ${cpus().length} x ${cpus()[0]?.model ?? "unknown processor"}, ${rate}/s for ${seconds} s`
)
await line("before", 0)
const began = performance.now()
const cpuBefore = cpuOf(gateway.pid)
const under = new Set<Promise<void>>()
let sent = 0
let nextReport = 60_000
while (performance.now() - began < seconds * 1_000) {
  const due = Math.floor(((performance.now() - began) / 1_000) * rate)
  for (; sent < due; sent += 1) {
    const running = one(sent).finally(() => under.delete(running))
    under.add(running)
  }
  if (performance.now() - began > nextReport) {
    await line(`minute ${Math.round(nextReport / 60_000)}`, under.size)
    nextReport += 60_000
  }
  await new Promise((resolve) => setTimeout(resolve, 5))
}
await Promise.all(under)
const cpu = cpuOf(gateway.pid) - cpuBefore
await line("end", 0)
agent.destroy()
await new Promise((resolve) => setTimeout(resolve, Number(values.idle) * 1_000))
await line(`after ${values.idle} s of rest`, 0)
const told = (await (await fetch(`${origin}/told`)).json()) as {
  readonly requests: number
  readonly tooOften: ReadonlyArray<readonly [name: string, count: number]>
  readonly sockets: number
}
for (const [words, count] of [...failures].sort(([, left], [, right]) => right - left))
  console.log(`${count} x ${words}`)
for (const [name, count] of told.tooOften) console.log(`asked ${count} times: ${name}`)
console.log(
  JSON.stringify({
    ...counts,
    requestsPerSecond: Math.round((counts.asked / seconds) * 10) / 10,
    cpuMicrosPerRequest: Math.round((cpu * 1_000) / counts.asked),
    requestsAtProvider: told.requests,
    askedTooOften: told.tooOften.length,
    socketsAtProvider: told.sockets
  })
)
console.log(`exit code after SIGTERM: ${await gateway.close()}`)
provider.stop()
process.exit(counts.lost + counts.differing + told.sockets + told.tooOften.length === 0 ? 0 : 1)
