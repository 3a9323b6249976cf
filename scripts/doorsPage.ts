/** Writes the table of doors in docs/drill.md from the scripts of the suite: part of `npm run docs`. */
import * as Effect from "effect/Effect"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { isObject, type Json } from "../src/domain/chat/json.ts"
import { doors } from "../src/programs/commands/drill/doors/Door.ts"
import { doorRows, faultLines, reasonRows } from "../src/programs/commands/drill/doors/doorsTable.ts"
import { playDoors, type Passed } from "../src/programs/commands/drill/doors/playDoors.ts"
import { markdownTable } from "./markdownTable.ts"

const root = join(import.meta.dirname, "..")
const page = join(root, "docs", "drill.md")
const heading = "## Doors"

/** The scripts whose doors the page tells of. */
export const doorScripts = (): ReadonlyArray<Json> => {
  const file: unknown = JSON.parse(readFileSync(join(root, "test/fixtures/scenarios/dev.json"), "utf8"))
  const scenarios = isObject(file) ? file["scenarios"] : []
  return Array.isArray(scenarios) ? scenarios.filter(isObject) : []
}

export const doorsPart = (passed: ReadonlyArray<Passed>): string => {
  const scripts = new Set(passed.map(({ id }) => id)).size
  return `${heading}

\`holdfast drill --doors FILE\` plays each scenario through nine doors: \`Recovery.complete\` and \`Recovery.stream\` over the three
adapters, and \`holdfast(client)\` with OpenAI's SDK for chat and responses and with Anthropic's. One function writes a script
for a door: its answers in the form of that API, whole or as a stream. Requests, models, budgets, instants and decisions have
to be those of the script's own door, and all that it expects has to hold. Exit code 1 when a door differs.

This part is made by \`npm run docs\` from the ${scripts} scripts of the test suite. A number says how many scripts end the same;
\`+ n\` so many more end otherwise by a rule of that door; \`-\` none can be played there.

${markdownTable(doorRows(passed))}

What ends otherwise, and the rule:

${markdownTable([["script", "rule", "doors"], ...reasonRows(passed, "Otherwise")])}

What says nothing at a door, and why:

${markdownTable([["script", "why", "doors"], ...reasonRows(passed, "NoLike")])}
`
}

/** The page as it stands: what is before the part, and the part. */
export const doorsPage = (): { readonly before: string; readonly part: string } => {
  const text = readFileSync(page, "utf8")
  const at = text.indexOf(`${heading}\n`)
  return at === -1 ? { before: `${text.trimEnd()}\n\n`, part: "" } : { before: text.slice(0, at), part: text.slice(at) }
}

const write = async (): Promise<void> => {
  const passed: Array<Passed> = []
  for (const raw of doorScripts()) passed.push(...(await Effect.runPromise(playDoors(raw, doors))))
  const faults = faultLines(passed)
  if (faults.length > 0) throw new Error(faults.join("\n"))
  writeFileSync(page, doorsPage().before + doorsPart(passed))
}

if (process.argv[1] === import.meta.filename) await write()
