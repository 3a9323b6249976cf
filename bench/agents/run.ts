/**
 * Coding agents before a provider that fails, with the gateway between them and without it:
 * `npm ci --prefix bench/agents && npm run agents [-- --agent qwen-code] [--fault cut-after] [--bare] [--all]`
 * Needs nothing but loopback. Exit code 1 = an agent behind the gateway did not end as it has to.
 */
import { spawn } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { agents, type Agent } from "./agents.ts"
import { faults } from "./faults.ts"
import { startGateway } from "./gatewayProcess.ts"
import { answerInWords, closingText, faultOf, startProvider, taskText } from "./provider.ts"

/** The ten that a plain run tries; `--all` tries every fault there is. */
const chosen = [
  "healthy",
  "429-bare",
  "503",
  "overload-before",
  "api-error-after",
  "cut-before",
  "cut-after",
  "cut-in-call",
  "length-call",
  "empty",
  "auth"
]
const limitMillis = 90_000

interface Ended {
  readonly code: number | null
  readonly said: string
  readonly complained: string
  readonly millis: number
}

const runAgent = (
  agent: Agent,
  root: string,
  setting: { readonly origin: string; readonly model: string; readonly folder: string }
): Promise<Ended> => {
  const home = mkdtempSync(join(tmpdir(), "agent-home-"))
  const { args, env } = agent.start({ home, task: taskText, ...setting })
  const began = performance.now()
  return new Promise((resolve) => {
    const child = spawn(join(root, "node_modules/.bin", agent.bin), args, {
      cwd: setting.folder,
      env: {
        PATH: `${join(process.execPath, "..")}:${process.env["PATH"] ?? ""}`,
        HOME: home,
        NO_COLOR: "1",
        CI: "1",
        ...env
      },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true
    })
    let said = ""
    let complained = ""
    child.stdout.on("data", (chunk) => (said += String(chunk)))
    child.stderr.on("data", (chunk) => (complained += String(chunk)))
    const cut = setTimeout(() => {
      // The whole group: agents start helpers of their own.
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL")
    }, limitMillis)
    child.on("close", (code) => {
      clearTimeout(cut)
      rmSync(home, { recursive: true, force: true })
      resolve({ code, said, complained, millis: performance.now() - began })
    })
  })
}

const countOf = (text: string, part: string): number => text.split(part).length - 1

export interface Verdict {
  readonly agent: string
  readonly fault: string
  readonly through: "gateway" | "bare"
  /** done: the file is right and the text is whole, once. told: it ended with an error. Everything else is wrong. */
  readonly ending: "done" | "told" | "doubled" | "cut" | "silent" | "hung"
  readonly code: number | null
  readonly asked: number
  readonly seconds: number
  readonly words: string
}

const endingOf = (ended: Ended, folder: string): Verdict["ending"] => {
  if (ended.millis >= limitMillis) return "hung"
  const isWritten =
    existsSync(join(folder, "answer.txt")) && readFileSync(join(folder, "answer.txt"), "utf8").trim() === answerInWords
  const shown = ended.said.replace(/\s+/g, " ")
  const times = countOf(shown, closingText)
  const begun = countOf(shown, closingText.slice(0, 40))
  if (times === 1 && begun === 1 && isWritten) return "done"
  if (begun > 1) return "doubled"
  if (ended.code !== 0 || /error|failed/i.test(ended.said + ended.complained)) return "told"
  return begun === 1 ? "cut" : "silent"
}

const { values } = parseArgs({
  options: {
    agent: { type: "string", multiple: true },
    fault: { type: "string", multiple: true },
    bare: { type: "boolean", default: false },
    all: { type: "boolean", default: false },
    agents: { type: "string", default: import.meta.dirname }
  }
})

const folders = new Map<string, string>()
const provider = await startProvider((model) => folders.get(model) ?? tmpdir())
const gateway = values.bare ? null : await startGateway(provider.origin)
const names = values.fault ?? (values.all ? Object.keys(faults) : chosen)
let count = 0
let wrong = 0
try {
  for (const agent of agents.filter(({ name }) => values.agent === undefined || values.agent.includes(name)))
    for (const name of names) {
      count += 1
      const model = `${name}.${count}`
      const folder = mkdtempSync(join(tmpdir(), "agent-task-"))
      mkdirSync(folder, { recursive: true })
      writeFileSync(join(folder, "number.txt"), "42\n")
      folders.set(model, folder)
      const before = provider.asked.length
      const ended = await runAgent(agent, values.agents, { origin: gateway?.origin ?? provider.origin, model, folder })
      const ending = endingOf(ended, folder)
      const verdict: Verdict = {
        agent: agent.name,
        fault: name,
        through: gateway === null ? "bare" : "gateway",
        ending,
        code: ended.code,
        asked: provider.asked.length - before,
        seconds: Math.round(ended.millis / 100) / 10,
        words: ending === "done" ? "" : (ended.said + ended.complained).trim().slice(-300)
      }
      const isRight = ending === (faultOf(model)?.isRecoverable === true ? "done" : "told")
      if (!isRight) wrong += 1
      console.log(JSON.stringify({ ...verdict, isRight }))
      rmSync(folder, { recursive: true, force: true })
    }
} finally {
  await gateway?.close()
  await provider.close()
}
if (gateway !== null && wrong > 0) process.exitCode = 1
