/**
 * The three roads one by one: the same loop with the other roads off, for programs that want a single kind of recovery
 * around a raw client.
 */
import * as Effect from "effect/Effect"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type { ModelRequest } from "../../domain/chat/ModelRequest.ts"
import { isStructured } from "../../domain/chat/structured.ts"
import { forTools, RecoveryPolicy } from "../../domain/recovery/RecoveryPolicy.ts"
import { makeModelError, type ModelError } from "../../domain/failure/ModelError.ts"
import type { RecoveryError } from "../../domain/failure/RecoveryError.ts"
import { requestFault } from "../../domain/failure/requestFault.ts"
import type { ModelClient } from "../../services/ModelClient.ts"
import { TokenEstimate } from "../../services/Overrides.ts"
import type { RequestFailure } from "../../services/Recovery.ts"
import { Summarizer } from "../../services/Summarizer.ts"
import { makeTurn, CurrentTurn } from "../../services/Turn.ts"
import { complete } from "./complete.ts"
import { recoverCall, type Call, type RecoverCallOptions } from "./recoverCall.ts"

type Client = (typeof ModelClient)["Service"]
type Ask = (request: ModelRequest) => Effect.Effect<ModelReply, RequestFailure>

const transientOff = { retry: [], fallbackAfter: {}, trustShouldRetry: false } as const
const overflowOff = { compaction: { mode: "off" } } as const
const truncationOff = { raise: "never", maxContinuations: 0 } as const

/** A road that is off never asks for a summary. */
const noSummarizer = Summarizer.of({
  summarize: () => Effect.fail(makeModelError({ kind: "malformed_response", status: 200, code: "no_summarizer" }))
})

const ask =
  (client: Client, whole: RecoveryPolicy, summarizer: (typeof Summarizer)["Service"], passTruncated: boolean): Ask =>
  (request) =>
    Effect.gen(function* () {
      const fault = requestFault(request)
      if (fault !== null) return yield* Effect.fail(fault)
      const policy = (request.tools?.length ?? 0) > 0 ? forTools(whole) : whole
      const role = request.priority === "background" ? "background" : "main"
      const requestId = "road"
      return yield* complete({
        policy,
        request,
        requestId,
        role,
        estimate: yield* TokenEstimate,
        summarizer,
        transcript: null,
        passTruncated,
        clientOf: () => client,
        loop: {
          policy,
          requestId,
          role,
          emit: null,
          ledger: null,
          health: null,
          turn: (yield* CurrentTurn) ?? makeTurn(),
          providerOf: () => null,
          callerCap: request.maxOutputTokens ?? null,
          structured: isStructured(request)
        }
      })
    })

/**
 * Retries, waits and fallbacks only. Over a client: a truncated reply comes back as it is, an overflow is handed on. Over
 * any other call of a provider, see `recoverCall`.
 */
export function recoverTransient(client: Client, policy: RecoveryPolicy): Ask
export function recoverTransient<A, E, R>(
  call: Call<A, E, R>,
  options: RecoverCallOptions<E>
): Effect.Effect<A, E | ModelError | RecoveryError, R>
export function recoverTransient<A, E, R>(
  over: Client | Call<A, E, R>,
  given: RecoveryPolicy | RecoverCallOptions<E>
): Ask | Effect.Effect<A, E | ModelError | RecoveryError, R> {
  if (isCall(over)) return recoverCall(over, given as RecoverCallOptions<E>)
  return ask(
    over,
    new RecoveryPolicy({ ...(given as RecoveryPolicy), ...overflowOff, ...truncationOff }),
    noSummarizer,
    true
  )
}

const isCall = <A, E, R>(over: Client | Call<A, E, R>): over is Call<A, E, R> =>
  typeof over === "function" || Effect.isEffect(over)

/** Compaction only. */
export const recoverOverflow = (
  client: Client,
  policy: RecoveryPolicy,
  summarizer: (typeof Summarizer)["Service"]
): Ask => ask(client, new RecoveryPolicy({ ...policy, ...transientOff, ...truncationOff }), summarizer, true)

/** The raise and continuations only. */
export const recoverTruncation = (client: Client, policy: RecoveryPolicy): Ask =>
  ask(client, new RecoveryPolicy({ ...policy, ...transientOff, ...overflowOff }), noSummarizer, false)
