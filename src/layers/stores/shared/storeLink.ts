/**
 * The link to a store that may be frozen or gone: every operation is bounded, and while the store is away none is tried but
 * the link's own probe. One log line when it goes and one when it is back.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { StoreAway } from "../../../services/SharedStore.ts"

/** What a driver says when an operation fails: a code or a few words, never a value, an address or a secret. */
export class StoreFault extends Error {}

export interface LinkOptions<C> {
  readonly name: string
  /** Opens a connection of its own. */
  readonly connect: Effect.Effect<C, StoreFault, Scope.Scope>
  readonly ping: (connection: C) => Effect.Effect<unknown, StoreFault>
  /** Patient operations under way at once: those behind them wait here, and their patience has not begun. */
  readonly atOnce: number
}

export interface StoreLink<C> {
  /**
   * Runs an operation. One that is out of patience has failed for its caller; the store is away when a probe of the link's
   * own does not come back either, or when `isPatient` operations (those that wait a whole second) do not.
   */
  readonly use: <A>(
    body: (connection: C) => Effect.Effect<A, StoreFault>,
    patienceMillis?: number
  ) => Effect.Effect<A, StoreAway>
  readonly isAway: () => boolean
}

/** How long money waits for an answer, and a probe. */
export const patienceMillis = 1_000
/** How long opening a connection may take: one to a frozen server is open as soon as that goes on. */
const connectMillis = 4_000
/** Longest time a process that starts waits for it. */
const startMillis = 2_000
/** Between two probes of a store that is away. */
const probeMillis = 400
/** A connection that does not close is left to itself after this time. */
const closeMillis = 1_000

interface Held<C> {
  readonly connection: C
  readonly scope: Scope.Closeable
}

type State<C> =
  | { readonly _tag: "Here"; readonly held: Held<C> }
  /** It has kept somebody waiting: the link asks whether it is there. */
  | { readonly _tag: "Suspect"; readonly held: Held<C> }
  | { readonly _tag: "Away" }

/**
 * Runs beside the caller, so that giving up takes no time: an operation on a frozen connection ends when that is closed.
 * null = out of patience.
 */
const bounded = <A, E>(
  scope: Scope.Scope,
  millis: number,
  body: Effect.Effect<A, E>
): Effect.Effect<Exit.Exit<A, E> | null> =>
  Effect.flatMap(Effect.forkIn(body, scope, { startImmediately: true }), (fiber) =>
    Effect.map(Effect.timeoutOption(Fiber.await(fiber), millis), Option.getOrNull)
  )

const reasonIn = <A>(exit: Exit.Exit<A, StoreFault> | null, millis: number): string => {
  if (exit === null) return `did not answer within ${millis} ms`
  if (Exit.isSuccess(exit)) return "answered"
  const fault = Cause.squash(exit.cause)
  return fault instanceof StoreFault ? fault.message : "failed"
}

export const make = <C>(options: LinkOptions<C>): Effect.Effect<StoreLink<C>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    const wake = yield* Queue.sliding<void>(1)
    const first = yield* Deferred.make<void>()
    let state: State<C> = { _tag: "Away" }
    const turns = yield* Semaphore.make(options.atOnce)
    let isToldAway = false

    const close = (own: Scope.Closeable): Effect.Effect<void> =>
      Effect.ignore(Effect.timeoutOption(Scope.close(own, Exit.void), closeMillis))
    const drop = (own: Scope.Closeable): Effect.Effect<void> => Effect.asVoid(Effect.forkIn(close(own), scope))

    const leave = (reason: string): Effect.Effect<void> =>
      Effect.suspend(() => {
        const held = state._tag === "Away" ? null : state.held
        state = { _tag: "Away" }
        const told = isToldAway
          ? Effect.void
          : Effect.logWarning(`the shared store (${options.name}) is away: it ${reason}`)
        isToldAway = true
        Queue.offerUnsafe(wake, undefined)
        return Effect.andThen(held === null ? Effect.void : drop(held.scope), told)
      })

    const arrive = (held: Held<C>): Effect.Effect<void> =>
      Effect.suspend(() => {
        state = { _tag: "Here", held }
        const told = isToldAway ? Effect.logInfo(`the shared store (${options.name}) is back`) : Effect.void
        isToldAway = false
        return told
      })

    const connect = Effect.gen(function* () {
      const own = yield* Scope.make()
      const opening = Effect.flatMap(Scope.provide(options.connect, own), (connection) =>
        Effect.as(options.ping(connection), connection)
      )
      const opened = yield* bounded(scope, connectMillis, opening)
      if (opened !== null && Exit.isSuccess(opened)) return yield* arrive({ connection: opened.value, scope: own })
      yield* drop(own)
      return yield* leave(reasonIn(opened, connectMillis))
    })

    const verify = (held: Held<C>): Effect.Effect<void> =>
      Effect.flatMap(bounded(held.scope, patienceMillis, options.ping(held.connection)), (answer) =>
        state._tag !== "Suspect" || state.held !== held
          ? Effect.void
          : answer !== null && Exit.isSuccess(answer)
            ? arrive(held)
            : leave(reasonIn(answer, patienceMillis))
      )

    // Woken by whoever finds the store silent; probes on until it is back.
    const keeper = Effect.gen(function* () {
      yield* connect
      yield* Deferred.succeed(first, undefined)
      while (true) {
        if (state._tag === "Here") yield* Queue.take(wake)
        if (state._tag === "Suspect") yield* verify(state.held)
        while (state._tag === "Away") {
          yield* Effect.sleep(probeMillis)
          yield* connect
        }
      }
    })

    const away = (reason: string, isSent: boolean): StoreAway => new StoreAway({ store: options.name, reason, isSent })

    const run = <A>(body: (connection: C) => Effect.Effect<A, StoreFault>, millis: number, isPatient: boolean) =>
      Effect.suspend((): Effect.Effect<A, StoreAway> => {
        if (state._tag === "Away" || (state._tag === "Suspect" && !isPatient))
          return Effect.fail(away("is away", false))
        const { held } = state
        return Effect.flatMap(bounded(held.scope, millis, body(held.connection)), (exit) => {
          if (exit !== null && Exit.isSuccess(exit)) return Effect.succeed(exit.value)
          const failure = away(reasonIn(exit, millis), true)
          const isOld = state._tag === "Away" || state.held !== held
          if (isOld) return Effect.fail(failure)
          if (isPatient || exit !== null) return Effect.andThen(leave(failure.reason), Effect.fail(failure))
          state = { _tag: "Suspect", held }
          Queue.offerUnsafe(wake, undefined)
          return Effect.fail(failure)
        })
      })

    const use: StoreLink<C>["use"] = (body, millis = patienceMillis) =>
      millis >= patienceMillis ? turns.withPermit(run(body, millis, true)) : run(body, millis, false)

    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => (state._tag === "Away" ? Effect.void : close(state.held.scope)))
    )
    yield* Effect.forkIn(keeper, scope)
    // Whoever starts while the store is frozen starts without it.
    const known = yield* Effect.timeoutOption(Deferred.await(first), startMillis)
    if (Option.isNone(known)) yield* leave(`did not answer within ${startMillis} ms`)
    return { use, isAway: () => state._tag === "Away" }
  })
