/** What keeps a command from starting, in one sentence: a Node that is too old, a package that is not installed. */

/** Packages the commands need and npm does not bring by itself. */
const packagesOfCommands: ReadonlyArray<string> = ["@effect/platform-node", "openai"]

/** The oldest Node, as in package.json. */
export const oldestNode = "22.19"

const numbersOf = (version: string): readonly [number, number] => {
  const [major, minor] = version.split(".").map(Number)
  return [major ?? 0, minor ?? 0]
}

/** Told of a Node that is too old; null = it will do. */
export const tooOld = (version: string): string | null => {
  const [major, minor] = numbersOf(version)
  const [oldestMajor, oldestMinor] = numbersOf(oldestNode)
  return major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)
    ? null
    : `needs Node ${oldestNode} or newer; this is Node ${version}`
}

/** The package a failed import was looking for; null = it failed for another reason. Only Node's message names it. */
const absentPackage = (cause: unknown): string | null => {
  if (!(cause instanceof Error) || Reflect.get(cause, "code") !== "ERR_MODULE_NOT_FOUND") return null
  return /^Cannot find package '([^']+)'/.exec(cause.message)?.[1] ?? null
}

/**
 * Told of a package that is not installed, with those that will be missed next; null = the failure is another one.
 * `isInstalled` is asked about the other packages of the commands.
 */
export const notInstalled = (cause: unknown, isInstalled: (name: string) => boolean): string | null => {
  const name = absentPackage(cause)
  if (name === null) return null
  const names = [name, ...packagesOfCommands.filter((other) => other !== name && !isInstalled(other))]
  return `${names.join(" and ")} ${names.length === 1 ? "is" : "are"} not installed: npm install ${names.join(" ")}`
}

/** Whether a package can be imported from here. */
export const isInstalled = (name: string): boolean => {
  try {
    import.meta.resolve(name)
    return true
  } catch {
    return false
  }
}
