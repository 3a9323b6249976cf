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
   * Runs an operation. One that is out of patience has failed for its caller. The store is away when one that waits a whole
   * second does not come back, or a probe of the link's own after one that waits less.
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

/** A connection that does not close is left to itself. */
const close = (own: Scope.Closeable): Effect.Effect<void> =>
  Effect.ignore(Effect.timeoutOption(Scope.close(own, Exit.void), closeMillis))

/** Where the store is, and what is said when that changes. */
const makePlace = <C>(name: string, scope: Scope.Scope, wake: Queue.Queue<void>) => {
  let state: State<C> = { _tag: "Away" }
  let isToldAway = false
  return {
    now: (): State<C> => state,
    doubt: (held: Held<C>): void => {
      state = { _tag: "Suspect", held }
      Queue.offerUnsafe(wake, undefined)
    },
    leave: (reason: string): Effect.Effect<void> =>
      Effect.suspend(() => {
        const held = state._tag === "Away" ? null : state.held
        state = { _tag: "Away" }
        const told = isToldAway ? Effect.void : Effect.logWarning(`the shared store (${name}) is away: it ${reason}`)
        isToldAway = true
        Queue.offerUnsafe(wake, undefined)
        return Effect.andThen(held === null ? Effect.void : Effect.forkIn(close(held.scope), scope), told)
      }),
    arrive: (held: Held<C>): Effect.Effect<void> =>
      Effect.suspend(() => {
        state = { _tag: "Here", held }
        const told = isToldAway ? Effect.logInfo(`the shared store (${name}) is back`) : Effect.void
        isToldAway = false
        return told
      })
  }
}

type Place<C> = ReturnType<typeof makePlace<C>>

/** Opens a connection, for the first time or again. */
const connectTo = <C>(options: LinkOptions<C>, place: Place<C>, scope: Scope.Scope): Effect.Effect<void> =>
  Effect.gen(function* () {
    const own = yield* Scope.make()
    const opening = Effect.flatMap(Scope.provide(options.connect, own), (connection) =>
      Effect.as(options.ping(connection), connection)
    )
    const opened = yield* bounded(scope, connectMillis, opening)
    if (opened !== null && Exit.isSuccess(opened)) return yield* place.arrive({ connection: opened.value, scope: own })
    yield* Effect.forkIn(close(own), scope)
    return yield* place.leave(reasonIn(opened, connectMillis))
  })

/** Asks a store that has kept somebody waiting whether it is there. */
const verify = <C>(options: LinkOptions<C>, place: Place<C>, held: Held<C>): Effect.Effect<void> =>
  Effect.flatMap(bounded(held.scope, patienceMillis, options.ping(held.connection)), (answer) => {
    const now = place.now()
    if (now._tag !== "Suspect" || now.held !== held) return Effect.void
    return answer !== null && Exit.isSuccess(answer)
      ? place.arrive(held)
      : place.leave(reasonIn(answer, patienceMillis))
  })

/** Woken by whoever finds the store silent; probes on until it is back. */
const keep = <C>(
  options: LinkOptions<C>,
  place: Place<C>,
  scope: Scope.Scope,
  wake: Queue.Dequeue<void>,
  first: Deferred.Deferred<void>
): Effect.Effect<never> =>
  Effect.gen(function* () {
    yield* connectTo(options, place, scope)
    yield* Deferred.succeed(first, undefined)
    while (true) {
      const now = place.now()
      if (now._tag === "Here") yield* Queue.take(wake)
      else if (now._tag === "Suspect") yield* verify(options, place, now.held)
      else {
        yield* Effect.sleep(probeMillis)
        yield* connectTo(options, place, scope)
      }
    }
  })

const runOn = <C, A>(
  name: string,
  place: Place<C>,
  body: (connection: C) => Effect.Effect<A, StoreFault>,
  millis: number
): Effect.Effect<A, StoreAway> =>
  Effect.suspend(() => {
    const isPatient = millis >= patienceMillis
    const before = place.now()
    if (before._tag === "Away" || (before._tag === "Suspect" && !isPatient))
      return Effect.fail(new StoreAway({ store: name, reason: "is away", isSent: false }))
    const { held } = before
    return Effect.flatMap(bounded(held.scope, millis, body(held.connection)), (exit) => {
      if (exit !== null && Exit.isSuccess(exit)) return Effect.succeed(exit.value)
      const failure = new StoreAway({ store: name, reason: reasonIn(exit, millis), isSent: true })
      const now = place.now()
      const isOld = now._tag === "Away" || now.held !== held
      if (isOld) return Effect.fail(failure)
      if (isPatient || exit !== null) return Effect.andThen(place.leave(failure.reason), Effect.fail(failure))
      place.doubt(held)
      return Effect.fail(failure)
    })
  })

export const make = <C>(options: LinkOptions<C>): Effect.Effect<StoreLink<C>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    const wake = yield* Queue.sliding<void>(1)
    const first = yield* Deferred.make<void>()
    const turns = yield* Semaphore.make(options.atOnce)
    const place = makePlace<C>(options.name, scope, wake)
    yield* Effect.addFinalizer(() =>
      Effect.suspend(() => {
        const now = place.now()
        return now._tag === "Away" ? Effect.void : close(now.held.scope)
      })
    )
    yield* Effect.forkIn(keep(options, place, scope, wake, first), scope)
    // Whoever starts while the store is frozen starts without it.
    const known = yield* Effect.timeoutOption(Deferred.await(first), startMillis)
    if (Option.isNone(known)) yield* place.leave(`did not answer within ${startMillis} ms`)
    const use: StoreLink<C>["use"] = (body, millis = patienceMillis) => {
      const run = runOn(options.name, place, body, millis)
      return millis >= patienceMillis ? turns.withPermit(run) : run
    }
    return { use, isAway: () => place.now()._tag === "Away" }
  })
