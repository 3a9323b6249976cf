/** What tells one process from every other, also from a later one that got its number. */
import { isCount, isText, parsedObject } from "../../domain/chat/json.ts"
import { needed } from "../provider/runtime.ts"

export interface ProcessMark {
  readonly pid: number
  /** Name of the machine, or of the container. */
  readonly host: string
  /** When it was started, in words of the system; empty = the system does not say. */
  readonly started: string
}

/** Linux: ticks since the boot, and which boot. */
const startedByProc = async (pid: number): Promise<string> => {
  const [stat, boot] = await Promise.all([
    needed("node:fs/promises").readFile(`/proc/${pid}/stat`, "utf8"),
    needed("node:fs/promises").readFile("/proc/sys/kernel/random/boot_id", "utf8")
  ])
  // The name in brackets may hold blanks and brackets: fields are counted from behind it.
  const ticks = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]
  return ticks === undefined ? "" : `${boot.trim()} ${ticks}`
}

/** Other systems: the start as `ps` prints it. */
const startedByPs = (pid: number): Promise<string> =>
  new Promise((resolve) => {
    const options = { timeout: 5_000, env: { PATH: process.env["PATH"] ?? "/bin:/usr/bin", LC_ALL: "C", TZ: "UTC" } }
    needed("node:child_process").execFile("ps", ["-o", "lstart=", "-p", String(pid)], options, (cause, stdout) =>
      resolve(cause === null ? stdout.trim() : "")
    )
  })

const startedOf = (pid: number): Promise<string> =>
  process.platform === "linux" ? startedByProc(pid).catch(() => "") : startedByPs(pid)

/** The mark of this process. */
export const ownMark = async (): Promise<ProcessMark> => ({
  pid: process.pid,
  host: needed("node:os").hostname(),
  started: await startedOf(process.pid)
})

const isThere = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (cause) {
    // Another user's process is there, too.
    return typeof cause === "object" && cause !== null && Reflect.get(cause, "code") === "EPERM"
  }
}

/** Whether the very process runs. One of another machine cannot be looked at: it counts as running. */
export const isRunning = async (mark: ProcessMark): Promise<boolean> => {
  if (mark.host !== needed("node:os").hostname()) return true
  if (!isThere(mark.pid)) return false
  const started = await startedOf(mark.pid)
  return mark.started === "" || started === "" || started === mark.started
}

/** null = the text is no mark. */
export const markOf = (text: string): ProcessMark | null => {
  const { pid, host, started } = parsedObject(text) ?? {}
  return isCount(pid) && pid > 0 && isText(host) && isText(started) ? { pid, host, started } : null
}
