/**
 * A session on disk: the canonical history and nothing else, readable by its owner only, with one owner at a time. The
 * folder may be somebody else's: see ownFile.ts.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { parsedObject } from "../../domain/chat/json.ts"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import { isMessage, type Message } from "../../domain/chat/Message.ts"
import { needed } from "../provider/runtime.ts"
import { acquire, Held } from "./OwnerLock.ts"
import { codeOf, NotOurs, readOwn, replaceOwn } from "./ownFile.ts"

const version = 1

export interface Session {
  /** What was saved before, where the session goes on; empty for a new one. */
  readonly before: ReadonlyArray<Message>
  /** Where an unfinished session that stood there is kept now; null = there was none. */
  readonly keptAs: string | null
  /** Writes a whole session at a time: a crash leaves the one before. What fails is in the log, and in `fault`. */
  readonly save: (messages: ReadonlyArray<Message>) => Effect.Effect<void>
  /** Why the newest history is not on disk; null = it is. */
  readonly fault: Effect.Effect<string | null>
}

const bad = (path: string, reason: string): ConfigurationError => new ConfigurationError({ field: path, reason })

const messagesOf = (path: string, text: string): Result.Result<ReadonlyArray<Message>, ConfigurationError> => {
  const value = parsedObject(text)
  if (value === null) return Result.fail(bad(path, "is not a saved session"))
  const found = value["version"]
  if (found !== version && (typeof found === "number" || typeof found === "string"))
    return Result.fail(bad(path, `is a session of version ${found}; this program reads version ${version}`))
  const messages = value["messages"]
  return found === version && Array.isArray(messages) && messages.every(isMessage)
    ? Result.succeed(messages)
    : Result.fail(bad(path, "is not a saved session"))
}

/** What stands in the way of a file, without what a path of the system may tell. */
const reasonOf = (cause: unknown): string =>
  cause instanceof NotOurs || cause instanceof Held ? cause.message : `cannot be used: ${codeOf(cause)}`

const read = (path: string): Effect.Effect<ReadonlyArray<Message> | null, ConfigurationError> =>
  Effect.tryPromise({ try: () => readOwn(path), catch: (cause) => bad(path, reasonOf(cause)) }).pipe(
    Effect.flatMap((text) => (text === null ? Effect.succeed(null) : Effect.fromResult(messagesOf(path, text))))
  )

/** The history of a saved session. */
export const load = (path: string): Effect.Effect<ReadonlyArray<Message>, ConfigurationError> =>
  Effect.flatMap(read(path), (messages) =>
    messages === null ? Effect.fail(bad(path, "holds no saved session")) : Effect.succeed(messages)
  )

/** A session is finished when its last word is an answer that asks for nothing more. */
const isFinished = (messages: ReadonlyArray<Message>): boolean => {
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
  const save = (messages: ReadonlyArray<Message>): Effect.Effect<void> =>
    Effect.tryPromise({
      try: () => replaceOwn(path, `${JSON.stringify({ version, messages })}\n`),
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
  const found = resume ? yield* load(path) : yield* read(path)
  const keptAs = resume || found === null || isFinished(found) ? null : yield* keep(path)
  return { before: resume ? (found ?? []) : [], keptAs, ...(yield* writer(path)) }
})
