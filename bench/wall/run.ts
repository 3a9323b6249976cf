/**
 * `npm run wall [-- --fast] [--subject NAME] [--id S08]`: sixteen faults against the gateway, live and verified, over three
 * wires, and against the library. A full run waits as long as a provider would; a fast one shrinks every second alike.
 */
import { type WireName } from "./answers.ts"
import { ask } from "./client.ts"
import { startProvider } from "./provider.ts"
import { playScenario, scenarios, type Judged } from "./scenarios.ts"
import { startSubjects, type Subject } from "./subjects.ts"

const argument = (name: string): string | null => {
  const at = process.argv.indexOf(`--${name}`)
  return at === -1 ? null : (process.argv[at + 1] ?? "")
}

const isFast = process.argv.includes("--fast")
/** Milliseconds of one second of the wall. */
const unit = isFast ? 120 : 1_000

const wires: ReadonlyArray<WireName> = ["chat", "responses", "messages"]

const playAll = async (subject: Subject, wire: WireName): Promise<ReadonlyArray<Judged & { readonly id: string }>> => {
  const chosen = scenarios.filter(({ id }) => argument("id") === null || argument("id") === id)
  const rows: Array<Judged & { readonly id: string }> = []
  for (const scenario of chosen) {
    const provider = await startProvider({ unit })
    const started = await subject.start({ provider: provider.baseUrl, unit })
    const judged = await playScenario(
      scenario,
      (model, fallback) => ask({ ...started.target(model, fallback), wire }),
      provider,
      unit
    )
    await started.close()
    await provider.close()
    rows.push({ ...judged, id: scenario.id })
    const reasons = judged.reasons.length === 0 ? "" : `: ${judged.reasons.join("; ").slice(0, 200)}`
    console.log(`${subject.name.padEnd(18)} ${wire.padEnd(10)} ${scenario.id} ${judged.verdict}${reasons}`)
  }
  return rows
}

const wanted = argument("subject")
const subjects = startSubjects().filter(({ name, isReference }) => (wanted === null ? !isReference : wanted === name))
const began = performance.now()
let isGreen = true
for (const subject of subjects)
  // The wires side by side, each with a provider of its own.
  await Promise.all(
    wires.map(async (wire) => {
      const at = performance.now()
      const rows = await playAll(subject, wire)
      const count = (verdict: string): number => rows.filter((row) => row.verdict === verdict).length
      const seconds = ((performance.now() - at) / 1_000).toFixed(0)
      console.log(
        `${subject.name} ${wire}: ${count("pass")} pass, ${count("partial")} partial, ${count("safe")} safe, ${count("fail")} fail in ${seconds} s`
      )
      if (count("pass") !== rows.length && !subject.isReference) isGreen = false
    })
  )
console.log(`whole run: ${((performance.now() - began) / 1_000).toFixed(0)} s`)
process.exitCode = isGreen ? 0 : 1
