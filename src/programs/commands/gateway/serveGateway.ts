/** What `holdfast gateway` does: reads its configuration, serves until it is told to stop, reads it again when it changes. */
import { readFileSync, watch, type FSWatcher } from "node:fs"
import { basename, dirname } from "node:path"
import { setFlagsFromString } from "node:v8"
import * as Effect from "effect/Effect"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { readConfigText } from "./configText.ts"
import { environmentConfig } from "./environmentConfig.ts"
import { fromLitellm, type Mapped } from "./fromLitellm.ts"
import { makeParts, makeShared } from "./gateway.ts"
import { resolveConfig, type GatewayConfig } from "./GatewayConfig.ts"
import { openStore, type Kept } from "./openStore.ts"
import { startServer, type GatewayServer } from "./server.ts"

/** Requests under way may end within so many milliseconds after SIGTERM or SIGINT, as docs/gateway.md says. */
const graceMillis = 30_000
/** A file that is being written changes several times: it is read when it has rested for so long. */
const settleMillis = 200

/**
 * What the heap may grow by before it is cleaned, percent of what lives in it. Left alone V8 lets it grow to several times
 * that on a large machine: a gateway whose requests hold 30 MB would take 200 MB from its neighbours.
 */
const heapGrowingPercent = 50

const readText = (path: string): string => {
  try {
    return readFileSync(path, "utf8")
  } catch (cause) {
    const code = typeof cause === "object" && cause !== null && "code" in cause ? String(cause.code) : "it failed"
    throw new ConfigurationError({ field: path, reason: `cannot be read (${code})` })
  }
}

const read = (path: string | null, port: number | null): GatewayConfig => {
  const config =
    path === null
      ? environmentConfig(process.env, port)
      : resolveConfig(basename(path), readConfigText(basename(path), readText(path)), process.env)
  return port === null ? config : { ...config, port }
}

/** What a configuration throws is an answer to its writer. */
const attempt = <A>(body: () => A): Effect.Effect<A, ConfigurationError> =>
  Effect.suspend(() => {
    try {
      return Effect.succeed(body())
    } catch (cause) {
      if (cause instanceof ConfigurationError) return Effect.fail(cause)
      throw cause
    }
  })

/** One line per route, for people. */
export const describe = (config: GatewayConfig): string =>
  [...config.routes.values()]
    .map((route) => {
      const targets = [{ upstream: route.upstream, model: route.model ?? "as asked" }, ...route.fallbacks]
      return `  ${route.name}: ${targets.map(({ upstream, model }) => `${model} at ${upstream.name}`).join(", then ")}`
    })
    .join("\n")

export const say = (text: string): void => {
  process.stderr.write(`${text}\n`)
}

/** Calls back when the file has changed and rests. Null = there is nothing to watch. */
const watchFile = (path: string, onChange: () => void): FSWatcher | null => {
  let timer: NodeJS.Timeout | null = null
  try {
    // The folder, since editors put a new file in the place of the old one.
    return watch(dirname(path) === "" ? "." : dirname(path), (_event, name) => {
      if (name !== null && name !== basename(path)) return
      if (timer !== null) clearTimeout(timer)
      timer = setTimeout(onChange, settleMillis)
    })
  } catch {
    return null
  }
}

/** Lets what is under way end; who tells the process to stop once more does not want to wait for it. */
const stop = Effect.fnUntraced(function* (server: GatewayServer) {
  const underWay = server.inFlight()
  if (underWay > 0)
    say(`holdfast: stops; ${underWay} under way may end within ${graceMillis / 1_000} s, a second signal cuts them`)
  process.on("SIGTERM", server.cut)
  process.on("SIGINT", server.cut)
  yield* Effect.promise(() => server.drain(graceMillis))
  process.off("SIGTERM", server.cut)
  process.off("SIGINT", server.cut)
  // To be told to stop and to stop in order is how a server ends well.
  process.exitCode = 0
})

/** A file that cannot be read or is wrong changes nothing. */
const reloader =
  (path: string, port: number | null, server: GatewayServer, put: (config: GatewayConfig) => void) => () => {
    try {
      const config = read(path, port)
      put(config)
      say(`holdfast: the configuration was read again\n${describe(config)}`)
    } catch (cause) {
      if (!(cause instanceof ConfigurationError)) throw cause
      say(`holdfast: the configuration was not taken, ${server.address} goes on as before: ${cause.message}`)
    }
  }

/** Until it is interrupted, which a signal does. A store stays the one it began with. */
export const serve = (path: string | null, port: number | null, config: GatewayConfig) =>
  Effect.scoped(Effect.flatMap(openStore(config.store), (kept) => serveWith(kept, path, port, config)))

const serveWith = Effect.fnUntraced(function* (
  { budgets, health }: Kept,
  path: string | null,
  port: number | null,
  config: GatewayConfig
) {
  yield* Effect.sync(() => setFlagsFromString(`--heap-growing-percent=${heapGrowingPercent}`))
  let server: GatewayServer | null = null
  const inFlight = () => server?.inFlight() ?? 0
  const shared = makeShared(budgets, inFlight, { keptBytes: () => server?.keptBytes() ?? 0, health })
  const onFault = (cause: unknown): void =>
    say(`holdfast: a request could not be handled (${cause instanceof Error ? cause.name : typeof cause})`)
  const started = yield* Effect.tryPromise({
    try: () => startServer({ parts: makeParts(config, shared), budgets, onFault }),
    catch: (cause) =>
      new ConfigurationError({
        field: `listen ${config.host}:${config.port}`,
        reason: `cannot be listened on (${cause instanceof Error && "code" in cause ? String(cause.code) : "it failed"})`
      })
  })
  server = started
  yield* Effect.sync(() => say(`holdfast: listening on ${started.address}\n${describe(config)}`))
  const reload = path === null ? null : reloader(path, port, started, (next) => started.use(makeParts(next, shared)))
  const watcher = path === null || reload === null ? null : watchFile(path, reload)
  if (reload !== null) process.on("SIGHUP", reload)
  // A signal interrupts the main program.
  return yield* Effect.never.pipe(
    Effect.ensuring(
      Effect.sync(() => {
        watcher?.close()
        if (reload !== null) process.off("SIGHUP", reload)
      })
    ),
    Effect.ensuring(stop(started))
  )
})

/** The configuration of a file, or of the environment; a port that is given wins. */
export const load = (path: string | null, port: number | null): Effect.Effect<GatewayConfig, ConfigurationError> =>
  attempt(() => read(path, port))

export const mapLitellm = (path: string): Effect.Effect<Mapped, ConfigurationError> =>
  attempt(() => fromLitellm(basename(path), readConfigText(basename(path), readText(path)).value))
