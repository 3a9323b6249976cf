/** `holdfast gateway` as a process of its own, before one upstream. */
import { spawn } from "node:child_process"
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** Short times, so that a run takes minutes; everything else is what an agent's route is meant to have. */
const configFor = (upstream: string, route: object): string =>
  JSON.stringify({
    listen: { port: 0 },
    upstreams: { main: { baseUrl: `${upstream}/v1` } },
    routes: {
      "*": {
        upstream: "main",
        preset: "broad",
        stream: "live",
        truncation: "always",
        policy: {
          firstTokenTimeout: "6 seconds",
          idleTimeout: "4 seconds",
          deadline: "30 seconds",
          backoff: { base: "200 millis", factor: 2, cap: "5 seconds", jitter: 0.25 }
        },
        ...route
      }
    }
  })

/** `built`: from dist/, as it is published; the sources need a compiler in their process, and its memory. */
export const startGateway = async (upstream: string, route: object = {}, { built = false } = {}) => {
  const folder = mkdtempSync(join(tmpdir(), "gateway-"))
  const file = join(folder, "gateway.json")
  writeFileSync(file, configFor(upstream, route))
  const cli = join(import.meta.dirname, built ? "../../dist/cli.js" : "../../src/cli.ts")
  if (!existsSync(cli)) throw new Error(`There is no ${cli}: run npm run build first.`)
  const child = spawn(process.execPath, [cli, "gateway", "--config", file], { stdio: ["ignore", "inherit", "pipe"] })
  const origin = await new Promise<string>((resolve, reject) => {
    let heard = ""
    child.stderr.on("data", (chunk) => {
      heard += String(chunk)
      const found = /listening on (\S+)/.exec(heard)?.[1]
      if (found !== undefined) resolve(found)
    })
    child.on("exit", () => reject(new Error(`The gateway did not start: ${heard}`)))
  })
  return {
    origin,
    pid: child.pid ?? 0,
    close: () =>
      new Promise<number | null>((resolve) => {
        child.on("exit", (code) => {
          rmSync(folder, { recursive: true, force: true })
          resolve(code)
        })
        child.kill("SIGTERM")
      })
  }
}
