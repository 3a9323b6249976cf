/** Starts the benchmarks' provider and waits for its port. */
import { spawn } from "node:child_process"
import { fileURLToPath } from "node:url"

export interface Provider {
  readonly baseUrl: string
  readonly stop: () => void
}

export const startProvider = (chunks: number): Promise<Provider> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [fileURLToPath(new URL("server.ts", import.meta.url)), String(chunks)], {
      stdio: ["pipe", "pipe", "inherit"]
    })
    child.once("error", reject)
    child.once("exit", (code) => reject(new Error(`the provider ended with ${code}`)))
    child.stdout.once("data", (line: Buffer) =>
      resolve({ baseUrl: `http://127.0.0.1:${Number(String(line))}/v1`, stop: () => child.stdin.end() })
    )
  })
