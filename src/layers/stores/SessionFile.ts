/**
 * A session on disk: the canonical history and what it has cost, nothing else, readable by its owner only, with one owner at a time. The
 * folder may be somebody else's: see ownFile.ts.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { isObject, parsedObject } from "../../domain/chat/json.ts"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import type { Amount } from "../../domain/budget/Budget.ts"
import { isMessage, type Message } from "../../domain/chat/Message.ts"
import { needed } from "../provider/runtime.ts"
import { acquire, Held } from "./OwnerLock.ts"
import { codeOf, NotOurs, readOwn, replaceOwn } from "./ownFile.ts"

const version = 1

/** What a session has spent; `costUsd` null = a model without a price was asked. */
export type Spent = Amount

const nothing: Spent = { tokens: 0, costUsd: 0 }

export interface Saved {
  readonly messages: ReadonlyArray<Message>
  readonly spent: Spent
}

export interface Session {
  /** What was saved before, where the session goes on; empty for a new one. */
  readonly before: ReadonlyArray<Message>
  /** What it has spent before. */
  readonly spentBefore: Spent
  /** Where an unfinished session that stood there is kept now; null = there was none. */
  readonly keptAs: string | null
  /** Writes a whole session at a time: a crash leaves the one before. What fails is in the log, and in `fault`. */
  readonly save: (messages: ReadonlyArray<Message>, spent?: Spent) => Effect.Effect<void>
  /** Why the newest history is not on disk; null = it is. */
  readonly fault: Effect.Effect<string | null>
}

const bad = (path: string, reason: string): ConfigurationError => new ConfigurationError({ field: path, reason })

const isCount = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value) && value >= 0

/** A session of a time when nothing was counted has spent nothing; null = what stands there is no count. */
const spentOf = (value: unknown): Spent | null => {
  if (value === undefined) return nothing
  if (!isObject(value) || !isCount(value["tokens"])) return null
  const { tokens, costUsd } = value
  return costUsd === null || isCount(costUsd) ? { tokens, costUsd } : null
}

const savedOf = (path: string, text: string): Result.Result<Saved, ConfigurationError> => {
  const value = parsedObject(text)
  if (value === null) return Result.fail(bad(path, "is not a saved session"))
  const found = value["version"]
  if (found !== version && (typeof found === "number" || typeof found === "string"))
    return Result.fail(bad(path, `is a session of version ${found}; this program reads version ${version}`))
  const messages = value["messages"]
  const spent = spentOf(value["spent"])
  return found === version && Array.isArray(messages) && messages.every(isMessage) && spent !== null
    ? Result.succeed({ messages, spent })
    : Result.fail(bad(path, "is not a saved session"))
}

/** What stands in the way of a file, without what a path of the system may tell. */
const reasonOf = (cause: unknown): string =>
  cause instanceof NotOurs || cause instanceof Held ? cause.message : `cannot be used: ${codeOf(cause)}`

/** What is saved there; null = nothing. */
export const read = (path: string): Effect.Effect<Saved | null, ConfigurationError> =>
  Effect.tryPromise({ try: () => readOwn(path), catch: (cause) => bad(path, reasonOf(cause)) }).pipe(
    Effect.flatMap((text) => (text === null ? Effect.succeed(null) : Effect.fromResult(savedOf(path, text))))
  )

const readSaved = (path: string): Effect.Effect<Saved, ConfigurationError> =>
  Effect.flatMap(read(path), (saved) =>
    saved === null ? Effect.fail(bad(path, "holds no saved session")) : Effect.succeed(saved)
  )

/** The history of a saved session. */
export const load = (path: string): Effect.Effect<ReadonlyArray<Message>, ConfigurationError> =>
  Effect.map(readSaved(path), ({ messages }) => messages)

/** A session is finished when its last word is an answer that asks for nothing more. */
export const isFinished = (messages: ReadonlyArray<Message>): boolean => {
  const last = messages.at(-1)
  return last === undefined || (last.role === "assistant" && (last.tool_calls ?? []).length === 0)
}

/** Puts an unfinished session aside under a name of its own. */
const keep = (path: string): Effect.Effect<string, ConfigurationError> =>
  Effect.tryPromise({
    try: async () => {
      const name = `${path.replace(/\.json$/, "")}.${new Date().toISOString().replaceAll(/[:.]/g, "-")}.${process.pid}.json`
      await needed("node:fs/promises").rename(path, name)
      return name
    },
    catch: (cause) =>
      bad(path, `holds an unfinished session that cannot be kept (${codeOf(cause)}): go on with --resume`)
  })

/** Writes whole sessions, one after the other; `fault` is why the newest is not on disk. */
const writer = Effect.fnUntraced(function* (path: string): Effect.fn.Return<Pick<Session, "save" | "fault">> {
  const lock = yield* Semaphore.make(1)
  let fault: string | null = null
  const save: Session["save"] = (messages, spent = nothing) =>
    Effect.tryPromise({
      try: () => replaceOwn(path, `${JSON.stringify({ version, spent, messages })}\n`),
      catch: reasonOf
    }).pipe(
      Effect.matchEffect({
        onSuccess: () => Effect.sync(() => void (fault = null)),
        onFailure: (reason) => {
          fault = `the session could not be saved: ${path} ${reason}`
          return Effect.logWarning(fault)
        }
      }),
      lock.withPermits(1),
      // An interruption that arrives in mid-save ends the run after it: what was finished is saved.
      Effect.uninterruptible
    )
  return { save, fault: Effect.sync(() => fault) }
})

/** Writes the sessions of a program that is their only owner. A run of its own opens one: `open`. */
export const make = (path: string): Effect.Effect<Session["save"]> => Effect.map(writer(path), ({ save }) => save)

/**
 * The session of a run, its own until the scope ends. Without `resume` an unfinished one is kept under another name; what is
 * no session is never replaced.
 */
export const open = Effect.fnUntraced(function* (
  path: string,
  resume: boolean
): Effect.fn.Return<Session, ConfigurationError, Scope.Scope> {
  yield* Effect.acquireRelease(
    Effect.tryPromise({ try: () => acquire(path), catch: (cause) => bad(path, reasonOf(cause)) }),
    (release) => Effect.promise(release)
  )
  const found = resume ? yield* readSaved(path) : yield* read(path)
  const keptAs = resume || found === null || isFinished(found.messages) ? null : yield* keep(path)
  const { messages, spent } = resume && found !== null ? found : { messages: [], spent: nothing }
  return { before: messages, spentBefore: spent, keptAs, ...(yield* writer(path)) }
})
