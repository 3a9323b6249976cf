/**
 * Turns on several machines: effect's workflow engine over its cluster says which runner has a turn, and gives it to another
 * one when that dies; what the turn has done is in its journal, in the same database. The program of a turn is the one that
 * runs over SQLite. A parked turn is in no process: its answer wakes it.
 */
import * as NodeClusterSocket from "@effect/platform-node/NodeClusterSocket"
import * as PgClient from "@effect/sql-pg/PgClient"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as ClusterWorkflowEngine from "effect/cluster/ClusterWorkflowEngine"
import * as RunnerAddress from "effect/cluster/RunnerAddress"
import * as DurableDeferred from "effect/workflow/DurableDeferred"
import * as Workflow from "effect/workflow/Workflow"
import type { WorkflowEngine, WorkflowInstance } from "effect/workflow/WorkflowEngine"
import type { JournalFailure, TurnParked } from "../../../domain/agent/JournalError.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import type { DurableFailure } from "../../../programs/agent/durableTurn.ts"
import type { AgentResult } from "../../../programs/agent/runAgent.ts"
import type { JournalStoreShape } from "../../../services/JournalStore.ts"
import { makeOver } from "./JournalPostgres.ts"

/** What a turn is started with; the id is the idempotency key of the whole turn. */
export interface TurnOrder {
  readonly id: string
  readonly prompt: string
}

/** How a turn has ended: its reply, or what it failed with. */
export const TurnEnd = Schema.Struct({
  text: Schema.NullOr(Schema.String),
  failure: Schema.NullOr(Schema.Struct({ tag: Schema.String, message: Schema.String, guidance: Schema.String }))
})
export type TurnEnd = typeof TurnEnd.Type

/** The program of a turn: `durableTurn({ id, store, prompt, executor })` with the toolbox around it. */
export type TurnProgram = (
  order: TurnOrder & { readonly store: JournalStoreShape }
) => Effect.Effect<AgentResult, DurableFailure | ConfigurationError>

/** An address with a password in it is better redacted. */
export type Database = Redacted.Redacted | string

export interface RunnerOptions {
  /** `postgres://`, with user and password; all runners and clients of one set of turns name the same database. */
  readonly database: Database
  /** Where the other runners reach this one. */
  readonly host: string
  readonly port: number
  readonly run: TurnProgram
}

/**
 * A killed runner is missed after `shardLockExpiration`; with the engine's own values that is half a minute. Messages and
 * clocks are looked for every 250 ms instead of every 10 s.
 */
const tuned = {
  // Enough for a dozen runners; each is a lock that is taken when a runner comes and goes. The same for all of them.
  shardsPerGroup: 48,
  shardLockExpiration: "6 seconds",
  shardLockRefreshInterval: "2 seconds",
  refreshAssignmentsInterval: "1 second",
  runnerHealthCheckInterval: "2 seconds",
  entityMessagePollInterval: "250 millis"
} as const

/** The version in the name is the version of the order and of the end. */
const turnWorkflow = Workflow.make("holdfast/turn/1", {
  payload: { id: Schema.String, prompt: Schema.String },
  idempotencyKey: ({ id }) => id,
  success: TurnEnd
})

const answered = (key: string) => DurableDeferred.make(`answer/${key}`)

/** What ends by itself: the owner before, who was killed, is still heard of; the database is away. */
const isPassing = ({ _tag }: DurableFailure | ConfigurationError): boolean =>
  _tag === "TurnOwned" || _tag === "JournalUnavailable"
const untilFree = Schedule.spaced("200 millis")

const endOf = (failure: DurableFailure | ConfigurationError): TurnEnd => ({
  text: null,
  failure: { tag: failure._tag, message: failure.message, guidance: "guidance" in failure ? failure.guidance : "" }
})

const bodyOf =
  (store: JournalStoreShape, run: TurnProgram) =>
  (order: TurnOrder): Effect.Effect<TurnEnd, never, WorkflowEngine | WorkflowInstance> =>
    Effect.gen(function* () {
      while (true) {
        const end = yield* run({ id: order.id, prompt: order.prompt, store }).pipe(
          Effect.retry({ while: isPassing, schedule: untilFree }),
          Effect.match({
            onSuccess: ({ reply }): TurnEnd | TurnParked => ({ text: reply.text, failure: null }),
            onFailure: (failure): TurnEnd | TurnParked => (failure._tag === "TurnParked" ? failure : endOf(failure))
          })
        )
        if (!("_tag" in end)) return end
        // Ends the body: the engine begins it anew when the answer is there, on whatever runner, over the same journal.
        yield* DurableDeferred.await(answered(end.key))
      }
    })

const checked = (database: Database): Redacted.Redacted => {
  const url = typeof database === "string" ? database : Redacted.value(database)
  if (/^postgres(ql)?:\/\/./.test(url) && URL.canParse(url)) return Redacted.make(url)
  throw new ConfigurationError({ field: "database", reason: "must be an address postgres://HOST:PORT/DATABASE" })
}

const sqlOf = (database: Database) =>
  PgClient.layer({
    url: checked(database),
    maxConnections: 10,
    connectTimeout: "5 seconds",
    applicationName: "holdfast"
  })

/** Runs turns until its scope ends: started by a client, or left by another runner. */
export const runner = (options: RunnerOptions): Layer.Layer<never, unknown> => {
  const { database, host, port, run } = options
  if (host === "")
    throw new ConfigurationError({ field: "host", reason: "is empty: the other runners reach this one there" })
  if (!(Number.isInteger(port) && port > 0 && port < 65_536))
    throw new ConfigurationError({ field: "port", reason: "must be a whole number from 1 to 65535" })
  const turns = Layer.unwrap(
    Effect.map(Effect.flatMap(PgClient.PgClient, makeOver), (store) => turnWorkflow.toLayer(bodyOf(store, run)))
  )
  return turns.pipe(
    Layer.provide(ClusterWorkflowEngine.layer),
    Layer.provide(
      NodeClusterSocket.layer({
        shardingConfig: { ...tuned, runnerAddress: Option.some(RunnerAddress.make(host, port)) }
      })
    ),
    Layer.provide(sqlOf(database))
  )
}

export interface ServeOptions extends RunnerOptions {
  /** Told once, when it takes turns. */
  readonly onReady?: () => void
}

/**
 * The runner as a promise, for a program that is no effect: resolves when the signal has fired and the turns are given up to
 * other runners, rejects when it breaks. Logs go to stderr.
 */
export const serve = async (options: ServeOptions, signal: AbortSignal): Promise<void> => {
  const ready = Effect.sync(() => options.onReady?.())
  const program = Layer.build(runner(options)).pipe(
    Effect.andThen(ready),
    Effect.andThen(Effect.never),
    Effect.scoped,
    Effect.provideService(Logger.LogToStderr, true)
  )
  const exit = await Effect.runPromiseExit(program, { signal })
  if (Exit.isFailure(exit) && !signal.aborted) throw Cause.squash(exit.cause)
}

export interface TurnsShape {
  /** Starts the turn, or finds it; waits for its end, wherever it runs. */
  readonly run: (order: TurnOrder) => Effect.Effect<TurnEnd>
  /** Starts the turn, or finds it, and waits for nothing. */
  readonly start: (order: TurnOrder) => Effect.Effect<void>
  /** Answers what a parked turn waits for. False: it was answered before, and nothing changes. */
  readonly answer: (turn: string, key: string, value: string) => Effect.Effect<boolean, JournalFailure>
  /** Looks at the turns, cancels, forks or forgets one. */
  readonly store: JournalStoreShape
}

const shapeOf = Effect.gen(function* () {
  const store = yield* makeOver(yield* PgClient.PgClient)
  const context = yield* Effect.context<WorkflowEngine>()
  const shape: TurnsShape = {
    run: (order) => Effect.provide(turnWorkflow.execute(order), context),
    start: (order) => Effect.provide(Effect.asVoid(turnWorkflow.execute(order, { discard: true })), context),
    answer: (turn, key, value) =>
      Effect.gen(function* () {
        const isFirst = yield* store.answer(turn, key, value)
        const executionId = yield* turnWorkflow.executionId({ id: turn, prompt: "" })
        const deferred = answered(key)
        const token = DurableDeferred.tokenFromExecutionId(deferred, { workflow: turnWorkflow, executionId })
        // Told again when somebody has written the answer and died: a second time changes nothing.
        yield* DurableDeferred.succeed(deferred, { token, value: undefined })
        return isFirst
      }).pipe(Effect.provide(context)),
    store
  }
  return shape
})

/** Starts turns and answers them; runs none. */
export const client = (options: { readonly database: Database }): Effect.Effect<TurnsShape, unknown, Scope.Scope> =>
  Effect.flatMap(
    Layer.build(
      ClusterWorkflowEngine.layer.pipe(
        Layer.provide(
          NodeClusterSocket.layer({ clientOnly: true, shardingConfig: { ...tuned, runnerAddress: Option.none() } })
        ),
        Layer.provideMerge(sqlOf(options.database))
      )
    ),
    (context) => Effect.provide(shapeOf, context)
  )
