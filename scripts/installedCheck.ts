/**
 * The package as a stranger gets it: packed, installed into an empty project, and every entry point imported, required and
 * type-checked there. `npm run installed` after `npm run build`.
 */
import { execFileSync, spawnSync } from "node:child_process"
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"

const root = join(import.meta.dirname, "..")

interface Manifest {
  readonly exports: Readonly<Record<string, unknown>>
  readonly peerDependencies: Readonly<Record<string, string>>
  readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional?: boolean }>>
}

const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest
const optional = Object.keys(manifest.peerDependencies).filter(
  (name) => manifest.peerDependenciesMeta[name]?.optional === true
)
const entries = Object.keys(manifest.exports)
  .filter((name) => name !== "./package.json")
  .map((name) => `holdfast${name.slice(1)}`)

/** What a user has no use for. */
const unwanted = /^package\/(?:src|test|bench|scripts|examples|node_modules|\.)|\.map$|tsconfig|TOUR|AGENTS/

let failed = 0
const check = (what: string, faults: ReadonlyArray<string>): void => {
  console.log(`${faults.length === 0 ? "ok    " : "FAILED"} ${what}`)
  for (const fault of faults) console.log(`       ${fault}`)
  if (faults.length > 0) failed += 1
}

const folder = mkdtempSync(join(tmpdir(), "holdfast-installed-"))

/** What a program says on stderr when it fails; null = it ends well. */
const faultOf = (args: ReadonlyArray<string>): string | null => {
  const { status, stderr, stdout } = spawnSync(process.execPath, args, { cwd: folder, encoding: "utf8" })
  return status === 0 ? null : (/^\w*Error.*$/m.exec(stderr)?.[0] ?? `${stdout}${stderr}`.slice(0, 300))
}

const imported = (entry: string): string | null =>
  faultOf(["--input-type=module", "--eval", `import ${JSON.stringify(entry)}`])
/** From a file, as a program has it: what a dependency asks of its caller's name is not there in a text that is evaluated. */
const required = (entry: string): string | null => {
  const file = join(folder, "required.cjs")
  writeFileSync(file, `require(${JSON.stringify(entry)})\n`)
  return faultOf([file])
}

const faultsOf = (load: (entry: string) => string | null): ReadonlyArray<string> =>
  entries.flatMap((entry) => {
    const fault = load(entry)
    return fault === null ? [] : [`${entry}: ${fault}`]
  })

/** Without its optional peer an entry may only fail by naming it. */
const namesPeer = (fault: string): boolean => optional.some((name) => fault.includes(name))

const npm = (...args: ReadonlyArray<string>): string =>
  execFileSync("npm", args, { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] })

const addPeers = (): void => {
  for (const name of optional) {
    const from = join(root, "node_modules", name)
    const to = join(folder, "node_modules", name)
    if (!existsSync(from)) continue
    mkdirSync(dirname(to), { recursive: true })
    symlinkSync(from, to)
  }
}

const typesFault = (module: string, moduleResolution: string): ReadonlyArray<string> => {
  const code = entries.map(
    (entry, at) => `import * as entry${at} from "${entry}"\nexport const name${at}: object = entry${at}`
  )
  writeFileSync(join(folder, "all.mts"), code.join("\n"))
  const options = {
    module,
    moduleResolution,
    target: "ES2023",
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    types: []
  }
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: options, files: ["all.mts"] }))
  const fault = faultOf([join(root, "node_modules/typescript/bin/tsc"), "-p", folder])
  return fault === null ? [] : [fault]
}

try {
  const [packed] = JSON.parse(
    execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder], {
      cwd: root,
      encoding: "utf8"
    })
  ) as ReadonlyArray<{ readonly filename: string; readonly files: ReadonlyArray<{ readonly path: string }> }>
  if (packed === undefined) throw new Error("nothing was packed")
  check(
    `holds what a user needs (${packed.files.length} files)`,
    packed.files.map(({ path }) => `package/${path}`).filter((path) => unwanted.test(path))
  )
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "stranger", private: true, type: "module" }))
  npm("install", "--no-audit", "--no-fund", "--prefer-offline", join(folder, packed.filename))
  check(
    "installs no peer that was not asked for",
    optional.filter((name) => existsSync(join(folder, "node_modules", name)))
  )
  console.log(
    `       installed: ${readdirSync(join(folder, "node_modules"))
      .filter((name) => !name.startsWith("."))
      .join(", ")}`
  )
  check(
    "loads without the peers, or names the one it needs",
    faultsOf(imported).filter((fault) => !namesPeer(fault))
  )
  check(
    "holdfast config runs without the peers",
    [faultOf([join(folder, "node_modules/holdfast/dist/cli.js"), "config"])].filter((fault) => fault !== null)
  )
  addPeers()
  check("every entry point is imported", faultsOf(imported))
  check("every entry point is required", faultsOf(required))
  check("types resolve under NodeNext", typesFault("NodeNext", "NodeNext"))
  check("types resolve under Bundler", typesFault("ESNext", "Bundler"))
} finally {
  rmSync(folder, { recursive: true, force: true })
}
process.exitCode = failed === 0 ? 0 : 1
