/**
 * A thousand prompts that nobody watches: eight at a time, inside one budget, with its progress told. Killed and started
 * again, it goes on: what was answered is read from the journal and asked for no second time.
 */
import { RecoveryPolicy } from "holdfast"
import { JournalSqlite } from "holdfast/durable"
import { make } from "holdfast/openai"
import { createAgent, createRecovery } from "holdfast/promise"

const count = Number(process.env["PROMPTS"] ?? 1000)
const atOnce = 8

const recovery = createRecovery({
  policy: { ...RecoveryPolicy.unattended, routes: [{ model: "large", prices: { inputPerM: 1, outputPerM: 4 } }] },
  client: make({ apiKey: process.env["OPENAI_API_KEY"] ?? "", baseUrl: process.env["OPENAI_BASE_URL"] ?? "" })
})
const agent = createAgent({
  recovery,
  durable: JournalSqlite.make({ path: process.env["JOURNAL"] ?? "batch.db" }),
  limits: { maxCostUsd: 20 },
  maxOutputTokens: 200
})

let done = 0
let next = 0
const work = async (): Promise<void> => {
  while (next < count) {
    const at = next
    next += 1
    await agent.run(`Describe the number ${at}.`, { id: `number-${at}` })
    done += 1
    if (done % 100 === 0 || done === count) console.log(`${done} of ${count}`)
  }
}

await Promise.all(Array.from({ length: atOnce }, work))
await agent.close()
await recovery.close()
