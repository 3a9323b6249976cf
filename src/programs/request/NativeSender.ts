/** What carries a native request to a provider and its answer back: bytes, nothing else. */
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { ModelError } from "../../domain/failure/ModelError.ts"
import type { Verdict } from "../../domain/provider/classify.ts"
import type { Route } from "../../domain/recovery/RecoveryPolicy.ts"
import type { Flaw, ReadContext } from "../../domain/wires/wireReply.ts"
import type { HeadLines } from "./ByteSource.ts"

/** Status and headers as the provider sent them. */
export interface NativeHead {
  readonly status: number
  readonly lines: HeadLines
  /** The upstream that gave it, as its route names it; null = the primary. */
  readonly client: string | null
}

export interface NativeAnswer {
  readonly head: NativeHead
  /** The headers that may be looked at, names in lower case. */
  readonly allowed: Readonly<Record<string, string>>
  readonly context: ReadContext
  /** One network read; null = the body has ended. Interrupting it closes the connection. */
  readonly read: Effect.Effect<Uint8Array | null, ModelError>
  /**
   * Hands over reads as they come, in plain calls, until `taken` says false (false comes back) or the body has ended (true).
   * `patience` is asked when there is nothing to take: for so many milliseconds more is waited for, then false comes back.
   * Default: as long as it takes. Interrupting it closes the connection.
   */
  readonly flow: (taken: (bytes: Uint8Array) => boolean, patience?: () => number) => Effect.Effect<boolean, ModelError>
  readonly problem: (problem: Flaw | Verdict) => ModelError
}

export interface NativeSender {
  /** Sends once. Headers have come when it succeeds; leaving the scope closes the connection. */
  readonly send: (route: Route, text: string) => Effect.Effect<NativeAnswer, ModelError, Scope.Scope>
  /** Asks for the rest of a stream that the provider has kept, behind an event. */
  readonly takeUp: (route: Route, id: string, after: number) => Effect.Effect<NativeAnswer, ModelError, Scope.Scope>
  /** Tells the provider that nobody waits any more for what it makes on its own. */
  readonly giveUp: (route: Route, id: string) => Effect.Effect<void, ModelError>
}

/** Where a client reads along. */
export interface NativeOut {
  /** The client gets status and headers; nothing that came before can be taken back. */
  readonly open: (head: NativeHead) => void
  readonly write: (bytes: Uint8Array) => void
  /** null = there is room; else waits until there is. */
  readonly room: () => Effect.Effect<void> | null
}
