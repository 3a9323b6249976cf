/**
 * How soon a request ends at the provider when its client goes away: the built gateway as a process, each API, streamed and not,
 * before and after the first byte, from the client's close to the close of the gateway's connection at the provider.
 * `npm run build && node bench/gateway/leaving.ts [--times 50]`. Exit 1 when one took longer than 50 ms, or did not end.
 */
import { createServer, request, type ServerResponse } from "node:http"
import { cpus, loadavg } from "node:os"
import type { AddressInfo } from "node:net"
import { parseArgs } from "node:util"
import { startGateway } from "../agents/gatewayProcess.ts"
import { answerOf, pathOf, type WireName } from "../wall/answers.ts"

const { values } = parseArgs({
  options: { times: { type: "string", default: "50" } }
})
const times = Number(values.times)
const limitMillis = 50

const wires: ReadonlyArray<WireName> = ["chat", "responses", "messages"]

/** The latest request at the provider: when it came, and when its connection was closed. */
interface Call {
  readonly arrived: Promise<ServerResponse>
  readonly closedAt: Promise<number>
}

let tellArrived: (response: ServerResponse) => void = () => undefined
let tellClosed: (at: number) => void = () => undefined
const nextCall = (): Call => ({
  arrived: new Promise((resolve) => {
    tellArrived = resolve
  }),
  closedAt: new Promise((resolve) => {
    tellClosed = resolve
  })
})

const provider = createServer((asked, response) => {
  asked.resume()
  // Its own event, not a poll: the instant at which the provider knows.
  response.on("close", () => tellClosed(performance.now()))
  asked.on("end", () => tellArrived(response))
})
await new Promise<void>((resolve) => provider.listen(0, "127.0.0.1", resolve))
const gateway = await startGateway(`http://127.0.0.1:${(provider.address() as AddressInfo).port}`, {}, { built: true })

/** Words go out for as long as the connection stands. */
const talk = (wire: WireName, response: ServerResponse): void => {
  const { head, word } = answerOf(wire, "m")
  response.writeHead(200, { "content-type": "text/event-stream" })
  response.write(head.join(""))
  let index = 0
  const timer = setInterval(() => response.write(word(index++ % 60)), 10)
  response.on("close", () => clearInterval(timer))
}

/** Half of a body: the gateway waits for the rest. */
const begin = (response: ServerResponse): void => {
  response.writeHead(200, { "content-type": "application/json", "content-length": "1000" })
  response.write('{"id": "x", ')
}

interface Kind {
  readonly wire: WireName
  readonly stream: boolean
  readonly answered: boolean
}

const once = async ({ wire, stream, answered }: Kind): Promise<number> => {
  const call = nextCall()
  const body = JSON.stringify({ model: "m", stream, max_tokens: 100, messages: [], input: "go" })
  const asked = request(`${gateway.origin}${pathOf[wire]}`, {
    method: "POST",
    agent: false,
    headers: { "content-type": "application/json" }
  })
  asked.on("error", () => undefined)
  const heard = new Promise<void>((resolve) => {
    asked.on("response", (answer) => {
      answer.on("error", () => undefined)
      answer.once("data", () => resolve())
    })
  })
  asked.end(body)
  const response = await call.arrived
  if (answered && stream) talk(wire, response)
  if (answered && !stream) begin(response)
  if (answered && stream) await heard
  else await new Promise((resolve) => setTimeout(resolve, 15))
  const left = performance.now()
  asked.destroy()
  return (await call.closedAt) - left
}

const kinds = wires.flatMap((wire) =>
  [true, false].flatMap((stream) => [false, true].map((answered): Kind => ({ wire, stream, answered })))
)
console.log(
  `Node ${process.version}, ${cpus().length} x ${cpus()[0]?.model ?? "unknown processor"}, load ${loadavg()[0]?.toFixed(2)}`
)
const quantile = (sorted: ReadonlyArray<number>, share: number): string =>
  (sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN).toFixed(1)

const found = new Map<string, Array<number>>()
for (let time = 0; time < times + 2; time += 1)
  for (const kind of kinds) {
    const name = `${kind.wire}, ${kind.stream ? "a stream" : "a body"}, ${kind.answered ? "half answered" : "not answered"}`
    const millis = await once(kind)
    // The first ones compile the code.
    if (time >= 2) found.set(name, [...(found.get(name) ?? []), millis])
  }
let slow = 0
for (const [name, all] of found) {
  const sorted = [...all].sort((left, right) => left - right)
  slow += sorted.filter((millis) => millis > limitMillis).length
  console.log(
    `${name.padEnd(36)} median ${quantile(sorted, 0.5)} ms, 95 of 100 within ${quantile(sorted, 0.95)} ms, slowest ${quantile(sorted, 1)} ms`
  )
}
const all = [...found.values()].flat()
console.log(`${all.length} clients left; ${slow} requests took longer than ${limitMillis} ms to end at the provider`)
await gateway.close()
provider.closeAllConnections()
provider.close()
process.exitCode = slow === 0 ? 0 : 1
