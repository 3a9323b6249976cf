/** The gateways that are compared, each a process of its own before the same upstream. */
import { spawn, type ChildProcess } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { createServer, type AddressInfo } from "node:net"
import { fileURLToPath } from "node:url"
import { startGateway } from "../agents/gatewayProcess.ts"
import { startProcess } from "../provider.ts"

export interface Subject {
  readonly name: string
  readonly origin: string
  readonly pid: number
  /** What its requests carry beside their own headers. */
  readonly headers: Readonly<Record<string, string>>
  readonly stop: () => Promise<unknown>
}

/** User and system time of a process so far, milliseconds: /proc counts in hundredths of a second. */
export const cpuOf = (pid: number): number => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]?.split(" ") ?? []
  return (Number(fields[11]) + Number(fields[12])) * 10
}

/** Resident memory of a process, megabytes. */
export const rssOf = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? Number.NaN) / 1_024

export const startBare = async (upstream: string): Promise<Subject> => {
  const { port, pid, stop } = await startProcess(new URL("proxy.ts", import.meta.url), [upstream])
  return { name: "bare proxy", origin: `http://127.0.0.1:${port}`, pid, headers: {}, stop: async () => stop() }
}

export const startOurs = async (upstream: string, stream: "live" | "verified" = "live"): Promise<Subject> => {
  const gateway = await startGateway(upstream, { stream })
  return { name: `holdfast, ${stream}`, origin: gateway.origin, pid: gateway.pid, headers: {}, stop: gateway.close }
}

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const probe = createServer()
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as AddressInfo
      probe.close(() => resolve(port))
    })
  })

const untilUp = async (origin: string, child: ChildProcess): Promise<void> => {
  for (let tries = 0; tries < 100 && child.exitCode === null; tries += 1) {
    const isUp = await fetch(origin).then(
      () => true,
      () => false
    )
    if (isUp) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error(`nothing listens at ${origin}`)
}

const portkeyFile = fileURLToPath(new URL("../node_modules/@portkey-ai/gateway/build/start-server.js", import.meta.url))

/** null = bench/ has not installed it (`npm ci --prefix bench --ignore-scripts`). */
export const startPortkey = async (upstream: string): Promise<Subject | null> => {
  if (!existsSync(portkeyFile)) return null
  const port = await freePort()
  const child = spawn(process.execPath, [portkeyFile, "--headless", `--port=${port}`], {
    stdio: "ignore",
    // It refuses upstreams on this machine unless it is told otherwise.
    env: { ...process.env, NODE_ENV: "production", TRUSTED_CUSTOM_HOSTS: "127.0.0.1,localhost" }
  })
  const origin = `http://127.0.0.1:${port}`
  await untilUp(origin, child)
  return {
    name: "@portkey-ai/gateway",
    origin,
    pid: child.pid ?? 0,
    headers: { "x-portkey-provider": "openai", "x-portkey-custom-host": `${upstream}/v1` },
    stop: async () => child.kill()
  }
}
