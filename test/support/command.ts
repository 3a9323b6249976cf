/**
 * A command as a user runs it, in a folder and an environment of its own: `inProcess` through the commands' own program,
 * for what a command says and how it ends; `asProcess` where the process itself is the point (it costs a second).
 */
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Cause from "effect/Cause"
import { spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { Readable } from "node:stream"
import { format } from "node:util"
import { program } from "../../src/programs/commands/main.ts"

export const cli = join(import.meta.dirname, "../../src/cli.ts")

export interface Ran {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

export type Files = Readonly<Record<string, string>>

export type Environment = Readonly<Record<string, string>>

/** A new folder with these files; a file may stand in a folder of its own. */
export const folderWith = (files: Files = {}): string => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-"))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  return folder
}

const environmentOf = (env: Environment): Record<string, string> => ({ PATH: process.env["PATH"] ?? "", ...env })

export const asProcess = (args: ReadonlyArray<string>, env: Environment = {}, files: Files = {}): Ran => {
  const folder = folderWith(files)
  try {
    const { status, stdout, stderr } = spawnSync(process.execPath, [cli, ...args], {
      cwd: folder,
      env: environmentOf(env),
      encoding: "utf8"
    })
    return { code: status, out: stdout, err: stderr }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** What a console writes goes where a program's own writes go. */
const consoleOf = (out: (text: string) => void, err: (text: string) => void): Console.Console => ({
  ...globalThis.console,
  log: (...args: ReadonlyArray<unknown>) => out(`${format(...args)}\n`),
  info: (...args: ReadonlyArray<unknown>) => out(`${format(...args)}\n`),
  error: (...args: ReadonlyArray<unknown>) => err(`${format(...args)}\n`),
  warn: (...args: ReadonlyArray<unknown>) => err(`${format(...args)}\n`)
})

const codeOf = (exit: Exit.Exit<void, { readonly code: number }>): number | null => {
  if (Exit.isSuccess(exit)) return 0
  const failure = Cause.findErrorOption(exit.cause)
  return failure._tag === "Some" ? failure.value.code : null
}

/** What belongs to the whole process, for the time of one command; put back at its end, however it ends. */
const borrowed = (folder: string, env: Environment, stdin: string, write: { out: string; err: string }) => {
  const before = {
    cwd: process.cwd(),
    env: process.env,
    stdin: Object.getOwnPropertyDescriptor(process, "stdin"),
    out: process.stdout.write,
    err: process.stderr.write
  }
  process.chdir(folder)
  process.env = environmentOf(env)
  Object.defineProperty(process, "stdin", { value: Readable.from([Buffer.from(stdin)]), configurable: true })
  process.stdout.write = (text: string | Uint8Array) => ((write.out += String(text)), true)
  process.stderr.write = (text: string | Uint8Array) => ((write.err += String(text)), true)
  return () => {
    process.stdout.write = before.out
    process.stderr.write = before.err
    if (before.stdin !== undefined) Object.defineProperty(process, "stdin", before.stdin)
    process.env = before.env
    process.chdir(before.cwd)
  }
}

/** One at a time: a command owns the folder, the environment and the streams of the process. */
export const inProcess = async (
  args: ReadonlyArray<string>,
  env: Environment = {},
  files: Files = {},
  stdin = ""
): Promise<Ran> => {
  const folder = folderWith(files)
  const said = { out: "", err: "" }
  const giveBack = borrowed(folder, env, stdin, said)
  try {
    const exit = await Effect.runPromiseExit(
      Effect.provideService(
        program(args),
        Console.Console,
        consoleOf(
          (text) => (said.out += text),
          (text) => (said.err += text)
        )
      )
    )
    return { code: codeOf(exit), ...said }
  } finally {
    giveBack()
    rmSync(folder, { recursive: true, force: true })
  }
}
