/** Starts a provider of the benchmarks in a process of its own and waits for its port. */
import { spawn } from "node:child_process"
import { fileURLToPath } from "node:url"

export interface Provider {
  readonly baseUrl: string
  readonly stop: () => void
}

export interface ServerProcess {
  readonly port: number
  readonly pid: number
  readonly stop: () => void
}

export const startProcess = (file: URL, options: ReadonlyArray<string>): Promise<ServerProcess> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [fileURLToPath(file), ...options], { stdio: ["pipe", "pipe", "inherit"] })
    child.once("error", reject)
    child.once("exit", (code) => reject(new Error(`the provider ended with ${code}`)))
    child.stdout.once("data", (line: Buffer) =>
      resolve({ port: Number(String(line)), pid: child.pid ?? 0, stop: () => child.stdin.end() })
    )
  })

export const startProvider = async (chunks: number): Promise<Provider> => {
  const { port, stop } = await startProcess(new URL("server.ts", import.meta.url), [String(chunks)])
  return { baseUrl: `http://127.0.0.1:${port}/v1`, stop }
}
