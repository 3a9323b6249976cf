/**
 * What a process pays before its first reply: importing the library and one call, CPU in a fresh process each time.
 * holdfast is measured as it is published, compiled; the others as their packages come.
 */
import { execFile } from "node:child_process"
import { existsSync } from "node:fs"
import { createRequire } from "node:module"
import { fileURLToPath, pathToFileURL } from "node:url"
import { promisify } from "node:util"
import { figureOf, type Table } from "./measure.ts"
import type { Provider } from "./provider.ts"
import { model } from "./subjects.ts"

const run = promisify(execFile)
const rounds = 9
const root = fileURLToPath(new URL("..", import.meta.url))
const compiled = new URL("../dist/", import.meta.url)

const measured = (program: string): string =>
  `${program}\nconst { user, system } = process.cpuUsage()\nconsole.log(user + system)\nprocess.exit(0)\n`

/** CPU of a fresh process that runs a program, milliseconds. */
const cpuOf = async (program: string): Promise<number> => {
  const { stdout } = await run(process.execPath, ["--input-type=module", "--eval", measured(program)], {
    cwd: fileURLToPath(new URL(".", import.meta.url))
  })
  return Number(stdout) / 1_000
}

const ask = JSON.stringify([{ role: "user", content: "When does the tide turn?" }])

const named = (options: object): string => JSON.stringify({ apiKey: "bench-key", ...options })

const ours = (baseUrl: string): ReadonlyArray<Program> => {
  const entry = (name: string): string => JSON.stringify(new URL(`${name}.js`, compiled).href)
  return [
    { name: "holdfast: import", text: `await import(${entry("index")})` },
    {
      name: "holdfast: first call, over openai",
      text: `
const [{ createRecovery }, { make }] = await Promise.all([import(${entry("promise")}), import(${entry("openai")})])
const client = make(${named({ baseUrl })})
await createRecovery({ policy: { routes: [{ model: "${model}" }] }, client }).complete({ messages: ${ask} })`
    }
  ]
}

interface Program {
  readonly name: string
  readonly text: string
}

/** A program of others; it is left out while one of its packages is not installed (`npm ci --prefix bench`). */
interface OtherProgram extends Program {
  readonly packages: ReadonlyArray<string>
}

const others = (baseUrl: string): ReadonlyArray<OtherProgram> => [
  { name: "openai SDK: import", packages: ["openai"], text: `await import("openai")` },
  {
    name: "openai SDK: first call",
    packages: ["openai"],
    text: `
const { default: OpenAI } = await import("openai")
await new OpenAI(${named({ baseURL: baseUrl })}).chat.completions.create({ model: "${model}", messages: ${ask} })`
  },
  {
    name: "AI SDK: first call",
    packages: ["ai", "@ai-sdk/openai-compatible"],
    text: `
const { generateText } = await import("ai")
const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible")
const provider = createOpenAICompatible(${named({ name: "bench", baseURL: baseUrl })})
await generateText({ model: provider("${model}"), messages: ${ask} })`
  },
  {
    name: "LangChain: first call",
    packages: ["@langchain/openai"],
    text: `
const { ChatOpenAI } = await import("@langchain/openai")
await new ChatOpenAI(${named({ model, configuration: { baseURL: baseUrl } })}).invoke("When does the tide turn?")`
  }
]

const require = createRequire(import.meta.url)
const isInstalled = (name: string): boolean =>
  (require.resolve.paths(name) ?? []).some((folder) =>
    existsSync(new URL(`${name}/package.json`, pathToFileURL(`${folder}/`)))
  )

/** Builds the library as it is published, unless that has been done. */
const compile = async (): Promise<void> => {
  if (!existsSync(new URL("index.js", compiled))) await run("npm", ["run", "build"], { cwd: root })
}

export const start = async ({ baseUrl }: Provider): Promise<Table> => {
  await compile()
  const programs: ReadonlyArray<Program> = [
    { name: "Node alone", text: "" },
    ...others(baseUrl).filter(({ packages }) => packages.every(isInstalled)),
    ...ours(baseUrl)
  ]
  const samples = programs.map((): Array<number> => [])
  for (let round = 0; round < rounds; round += 1)
    for (const [index, { text }] of programs.entries()) samples[index]?.push(await cpuOf(text))
  const figures = programs.map(({ name }, index) => figureOf(name, samples[index] ?? []))
  return {
    title: "Start: import and first call, in a fresh process",
    unit: "milliseconds of CPU",
    figures,
    base: "openai SDK: first call",
    targets: []
  }
}
