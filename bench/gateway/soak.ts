/**
 * The gateway as a process under load: requests at a steady rate, a share of them meeting faults, for minutes. Prints what was
 * lost or doubled, memory by the minute and what stays open: `node bench/gateway/soak.ts [--seconds 120] [--rate 100]`.
 */
import { parseArgs } from "node:util"
import { startGateway } from "../agents/gatewayProcess.ts"
import { wholeText, type WireName } from "../wall/answers.ts"
import { ask } from "../wall/client.ts"
import { startProvider } from "../wall/provider.ts"
import { cpuOf, rssOf } from "./processes.ts"

const { values } = parseArgs({
  options: { seconds: { type: "string", default: "120" }, rate: { type: "string", default: "100" } }
})
const seconds = Number(values.seconds)
const rate = Number(values.rate)

const wires: ReadonlyArray<WireName> = ["chat", "responses", "messages"]
/** Mostly fine; now and then what an agent meets in a day. A name of its own for each, so that every fault comes once. */
const faults = ["s01", "s03", "s05", "s08", "s10", "s11"]
const faultShare = 0.1

const provider = await startProvider({ unit: 5 })
const gateway = await startGateway(provider.baseUrl.replace(/\/v1$/, ""))
const counts = { asked: 0, whole: 0, failed: 0, cut: 0, differing: 0 }
const under = new Set<Promise<void>>()
const one = async (index: number): Promise<void> => {
  const isFaulty = (index * 0.618_034) % 1 < faultShare
  const model = isFaulty ? `${faults[index % faults.length] ?? ""}:${index}` : "ok"
  const wire = wires[index % wires.length] ?? "chat"
  const headers = { "x-holdfast-fallback": "fb-ok" }
  counts.asked += 1
  const heard = await ask({ baseUrl: `${gateway.origin}/v1`, wire, model, headers })
  if (heard.isWhole && heard.text === wholeText) counts.whole += 1
  else if (heard.isWhole) counts.differing += 1
  else if (heard.error !== null) counts.failed += 1
  else counts.cut += 1
}

const began = performance.now()
const cpuBefore = cpuOf(gateway.pid)
let sent = 0
let nextReport = 15_000
while (performance.now() - began < seconds * 1_000) {
  const due = Math.floor(((performance.now() - began) / 1_000) * rate)
  for (; sent < due; sent += 1) {
    const running = one(sent).finally(() => under.delete(running))
    under.add(running)
  }
  // What the provider remembers of earlier requests is no part of the measurement; the latest tell attempts apart.
  if (provider.asked.length > 4_000) (provider.asked as Array<unknown>).splice(0, 2_000)
  if (performance.now() - began > nextReport) {
    nextReport += 15_000
    const rss = Math.round(rssOf(gateway.pid))
    console.log(
      `${Math.round((performance.now() - began) / 1_000)} s: rss ${rss} MB, under way ${under.size}, ${JSON.stringify(counts)}`
    )
  }
  await new Promise((resolve) => setTimeout(resolve, 10))
}
await Promise.all(under)
const cpu = cpuOf(gateway.pid) - cpuBefore
await new Promise((resolve) => setTimeout(resolve, 6_000))
console.log(
  JSON.stringify({
    ...counts,
    requestsPerSecond: Math.round(counts.asked / seconds),
    cpuMicrosPerRequest: Math.round((cpu * 1_000) / counts.asked),
    rssMB: Math.round(rssOf(gateway.pid)),
    socketsAtProvider: provider.openSockets()
  })
)
console.log(`exit code after SIGTERM: ${await gateway.close()}`)
await provider.close()
