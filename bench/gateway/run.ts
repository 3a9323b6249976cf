/**
 * What a request costs a gateway that stands between a client and a provider on loopback: `npm run bench:gateway`. The bare
 * proxy, holdfast and Portkey's gateway take turns in one run; CPU is the subject's own process alone, so that what client
 * and provider cost is not in it. Requests per second share the machine with both. Exit 1 when a target is missed.
 */
import { Agent, request } from "node:http"
import { cpus, loadavg } from "node:os"
import { parseArgs } from "node:util"
import { atOnce, figureOf, print, type Figure } from "../measure.ts"
import { startProcess } from "../provider.ts"
import { cpuOf, rssOf, startBare, startOurs, startPortkey, type Subject } from "./processes.ts"

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "7" },
    json: { type: "string", default: "2000" },
    sse: { type: "string", default: "300" },
    width: { type: "string", default: "32" }
  }
})
const rounds = Number(values.rounds)
const width = Number(values.width)
const chunks = 100

const agent = new Agent({ keepAlive: true, maxSockets: 256 })
const bodyOf = (stream: boolean): string =>
  JSON.stringify({
    model: "bench-1",
    messages: [{ role: "user", content: "When does the tide turn, and how often in a day? ".repeat(20) }],
    ...(stream ? { stream: true, stream_options: { include_usage: true } } : {})
  })

/** One request, read to its end; its bytes. */
const ask = ({ origin, headers }: Subject, body: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const asked = request(
      `${origin}/v1/chat/completions`,
      {
        method: "POST",
        agent,
        headers: {
          "content-type": "application/json",
          authorization: "Bearer bench",
          "content-length": String(Buffer.byteLength(body)),
          ...headers
        }
      },
      (response) => {
        let length = 0
        response.on("data", (chunk: Buffer) => {
          length += chunk.length
        })
        response.on("error", reject)
        response.on("end", () =>
          response.statusCode === 200 ? resolve(length) : reject(new Error(`HTTP ${response.statusCode}`))
        )
      }
    )
    asked.on("error", reject)
    asked.end(body)
  })

interface Sample {
  readonly cpuMicros: number
  readonly perSecond: number
}

const measure = async (subject: Subject, body: string, count: number, expected: number): Promise<Sample> => {
  const cpu = cpuOf(subject.pid)
  const began = performance.now()
  let short = 0
  await atOnce(count, width, async () => {
    if ((await ask(subject, body)) < expected) short += 1
  })
  if (short > 0) throw new Error(`${subject.name}: ${short} answers were cut`)
  const millis = performance.now() - began
  return { cpuMicros: ((cpuOf(subject.pid) - cpu) * 1_000) / count, perSecond: (count * 1_000) / millis }
}

interface Rows {
  readonly cpu: ReadonlyArray<Figure>
  readonly rate: ReadonlyArray<Figure>
}

const compareAll = async (subjects: ReadonlyArray<Subject>, stream: boolean, count: number): Promise<Rows> => {
  const body = bodyOf(stream)
  const first = subjects[0]
  const expected = first === undefined ? 0 : await ask(first, body)
  const samples = new Map<string, Array<Sample>>(subjects.map(({ name }) => [name, []]))
  for (const subject of subjects) await measure(subject, body, count, expected * 0.9)
  for (let round = 0; round < rounds; round += 1)
    for (const subject of round % 2 === 0 ? subjects : subjects.toReversed())
      samples.get(subject.name)?.push(await measure(subject, body, count, expected * 0.9))
  const figures = (pick: (sample: Sample) => number): ReadonlyArray<Figure> =>
    [...samples].map(([name, all]) => figureOf(name, all.map(pick)))
  return { cpu: figures(({ cpuMicros }) => cpuMicros), rate: figures(({ perSecond }) => perSecond) }
}

const medianOf = (figures: ReadonlyArray<Figure>, name: string): number =>
  figures.find((row) => row.name === name)?.median ?? Number.NaN

const bare = "bare proxy"
const ours = "holdfast, live"
const portkey = "@portkey-ai/gateway"

const report = (title: string, { cpu, rate }: Rows, limit: number, most: number | null): number => {
  const value = medianOf(cpu, ours)
  const times = medianOf(rate, ours) / medianOf(rate, portkey)
  const targets = [
    { name: "CPU, ratio to the bare proxy", value: value / medianOf(cpu, bare), limit },
    ...(most === null ? [] : [{ name: "CPU, microseconds", value, limit: most }])
  ]
  print({ title, unit: "microseconds of CPU per request", figures: cpu, base: bare, targets })
  print({ title, unit: "requests per second", figures: rate, base: portkey, targets: [] })
  const byCpu = medianOf(cpu, portkey) / value
  console.log(
    `  ${ours} against ${portkey}: ${times.toFixed(2)} x the requests per second, ${byCpu.toFixed(2)} x the requests per CPU second`
  )
  return targets.filter((target) => target.value > target.limit).length
}

console.log(
  `Node ${process.version}, ${cpus().length} x ${cpus()[0]?.model ?? "unknown processor"}, load ${loadavg()
    .map((one) => one.toFixed(2))
    .join(" ")}`
)
const upstream = await startProcess(new URL("../server.ts", import.meta.url), [String(chunks), "1"])
const address = `http://127.0.0.1:${upstream.port}`
const peers = await startPortkey(address)
const subjects = [await startBare(address), await startOurs(address), ...(peers === null ? [] : [peers])]
let missed = 0
missed += report("A JSON answer", await compareAll(subjects, false, Number(values.json)), 3, 250)
missed += report(`A stream of ${chunks} chunks`, await compareAll(subjects, true, Number(values.sse)), 1.5, null)
console.log(`\nmemory: ${subjects.map(({ name, pid }) => `${name} ${rssOf(pid).toFixed(0)} MB`).join(", ")}`)
for (const subject of subjects) await subject.stop()
upstream.stop()
agent.destroy()
console.log(missed === 0 ? "\nevery target met" : `\n${missed} targets missed`)
process.exit(missed === 0 ? 0 : 1)
