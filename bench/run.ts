/**
 * `npm run bench [-- memory later http later-http stream first-token native native-stream start durable]`: measures and compares in one run. Exit 1 when a target is missed.
 */
import { cpus } from "node:os"
import { durable } from "./durable.ts"
import { http } from "./http.ts"
import { later, laterHttp } from "./later.ts"
import { print, type Table } from "./measure.ts"
import { memory } from "./memory.ts"
import { native, nativeStream } from "./native.ts"
import { startProvider, type Provider } from "./provider.ts"
import { start } from "./start.ts"
import { chunks, firstToken, stream } from "./stream.ts"

const programs: Readonly<Record<string, (provider: Provider) => Promise<Table>>> = {
  memory,
  http,
  later,
  "later-http": laterHttp,
  stream,
  "first-token": firstToken,
  native,
  "native-stream": nativeStream,
  start,
  durable
}

const wanted = process.argv.slice(2)
const unknown = wanted.find((name) => !Object.hasOwn(programs, name))
if (unknown !== undefined) {
  console.error(`bench: "${unknown}" is none of ${Object.keys(programs).join(", ")}`)
  process.exit(2)
}

console.log(`Node ${process.version}, ${cpus().length} x ${cpus()[0]?.model ?? "unknown processor"}`)
const provider = await startProvider(chunks)
let missed = 0
for (const [name, program] of Object.entries(programs)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue
  const table = await program(provider)
  print(table)
  missed += table.targets.filter((target) => target.value > target.limit).length
}
provider.stop()
console.log(missed === 0 ? "\nevery target met" : `\n${missed} targets missed`)
process.exit(missed === 0 ? 0 : 1)
