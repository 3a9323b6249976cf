/**
 * The tools of `holdfast run` over one folder: list, read, search; and, where allowed, write, edit and shell. No path
 * leaves the folder, also not through links. Output is capped: a model cannot be flooded by one call.
 */
import { spawn } from "node:child_process"
import { constants, type Stats } from "node:fs"
import { lstat, mkdir, open, readdir, realpath, type FileHandle } from "node:fs/promises"
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from "node:path"
import { Writable } from "node:stream"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { head } from "../../../domain/chat/codePoints.ts"
import { tool, type Tool } from "../../../layers/ToolboxLive.ts"
import type { ChildGroups } from "./childGroups.ts"

export interface FolderOptions {
  readonly dir: string
  /** Also write, edit and shell. */
  readonly allow: boolean
  /** Told the path of every file a tool has changed, relative to the folder. */
  readonly onChange: (path: string) => void
  /** Milliseconds a shell command may take. Default: 60,000. */
  readonly shellTimeout?: number
  /** Told of the process groups of shell commands: what they leave running ends with the run. */
  readonly groups?: ChildGroups
}

/** Characters of one result. */
const outputCap = 30_000
/** Larger files are not read. */
const fileCap = 2_000_000
const matchCap = 200
const listCap = 1_000
const shellTimeoutMillis = 60_000
/** What a look at files may take: a folder on a dead network drive answers never. */
const fileTimeout = "30 seconds"
/** Never listed, searched or touched: version control, packages, and the sessions of this command. */
const hidden: ReadonlySet<string> = new Set([".git", "node_modules", ".holdfast"])

/** A tool could not do what was asked. The text is for the model. */
export class FolderError extends Schema.TaggedError<FolderError>()("FolderError", { text: Schema.String }) {
  override get message(): string {
    return this.text
  }
}

const bad = (text: string): FolderError => new FolderError({ text })

const codeOf = (cause: unknown): string =>
  typeof cause === "object" && cause !== null && "code" in cause && typeof cause.code === "string"
    ? cause.code
    : "an error"

/** Node work as an effect; a system error is told by its code, never with a path outside the folder. */
const attempt = <A>(path: string, work: (signal: AbortSignal) => Promise<A>): Effect.Effect<A, FolderError> =>
  Effect.tryPromise({
    try: work,
    catch: (cause) => (cause instanceof FolderError ? cause : bad(`${path}: ${codeOf(cause)}`))
  })

const capped = (text: string): string => {
  const kept = head(text, outputCap)
  return kept.length === text.length ? text : `${kept}\n[cut: ${text.length - kept.length} more characters]`
}

const isInside = (root: string, path: string): boolean => {
  const way = relative(root, path)
  return way === "" || (way !== ".." && !way.startsWith(`..${sep}`) && !isAbsolute(way))
}

/** Files that hold keys by custom; examples of them hold none. */
const holdsKeys = (name: string): boolean =>
  /^(\.env(\..*)?|\.envrc|.+\.env)$/i.test(name) && !/\.(example|sample|template|dist)$/i.test(name)

const refuseHidden = (root: string, real: string, path: string): void => {
  if (
    relative(root, real)
      .split(sep)
      .some((part) => hidden.has(part))
  )
    throw bad(`${path} is not for tools`)
  if (holdsKeys(basename(real))) throw bad(`${path} is not for tools: such a file holds keys`)
}

/** The real path of something that exists in the folder. */
const existing = async (dir: string, path: string): Promise<string> => {
  const root = await realpath(dir)
  const real = await realpath(resolve(root, path))
  if (!isInside(root, real)) throw bad(`${path} is outside the folder`)
  refuseHidden(root, real, path)
  return real
}

/** Where a file may be written: an existing file of the folder, or a new one whose folder is inside. Makes folders. */
const writable = async (dir: string, path: string): Promise<string> => {
  const root = await realpath(dir)
  const wanted = resolve(root, path)
  if (!isInside(root, wanted) || wanted === root) throw bad(`${path} is outside the folder`)
  const found = await lstat(wanted).catch(() => null)
  if (found !== null) return existing(dir, path)
  // The nearest folder that exists decides: a link on the way may lead outside.
  let parent = dirname(wanted)
  while ((await lstat(parent).catch(() => null)) === null) parent = dirname(parent)
  const real = await realpath(parent)
  if (!isInside(root, real)) throw bad(`${path} is outside the folder`)
  refuseHidden(root, resolve(real, relative(parent, wanted)), path)
  const folder = join(real, relative(parent, dirname(wanted)))
  await mkdir(folder, { recursive: true })
  return join(folder, basename(wanted))
}

/** Anything but a regular file may keep a reader waiting for ever, or never end. */
const kindOf = (found: Stats): string => {
  if (found.isDirectory()) return "a folder"
  if (found.isFIFO()) return "a pipe"
  if (found.isSocket()) return "a socket"
  return found.isCharacterDevice() || found.isBlockDevice() ? "a device" : "no regular file"
}

/** O_NONBLOCK: opening a pipe that nobody writes to does not wait. */
const openFile = async (real: string, path: string, flags: number): Promise<FileHandle> => {
  // Looked at before it is opened, since opening a device may already do something; and after, since it may have changed.
  const before = await lstat(real).catch(() => null)
  if (before !== null && !before.isFile()) throw bad(`${path} is ${kindOf(before)}`)
  const file = await open(real, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK, 0o644)
  const found = await file.stat()
  if (found.isFile()) return file
  await file.close()
  throw bad(`${path} is ${kindOf(found)}`)
}

const readText = async (dir: string, path: string): Promise<string> => {
  const file = await openFile(await existing(dir, path), path, constants.O_RDONLY)
  try {
    const { size } = await file.stat()
    if (size > fileCap) throw bad(`${path} is too large (${size} bytes)`)
    const bytes = await file.readFile()
    if (bytes.includes(0)) throw bad(`${path} is not a text file`)
    return bytes.toString("utf8")
  } finally {
    await file.close()
  }
}

const writeText = async (dir: string, path: string, text: string): Promise<void> => {
  const real = await writable(dir, path)
  // O_NOFOLLOW: a link put there in the meantime is not followed.
  const file = await openFile(real, path, constants.O_WRONLY | constants.O_CREAT)
  try {
    await file.truncate(0)
    await file.writeFile(text)
  } finally {
    await file.close()
  }
}

/** Files below a folder, by name; links are listed, never followed. Ends where nobody waits for it any more. */
const walk = async (
  folder: string,
  signal: AbortSignal,
  visit: (path: string) => Promise<boolean>
): Promise<boolean> => {
  const entries = (await readdir(folder, { withFileTypes: true })).sort((left, right) =>
    left.name < right.name ? -1 : 1
  )
  for (const entry of entries) {
    if (signal.aborted) return false
    if (hidden.has(entry.name) || holdsKeys(entry.name)) continue
    const path = join(folder, entry.name)
    if (entry.isDirectory() ? !(await walk(path, signal, visit)) : entry.isFile() && !(await visit(path))) return false
  }
  return true
}

const isSecretName = (name: string): boolean => /KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL/i.test(name)

/** The environment of a shell command: without what looks like a secret. */
const shellEnvironment = (): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => !isSecretName(name)))

/** The command begins when its group is watched: a run that is killed before leaves nothing running. */
const gatedScript = 'read -r go <&3 || exit 1; exec 3<&-; exec /bin/sh -c "$1"'

const runShell = (
  dir: string,
  command: string,
  timeoutMillis: number,
  groups?: ChildGroups
): Effect.Effect<string, FolderError> =>
  Effect.callback<string, FolderError>((resume) => {
    // A process group of its own, so that what the command has started ends with it.
    const child = spawn("/bin/sh", ["-c", gatedScript, "sh", command], {
      cwd: dir,
      env: shellEnvironment(),
      stdio: ["ignore", "pipe", "pipe", "pipe"],
      detached: true
    })
    const gate = child.stdio[3]
    const open = (): void => {
      if (gate instanceof Writable) gate.end("go\n")
    }
    if (gate instanceof Writable) gate.on("error", () => undefined)
    const group = child.pid
    if (group === undefined || groups === undefined) open()
    else groups.add(group, open)
    child.on("exit", () => {
      if (group !== undefined) groups?.leaderEnded(group)
    })
    let output = ""
    let dropped = 0
    const kill = (): void => {
      if (child.pid === undefined) return
      try {
        process.kill(-child.pid, "SIGKILL")
      } catch {
        // It has ended already.
      }
    }
    const take = (chunk: Buffer): void => {
      const text = chunk.toString("utf8")
      const kept = head(text, Math.max(0, outputCap - output.length))
      output += kept
      dropped += text.length - kept.length
    }
    child.stdout?.on("data", take)
    child.stderr?.on("data", take)
    const timer = setTimeout(() => {
      kill()
      resume(Effect.fail(bad(`stopped after ${timeoutMillis} ms; output so far:\n${output}`)))
    }, timeoutMillis)
    child.on("error", (cause) => {
      clearTimeout(timer)
      resume(Effect.fail(bad(`the shell could not be started: ${codeOf(cause)}`)))
    })
    child.on("close", (code, signal) => {
      clearTimeout(timer)
      const cut = dropped > 0 ? `\n[cut: ${dropped} more characters]` : ""
      resume(Effect.succeed(`exit code ${code ?? signal}\n${output}${cut}`))
    })
    return Effect.sync(() => {
      clearTimeout(timer)
      kill()
    })
  })

const path = Schema.String.annotate({ description: "path inside the folder" })

const lookingTools = (dir: string): ReadonlyArray<Tool> => {
  const reading = { parallel: true, repeat: "safe", timeout: fileTimeout } as const

  const list = tool({
    ...reading,
    name: "list",
    description: "lists the entries of a folder; folders end with a slash",
    parameters: Schema.Struct({ path: Schema.optionalKey(path) }),
    run: ({ path: at = "." }) =>
      attempt(at, async () => {
        const real = await existing(dir, at)
        const entries = await readdir(real, { withFileTypes: true })
        const names = entries
          .filter((entry) => !hidden.has(entry.name))
          .map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name))
          .sort()
        const more = names.length > listCap ? [`[${names.length - listCap} more]`] : []
        return names.length === 0 ? "(empty)" : [...names.slice(0, listCap), ...more].join("\n")
      })
  })

  const read = tool({
    ...reading,
    name: "read",
    description: "reads a text file, whole or from a line on",
    parameters: Schema.Struct({
      path,
      from: Schema.optionalKey(Schema.Int.annotate({ description: "first line, from 1" })),
      lines: Schema.optionalKey(Schema.Int.annotate({ description: "number of lines" }))
    }),
    run: ({ path: at, from = 1, lines }) =>
      attempt(at, async () => {
        const text = await readText(dir, at)
        if (from <= 1 && lines === undefined) return capped(text)
        const start = Math.max(0, from - 1)
        return capped(
          text
            .split("\n")
            .slice(start, lines === undefined ? undefined : start + lines)
            .join("\n")
        )
      })
  })

  const search = tool({
    ...reading,
    name: "search",
    description: "finds the lines that contain a text (not a pattern), in all files below a folder",
    parameters: Schema.Struct({ text: Schema.NonEmptyString, path: Schema.optionalKey(path) }),
    run: ({ text, path: at = "." }) =>
      attempt(at, async (signal) => {
        const root = await realpath(dir)
        const matches: Array<string> = []
        await walk(await existing(dir, at), signal, async (file) => {
          const name = relative(root, file)
          const content = await readText(dir, name).catch(() => "")
          for (const [index, line] of content.split("\n").entries())
            if (line.includes(text) && matches.length < matchCap)
              matches.push(`${name}:${index + 1}: ${head(line, 300)}`)
          return matches.length < matchCap
        })
        const end = matches.length === matchCap ? ["[more matches are not shown]"] : []
        return matches.length === 0 ? "no match" : capped([...matches, ...end].join("\n"))
      })
  })

  return [list, read, search]
}

const changingTools = (options: FolderOptions): ReadonlyArray<Tool> => {
  const { dir } = options
  const changed = (at: string): void => options.onChange(at)

  const write = tool({
    timeout: fileTimeout,
    name: "write",
    description: "writes a whole text file, new or instead of the old one",
    parameters: Schema.Struct({ path, text: Schema.String }),
    run: ({ path: at, text }) =>
      attempt(at, async () => {
        await writeText(dir, at, text)
        changed(at)
        return `written: ${text.length} characters`
      })
  })

  const edit = tool({
    timeout: fileTimeout,
    name: "edit",
    description: "replaces a text that stands exactly once in a file",
    parameters: Schema.Struct({ path, old: Schema.NonEmptyString, new: Schema.String }),
    run: ({ path: at, old, new: replacement }) =>
      attempt(at, async () => {
        const text = await readText(dir, at)
        const times = text.split(old).length - 1
        if (times !== 1) throw bad(`the old text stands ${times} times in ${at}; it must stand there exactly once`)
        await writeText(dir, at, text.split(old).join(replacement))
        changed(at)
        return "edited"
      })
  })

  const shell = tool({
    // Running the tests again after every edit is no loop; the same output ten times is.
    polling: true,
    name: "shell",
    description: "runs a shell command in the folder; output is cut, time is limited",
    parameters: Schema.Struct({ command: Schema.NonEmptyString }),
    run: ({ command }) => runShell(dir, command, options.shellTimeout ?? shellTimeoutMillis, options.groups)
  })

  return [write, edit, shell]
}

export const folderTools = (options: FolderOptions): ReadonlyArray<Tool> => [
  ...lookingTools(options.dir),
  ...(options.allow ? changingTools(options) : [])
]
