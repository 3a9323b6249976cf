/**
 * Files of our own in a folder that somebody else may have made: no link is followed, neither for the file nor for its
 * folder, and only a regular file is read or replaced.
 */
import type { Stats } from "node:fs"
import { needed } from "../provider/runtime.ts"

const files = () => needed("node:fs/promises")
const paths = () => needed("node:path")
const modes = () => needed("node:fs").constants

/** Content belongs to its owner alone. */
const fileMode = 0o600
const folderMode = 0o700

/** What stands in the way, in words that follow the path. */
export class NotOurs extends Error {
  override readonly name = "NotOurs"
}

const statusOf = (path: string): Promise<Stats | null> =>
  files()
    .lstat(path)
    .catch((cause: unknown) => {
      if (codeOf(cause) === "ENOENT") return null
      throw cause
    })

export const codeOf = (cause: unknown): string => {
  const code: unknown = typeof cause === "object" && cause !== null ? Reflect.get(cause, "code") : undefined
  return typeof code === "string" ? code : "an error"
}

const kindOf = (found: Stats): string => {
  if (found.isSymbolicLink()) return "is a link, which is not followed"
  if (found.isDirectory()) return "is a folder"
  if (found.isFIFO()) return "is a pipe"
  return found.isSocket() ? "is a socket" : "is no regular file"
}

/** The folders to look at: those below the working folder, or else the last one alone. The way to them is the user's. */
const foldersOf = (path: string): ReadonlyArray<string> => {
  const { dirname, isAbsolute, join, relative, resolve, sep } = paths()
  const folder = dirname(resolve(path))
  const way = relative(process.cwd(), folder)
  if (way === "" || way === ".." || way.startsWith(`..${sep}`) || isAbsolute(way)) return [folder]
  return way.split(sep).map((_, at, parts) => join(process.cwd(), ...parts.slice(0, at + 1)))
}

/** A folder on the way that is a link or no folder is refused; one that is not there yet is fine. */
const checkFolders = async (path: string): Promise<void> => {
  for (const folder of foldersOf(path)) {
    const found = await statusOf(folder)
    if (found === null) return
    if (!found.isDirectory()) throw new NotOurs(`cannot be used: its folder ${folder} ${kindOf(found)}`)
  }
}

/** The file may be read or replaced; false = it is not there. */
const checkFile = async (path: string): Promise<boolean> => {
  await checkFolders(path)
  const found = await statusOf(path)
  if (found === null) return false
  if (!found.isFile()) throw new NotOurs(kindOf(found))
  return true
}

export const prepareFolder = async (path: string): Promise<void> => {
  await checkFolders(path)
  await files().mkdir(paths().dirname(path), { recursive: true, mode: folderMode })
  await checkFolders(path)
}

/** The text of a file; null = there is none. O_NONBLOCK: a pipe put there in the meantime keeps nobody waiting. */
export const readOwn = async (path: string): Promise<string | null> => {
  if (!(await checkFile(path))) return null
  const file = await files().open(path, modes().O_RDONLY | modes().O_NOFOLLOW | modes().O_NONBLOCK)
  try {
    if (!(await file.stat()).isFile()) throw new NotOurs("is no regular file")
    return await file.readFile("utf8")
  } finally {
    await file.close()
  }
}

/** A new file with a name nobody else has, beside the given one. It is the caller's to rename or remove. */
export const writeBeside = async (path: string, text: string): Promise<string> => {
  const own = `${path}.${process.pid}.${crypto.randomUUID().slice(0, 13)}.tmp`
  const flags = modes().O_WRONLY | modes().O_CREAT | modes().O_EXCL | modes().O_NOFOLLOW
  const file = await files().open(own, flags, fileMode)
  try {
    await file.writeFile(text)
    await file.datasync()
  } catch (cause) {
    await removeOwn(own)
    throw cause
  } finally {
    await file.close()
  }
  return own
}

export const removeOwn = (path: string): Promise<void> =>
  files()
    .unlink(path)
    .catch(() => undefined)

/** Writes the whole file at once: a crash leaves the one before. */
export const replaceOwn = async (path: string, text: string): Promise<void> => {
  await prepareFolder(path)
  await checkFile(path)
  const next = await writeBeside(path, text)
  try {
    // Once more: what stood there may have been changed while we wrote.
    await checkFile(path)
    await files().rename(next, path)
  } catch (cause) {
    await removeOwn(next)
    throw cause
  }
}
