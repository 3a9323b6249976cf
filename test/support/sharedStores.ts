/** Real servers for the tests of what several processes share, each on a port and in a folder of its own. */
import { spawn, spawnSync, type ChildProcess } from "node:child_process"
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { createServer, connect } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { ConfigurationError } from "../../src/domain/failure/ConfigurationError.ts"
import type { SharedStoreShape } from "../../src/services/SharedStore.ts"

export type StoreKind = "sqlite" | "redis" | "postgres"

export const storeAt = (
  kind: string,
  address: string
): Effect.Effect<SharedStoreShape, ConfigurationError, Scope.Scope> =>
  Effect.flatMap(
    Effect.promise(async () => {
      if (kind === "sqlite")
        return (await import("../../src/layers/stores/shared/StoreSqlite.ts")).make({ path: address })
      if (kind === "redis")
        return (await import("../../src/layers/stores/shared/StoreRedis.ts")).make({ url: Redacted.make(address) })
      return (await import("../../src/layers/stores/shared/StorePostgres.ts")).make({ url: Redacted.make(address) })
    }),
    (made): Effect.Effect<SharedStoreShape, ConfigurationError, Scope.Scope> => made
  )

export interface RunningStore {
  readonly kind: StoreKind
  readonly address: string
  /** SIGSTOP and SIGCONT for every process of the server. */
  readonly freeze: () => void
  readonly thaw: () => void
  /** Gone at once, and started again where it was. */
  readonly kill: () => Promise<void>
  readonly start: () => Promise<void>
  readonly stop: () => Promise<void>
}

const postgresFolder = "/usr/lib/postgresql"

const postgresBin = (): string | null => {
  if (!existsSync(postgresFolder)) return null
  const [newest] = readdirSync(postgresFolder).sort((left, right) => Number(right) - Number(left))
  const bin = newest === undefined ? null : join(postgresFolder, newest, "bin")
  return bin !== null && existsSync(join(bin, "postgres")) ? bin : null
}

const hasRedis = (): boolean => spawnSync("redis-server", ["--version"]).status === 0

/** What is missing on this machine, in words; null = all is there. */
const missing = (kind: StoreKind): string | null =>
  kind === "redis" && !hasRedis()
    ? "redis-server is not installed (Debian: apt-get install redis-server)"
    : kind === "postgres" && postgresBin() === null
      ? "PostgreSQL is not installed (Debian: apt-get install postgresql)"
      : null

export const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer()
    server.once("error", reject)
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0))
    })
  })

const answers = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1" })
    socket.once("connect", () => (socket.destroy(), resolve(true)))
    socket.once("error", () => resolve(false))
  })

/** A server that mends itself after a kill takes connections before it answers anything. */
const isReady = (kind: StoreKind, port: number): boolean =>
  kind !== "postgres" ||
  spawnSync(join(postgresBin() ?? "", "pg_isready"), ["-h", "127.0.0.1", "-p", String(port)]).status === 0

const untilAnswers = async (kind: StoreKind, port: number): Promise<void> => {
  for (let turn = 0; turn < 300; turn += 1) {
    if ((await answers(port)) && isReady(kind, port)) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`nothing answers on port ${port}`)
}

/** The server's own process and those it has forked. */
const familyOf = (pid: number): ReadonlyArray<number> => {
  const { stdout } = spawnSync("ps", ["-o", "pid=", "--ppid", String(pid)], { encoding: "utf8" })
  return [
    pid,
    ...stdout
      .split("\n")
      .map(Number)
      .filter((one) => one > 0)
  ]
}

const ended = (child: ChildProcess): Promise<void> =>
  child.exitCode !== null || child.signalCode !== null
    ? Promise.resolve()
    : new Promise((resolve) => child.once("exit", () => resolve()))

const serverOf = async (
  kind: StoreKind,
  address: string,
  port: number,
  folder: string,
  launch: () => ChildProcess
): Promise<RunningStore> => {
  let child = launch()
  const signal = (name: NodeJS.Signals): void => {
    for (const pid of familyOf(child.pid ?? 0)) {
      try {
        process.kill(pid, name)
      } catch {
        // A process of one connection has ended with it.
      }
    }
  }
  await untilAnswers(kind, port)
  const kill = async (): Promise<void> => {
    signal("SIGCONT")
    child.kill("SIGKILL")
    await ended(child)
  }
  return {
    kind,
    address,
    freeze: () => signal("SIGSTOP"),
    thaw: () => signal("SIGCONT"),
    kill,
    start: async () => {
      child = launch()
      await untilAnswers(kind, port)
    },
    stop: async () => {
      signal("SIGCONT")
      child.kill(kind === "postgres" ? "SIGQUIT" : "SIGKILL")
      await ended(child)
      rmSync(folder, { recursive: true, force: true })
    }
  }
}

const startRedis = async (folder: string, port: number): Promise<RunningStore> => {
  const settings = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder, "--appendonly", "yes"]
  return serverOf("redis", `redis://127.0.0.1:${port}`, port, folder, () =>
    spawn("redis-server", settings, { stdio: "ignore" })
  )
}

/** PostgreSQL does not run as root: its own user is lent then. */
const startPostgres = async (folder: string, port: number): Promise<RunningStore> => {
  const bin = postgresBin() ?? ""
  const id = (name: string): number => Number(spawnSync("id", [name, "postgres"], { encoding: "utf8" }).stdout.trim())
  const user = process.getuid?.() === 0 ? { uid: id("-u"), gid: id("-g") } : {}
  if (user.uid !== undefined) chownSync(folder, user.uid, user.gid)
  const data = join(folder, "data")
  const made = spawnSync(join(bin, "initdb"), ["-D", data, "-U", "holdfast", "-A", "trust", "--no-sync"], {
    ...user,
    cwd: folder,
    encoding: "utf8"
  })
  if (made.status !== 0) throw new Error(made.stderr)
  const settings = ["-D", data, "-p", String(port), "-h", "127.0.0.1", "-k", folder]
  return serverOf("postgres", `postgres://holdfast@127.0.0.1:${port}/postgres`, port, folder, () =>
    spawn(join(bin, "postgres"), settings, { ...user, cwd: folder, stdio: "ignore" })
  )
}

/** Throws a sentence that names what is not installed: these tests are asked for, and pass nothing over. */
export const startStore = async (kind: StoreKind): Promise<RunningStore> => {
  const reason = missing(kind)
  if (reason !== null) throw new Error(reason)
  const folder = mkdtempSync(join(tmpdir(), `holdfast-${kind}-`))
  if (kind === "redis") return startRedis(folder, await freePort())
  if (kind === "postgres") return startPostgres(folder, await freePort())
  const nothing = async (): Promise<void> => undefined
  return {
    kind,
    address: join(folder, "shared.db"),
    freeze: () => undefined,
    thaw: () => undefined,
    kill: nothing,
    start: nothing,
    stop: async () => rmSync(folder, { recursive: true, force: true })
  }
}
