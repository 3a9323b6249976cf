/** A copy of the tree in which every mutant of the named files waits behind a switch. */
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync, realpathSync } from "node:fs"
import { join, relative } from "node:path"
import { Instrumenter } from "@stryker-mutator/instrumenter"

export interface Mutant {
  readonly id: string
  readonly fileName: string
  readonly mutatorName: string
  readonly replacement: string
  readonly location: {
    readonly start: { readonly line: number; readonly column: number }
    readonly end: { readonly line: number; readonly column: number }
  }
}

const silent = {
  isTraceEnabled: () => false,
  isDebugEnabled: () => false,
  isInfoEnabled: () => false,
  isWarnEnabled: () => false,
  isErrorEnabled: () => false,
  isFatalEnabled: () => false,
  trace: () => undefined,
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  fatal: () => undefined
}

const copied = ["src", "test", "scripts", "docs", "package.json", "tsconfig.json", "vitest.mutation.config.ts"]

export const instrument = async (
  root: string,
  sandbox: string,
  files: ReadonlyArray<string>
): Promise<ReadonlyArray<Mutant>> => {
  rmSync(sandbox, { recursive: true, force: true })
  mkdirSync(sandbox, { recursive: true })
  for (const name of copied) cpSync(join(root, name), join(sandbox, name), { recursive: true })
  symlinkSync(realpathSync(join(root, "node_modules")), join(sandbox, "node_modules"))
  const instrumenter = new Instrumenter(silent)
  const result = await instrumenter.instrument(
    files.map((name) => ({ name: join(sandbox, name), mutate: true, content: readFileSync(join(root, name), "utf8") })),
    { plugins: null, excludedMutations: [], ignorers: [] }
  )
  for (const { name, content } of result.files) writeFileSync(name, content)
  return result.mutants.map(({ id, fileName, mutatorName, replacement, location }) => ({
    id,
    fileName: relative(sandbox, fileName),
    mutatorName,
    replacement,
    location
  }))
}
