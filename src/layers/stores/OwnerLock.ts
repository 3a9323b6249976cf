/**
 * One owner at a time for a file: a lock file beside it names the process that has it. A lock outlives a process that was
 * killed and is taken over then, since it tells that process from every other.
 */
import { needed } from "../provider/runtime.ts"
import { codeOf, prepareFolder, readOwn, removeOwn, writeBeside } from "./ownFile.ts"
import { isRunning, markOf, ownMark, type ProcessMark } from "./processMark.ts"

const files = () => needed("node:fs/promises")

/** Another process has it. */
export class Held extends Error {
  override readonly name = "Held"
  readonly lock: string
  constructor(mark: ProcessMark, lock: string) {
    super(
      `is in use by process ${mark.pid} on ${mark.host}: wait for it, end it, or give another file (if it is gone, remove ${lock})`
    )
    this.lock = lock
  }
}

/** Files that are being locked by this very process: two runs in one process are two owners. */
const own = new Set<string>()

/** Races with other processes: each turn somebody has got it or given it back. */
const maxTurns = 20

/** Codes of file systems that have no hard links. */
const withoutLinks: ReadonlySet<string> = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK"])

/** In two steps, where one is not possible: for an instant the lock says nothing. */
const putDirectly = (lock: string, text: string): Promise<boolean> =>
  files()
    .writeFile(lock, text, { flag: "wx", mode: 0o600 })
    .then(
      () => true,
      (cause: unknown) => {
        if (codeOf(cause) === "EEXIST") return false
        throw cause
      }
    )

/** Puts the file there in one step, with all it says; false = there is one. */
const put = async (lock: string, text: string): Promise<boolean> => {
  const next = await writeBeside(lock, text)
  try {
    await files().link(next, lock)
    return true
  } catch (cause) {
    if (codeOf(cause) === "EEXIST") return false
    if (!withoutLinks.has(codeOf(cause))) throw cause
    return await putDirectly(lock, text)
  } finally {
    await removeOwn(next)
  }
}

/** Takes a lock away whose owner is gone. Somebody who was faster may have put a new one there: it is given back. */
const clear = async (lock: string, stale: string, mark: string): Promise<void> => {
  const away = `${lock}.${mark}.stale`
  await files()
    .rename(lock, away)
    .catch(() => undefined)
  const taken = await readOwn(away).catch(() => null)
  if (taken !== null && taken !== stale)
    await files()
      .link(away, lock)
      .catch(() => undefined)
  await removeOwn(away)
}

/** Takes the lock; what comes back gives it up. A lock that somebody holds is `Held`. */
export const acquire = async (path: string): Promise<() => Promise<void>> => {
  const lock = `${path}.lock`
  const mark = await ownMark()
  const text = JSON.stringify(mark)
  if (own.has(lock)) throw new Held(mark, lock)
  await prepareFolder(path)
  for (let turn = 0; turn < maxTurns; turn += 1) {
    if (await put(lock, text)) {
      own.add(lock)
      return async () => {
        own.delete(lock)
        if ((await readOwn(lock).catch(() => null)) === text) await removeOwn(lock)
      }
    }
    const found = await readOwn(lock)
    if (found === null) continue
    const holder = markOf(found)
    // Our own mark without our own memory of it: a process before us had the same number in the same instant. It is not.
    if (holder !== null && found !== text && (await isRunning(holder))) throw new Held(holder, lock)
    await clear(lock, found, String(process.pid))
  }
  throw new Error("is wanted by too many at once")
}
