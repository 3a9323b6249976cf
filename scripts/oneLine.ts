/**
 * `npm run one-line` (after `npm run build`): the package as npm packs it, in an empty project, and every example of
 * docs/one-line.md in it, unchanged. Their clients are pointed at a provider on loopback by the variables they read; its
 * first answer to each example is an overload. Examples of packages that are not installed here are told and left out.
 */
import { execFileSync, spawn } from "node:child_process"
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { bodyOf, errorOf, plain, type WireName } from "../test/support/nativeScripts.ts"

const root = join(import.meta.dirname, "..")
const project = mkdtempSync(join(tmpdir(), "holdfast-one-line-"))
const modules = join(project, "node_modules")

/** Packages that may stand in the project, by where they are installed here. */
const link = (from: string): void => {
  if (!existsSync(from)) return
  for (const name of readdirSync(from)) {
    if (name.startsWith(".")) continue
    if (name.startsWith("@")) {
      for (const inner of readdirSync(join(from, name))) linkOne(join(from, name, inner), join(name, inner))
    } else linkOne(join(from, name), name)
  }
}

const linkOne = (from: string, name: string): void => {
  const to = join(modules, name)
  if (existsSync(to)) return
  mkdirSync(dirname(to), { recursive: true })
  symlinkSync(from, to)
}

const install = (): void => {
  mkdirSync(modules, { recursive: true })
  const packed = execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", project], {
    cwd: root,
    encoding: "utf8"
  })
  const [{ filename }] = JSON.parse(packed) as [{ filename: string }]
  execFileSync("tar", ["xzf", join(project, filename), "-C", project])
  cpSync(join(project, "package"), join(modules, "holdfast"), { recursive: true })
  writeFileSync(join(project, "package.json"), '{ "type": "module" }\n')
  link(join(root, "node_modules"))
  link(join(root, "examples", "clients", "node_modules"))
}

const wireAt = (path: string): WireName =>
  path.includes("/chat/completions") ? "chat" : path.includes("/messages") ? "messages" : "responses"

/** An overload, then answers. */
const startProvider = async () => {
  const state = { asked: 0 }
  const server = createServer((request, response) => {
    request.resume()
    request.on("end", () => {
      state.asked += 1
      const wire = wireAt(request.url ?? "")
      const isFirst = state.asked === 1
      response.writeHead(isFirst ? 503 : 200, { "content-type": "application/json", "retry-after-ms": "5" })
      response.end(JSON.stringify(isFirst ? errorOf(wire) : bodyOf(wire, plain(["Hello!"]))))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { state, origin, close: () => server.close() }
}

const environment = (origin: string) => ({
  PATH: process.env["PATH"] ?? "",
  OPENAI_API_KEY: "sk-example-00000000",
  OPENAI_BASE_URL: `${origin}/v1`,
  ANTHROPIC_API_KEY: "sk-example-00000000",
  ANTHROPIC_BASE_URL: origin,
  AZURE_OPENAI_API_KEY: "sk-example-00000000",
  AZURE_OPENAI_ENDPOINT: origin,
  OPENAI_AGENTS_DISABLE_TRACING: "1"
})

const run = (file: string, origin: string): Promise<{ readonly code: number | null; readonly said: string }> =>
  new Promise((resolve) => {
    const child = spawn(process.execPath, ["--no-warnings", file], { cwd: project, env: environment(origin) })
    let said = ""
    child.stdout.on("data", (piece: Buffer) => (said += String(piece)))
    child.stderr.on("data", (piece: Buffer) => (said += String(piece)))
    child.on("close", (code) => resolve({ code, said }))
  })

const page = readFileSync(join(root, "docs", "one-line.md"), "utf8")
const examples = [...page.matchAll(/^```ts(?: no-run)?\n([\s\S]*?)^```$/gm)].map((found) => found[1] ?? "")

const missing = (code: string): string | undefined =>
  [...code.matchAll(/from "([^".][^"]*)"/g)]
    .map((found) =>
      (found[1] ?? "")
        .split("/")
        .slice(0, found[1]?.startsWith("@") === true ? 2 : 1)
        .join("/")
    )
    .find((name) => !existsSync(join(modules, name)))

install()
let faults = 0
for (const [index, code] of examples.entries()) {
  const title = code.split("\n").find((line) => line.includes("from ")) ?? `example ${index + 1}`
  const absent = missing(code)
  if (absent !== undefined) {
    console.log(`left out, ${absent} is not installed: ${title}`)
    continue
  }
  const provider = await startProvider()
  const file = join(project, `example${index}.ts`)
  writeFileSync(file, code)
  const { code: exit, said } = await run(file, provider.origin)
  provider.close()
  const isGreen = exit === 0
  if (!isGreen) faults += 1
  console.log(`${isGreen ? "runs" : "FAILS"}, ${provider.state.asked} requests: ${title}${isGreen ? "" : `\n${said}`}`)
}
rmSync(project, { recursive: true, force: true })
process.exit(faults === 0 ? 0 : 1)
