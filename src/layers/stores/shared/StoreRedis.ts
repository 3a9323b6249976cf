/** A store for processes on any number of hosts, over Redis: each operation is one script. */
import * as NodeRedis from "@effect/platform-node/NodeRedis"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as Redis from "effect/persistence/Redis"
import type { Counts, Standing } from "../../../domain/budget/Account.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { SharedStore, type SharedStoreShape, type Swapped } from "../../../services/SharedStore.ts"
import { make as makeLink, StoreFault } from "./storeLink.ts"
import * as scripts from "./storeScripts.ts"

export interface StoreRedisOptions {
  /** `redis://` or `rediss://`, with user and password. */
  readonly url: Redacted.Redacted | string
  /** Stands before every key. Default `holdfast`. */
  readonly prefix?: string
}

type Client = Context.Service.Shape<typeof Redis.Redis>

/** What Redis says, in one word: its messages may name keys. */
const faultOf = ({ cause }: Redis.RedisError): StoreFault => {
  const code = typeof cause === "object" && cause !== null && "code" in cause ? String(cause.code) : null
  const word = cause instanceof Error ? (/^([A-Z]{3,})\b/.exec(cause.message)?.[1] ?? cause.name) : "an error"
  return new StoreFault(`says: ${code ?? word}`)
}

const connect = (url: string): Effect.Effect<Client, StoreFault, Scope.Scope> =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    const layer = NodeRedis.layer({
      url,
      disableOfflineQueue: true,
      // A connection that breaks is not mended: the link opens another one.
      socket: { connectTimeout: 1_000, reconnectStrategy: false }
    })
    // Its client tells of every failing socket; the link says once that the store is away.
    const context = yield* Layer.buildWithScope(Layer.provide(layer, Logger.layer([])), scope).pipe(
      Effect.mapError(faultOf)
    )
    const { client } = Context.get(context, NodeRedis.NodeRedis)
    // Closing waits for answers: a frozen server gives none.
    yield* Scope.addFinalizer(
      scope,
      Effect.sync(() => {
        if (client.isOpen) client.destroy()
      })
    )
    return Context.get(context, Redis.Redis)
  })

const countsAt = (numbers: ReadonlyArray<string>, at: number): Counts => ({
  requests: Number(numbers[at] ?? 0),
  tokens: Number(numbers[at + 1] ?? 0),
  nanoUsd: Number(numbers[at + 2] ?? 0)
})

const standingsIn = (numbers: ReadonlyArray<string>): ReadonlyArray<Standing> =>
  Array.from({ length: numbers.length / 6 }, (_, index) => ({
    spent: countsAt(numbers, 6 * index),
    reserved: countsAt(numbers, 6 * index + 3)
  }))

const swappedIn = ([done, at, ...rest]: ReadonlyArray<string>): Swapped => ({
  isDone: done === "1",
  atMillis: Number(at ?? 0),
  current: Array.from({ length: rest.length / 3 }, (_, index) => {
    const [key = "", version = "0", value = ""] = rest.slice(3 * index)
    return { key, version: Number(version), value: version === "0" ? null : value }
  })
})

const urlOf = ({ url }: StoreRedisOptions): string => (typeof url === "string" ? url : Redacted.value(url))

const shapeOf = (options: StoreRedisOptions): Effect.Effect<SharedStoreShape, never, Scope.Scope> =>
  Effect.gen(function* () {
    // In a cluster all keys of one store are in one slot: a script needs them together.
    const prefix = `{${options.prefix ?? "holdfast"}}`
    const link = yield* makeLink<Client>({
      atOnce: 32,
      name: "redis",
      connect: connect(urlOf(options)),
      ping: (redis) => Effect.mapError(redis.send("PING"), faultOf)
    })
    const ask = <A>(body: (redis: Client) => Effect.Effect<A, Redis.RedisError>, patienceMillis?: number) =>
      link.use((redis) => Effect.mapError(body(redis), faultOf), patienceMillis)
    return {
      name: "redis",
      isAway: link.isAway,
      reserve: (one) =>
        Effect.map(
          ask((redis) => redis.eval(scripts.reserve)(prefix, one)),
          ([done, ...numbers]) => ({ isAdmitted: done === "1", standings: standingsIn(numbers) })
        ),
      settle: (one) =>
        Effect.map(
          ask((redis) => redis.eval(scripts.settle)(prefix, one)),
          standingsIn
        ),
      renew: (reserves) => ask((redis) => redis.eval(scripts.renew)(prefix, reserves)),
      standings: (accounts) =>
        Effect.map(
          ask((redis) => redis.eval(scripts.standings)(prefix, accounts)),
          standingsIn
        ),
      swap: (one, patienceMillis) =>
        Effect.map(
          ask((redis) => redis.eval(scripts.swap)(prefix, one), patienceMillis),
          swappedIn
        )
    }
  })

/** The store over its server; the connection is closed with the scope. A server that is not there yet is waited for. */
export const make = (options: StoreRedisOptions): Effect.Effect<SharedStoreShape, ConfigurationError, Scope.Scope> =>
  /^rediss?:\/\/./.test(urlOf(options)) && URL.canParse(urlOf(options))
    ? shapeOf(options)
    : Effect.fail(new ConfigurationError({ field: "url", reason: "must be an address redis://HOST:PORT" }))

export const layer = (options: StoreRedisOptions): Layer.Layer<SharedStore, ConfigurationError> =>
  Layer.effect(
    SharedStore,
    Effect.map(make(options), (store) => SharedStore.of(store))
  )
