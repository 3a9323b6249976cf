/**
 * Any call of a provider that is no chat, under the loop: retries, waits, fallbacks and the deadline, and nothing that
 * needs a conversation. The driver's reply is a stand-in; the call's own value waits beside it.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import { unknown } from "../../domain/chat/Usage.ts"
import type { BudgetExceeded } from "../../domain/failure/AgentError.ts"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import { isModelError, makeModelError, type ModelError } from "../../domain/failure/ModelError.ts"
import type { RecoveryError } from "../../domain/failure/RecoveryError.ts"
import { refuseUnknown } from "../../domain/failure/unknownOptions.ts"
import { checkedProfile } from "../../domain/provider/ownProfile.ts"
import { generic } from "../../domain/provider/profiles/generic.ts"
import type { ProviderProfile } from "../../domain/provider/ProviderProfile.ts"
import { failureOfThrown } from "../../domain/provider/thrownAnswer.ts"
import { nothingSeen } from "../../domain/recovery/Outcome.ts"
import { outcomeOfError } from "../../domain/recovery/outcomeOf.ts"
import { RecoveryPolicy, type RecoveryPolicyInput } from "../../domain/recovery/RecoveryPolicy.ts"
import { RecoveryEvents } from "../../services/RecoveryEvents.ts"
import { makeTurn, CurrentTurn } from "../../services/Turn.ts"
import type { AttemptDriver } from "./AttemptDriver.ts"
import { quiet } from "./listener.ts"
import { recover } from "./recover.ts"

/** What a call is told of its attempt. */
export interface CallAttempt {
  /** Model of the route. */
  readonly model: string
  /** From 1. */
  readonly attempt: number
}

export interface RecoverCallOptions<E = unknown> {
  /** A policy, or its fields. Its routes are the models a call may use, in order. */
  readonly policy: RecoveryPolicyInput
  /** How the provider reports failures. Default: generic, which knows the codes of all. */
  readonly profile?: ProviderProfile
  /** Reads an error that holds its answer elsewhere; null = it is none of a provider and is handed on at once. */
  readonly errorOf?: (error: E, model: string) => ModelError | null
}

const optionNames: ReadonlyArray<string> = ["policy", "profile", "errorOf"] satisfies ReadonlyArray<
  keyof RecoverCallOptions
>

/** An effect, or a function that makes one for the model of an attempt. */
export type Call<A, E, R> = Effect.Effect<A, E, R> | ((attempt: CallAttempt) => Effect.Effect<A, E, R>)

/** Everything that needs a conversation is off, and a budget of output tokens with it. */
const withoutChat = {
  compaction: { mode: "off" },
  raise: "never",
  maxContinuations: 0,
  initialMaxTokens: null
} as const

const standIn = (model: string): ModelReply => ({
  text: null,
  refusal: null,
  reasoning: null,
  reasoningParts: [],
  toolCalls: [],
  finishReason: "stop",
  usage: unknown,
  model,
  servedModel: null,
  providerRequestId: null,
  warnings: []
})

/** What the attempts of one call have brought. */
interface Brought<A, E> {
  value: Option.Option<A>
  /** The error behind the last failure of ours. */
  error: Option.Option<E>
}

const driverOf = <A, E>(
  policy: RecoveryPolicy,
  ask: (attempt: CallAttempt) => Effect.Effect<A, E>,
  read: (error: E, model: string) => ModelError,
  brought: Brought<A, E>
): AttemptDriver => ({
  streaming: false,
  promptTokens: () => 0,
  fault: () => null,
  attempt: ({ route: { model }, attempt }) => {
    brought.error = Option.none()
    return Effect.matchEffect(
      Effect.suspend(() => ask({ model, attempt })),
      {
        onFailure: (error) => {
          brought.error = Option.some(error)
          return Effect.fail(read(error, model))
        },
        onSuccess: (value) => {
          brought.value = Option.some(value)
          return Effect.succeed(standIn(model))
        }
      }
    )
  },
  classify: (result, plan) =>
    Result.isFailure(result) ? outcomeOfError(policy, result.failure, plan, nothingSeen) : { _tag: "Completed" },
  prepare: () => Effect.succeed(false),
  compact: () => Effect.succeed({ _tag: "NothingToCompact" }),
  merge: (last) => last,
  partial: () => null
})

/** An error that no provider has caused ends the call at once. */
const notOurs = (model: string): ModelError =>
  makeModelError({ kind: "invalid_request", status: null, code: "not_of_a_provider", model })

const policyOf = (options: RecoverCallOptions<never>, isFixed: boolean): RecoveryPolicy => {
  refuseUnknown(options, optionNames)
  const policy = new RecoveryPolicy({ ...new RecoveryPolicy(options.policy), ...withoutChat })
  if (isFixed && policy.routes.length > 1)
    throw new ConfigurationError({ field: "routes", reason: "are several: give a function of the attempt's model" })
  return policy
}

let count = 0

const nextId = (): string => {
  count += 1
  return `call-${count}`
}

/**
 * Recovers any call: an embedding, a picture, a moderation. An error that recovery does not mend is handed on as it is; one
 * it gave up on is a RecoveryError with the trail, and an attempt that one of our timers ended is a ModelTimeoutError. Turn
 * off the retries of an SDK below it.
 */
export const recoverCall = <A, E, R>(
  call: Call<A, E, R>,
  options: RecoverCallOptions<E>
): Effect.Effect<A, E | ModelError | RecoveryError, R> => {
  const isFixed = Effect.isEffect(call)
  const policy = policyOf(options as RecoverCallOptions<never>, isFixed)
  const profile = options.profile === undefined ? generic : checkedProfile(options.profile)
  const errorOf = options.errorOf ?? ((error: E, model: string) => failureOfThrown(error, model, profile))
  return Effect.gen(function* () {
    const events = yield* Effect.serviceOption(RecoveryEvents)
    const brought: Brought<A, E> = { value: Option.none(), error: Option.none() }
    // The loop runs where this effect runs: what the call needs is around it, though a driver cannot say so.
    const ask = (isFixed ? () => call : call) as (attempt: CallAttempt) => Effect.Effect<A, E>
    const driver = driverOf(policy, ask, (error, model) => errorOf(error, model) ?? notOurs(model), brought)
    const ended = recover(
      {
        policy,
        requestId: nextId(),
        role: "main",
        emit: Option.isSome(events) ? quiet(events.value.emit) : null,
        ledger: null,
        health: null,
        turn: (yield* CurrentTurn) ?? makeTurn(),
        providerOf: () => null,
        callerCap: null,
        structured: false
      },
      driver
    )
    yield* Effect.mapError(ended, (failure) => originalOf(failure, brought))
    return Option.getOrThrow(brought.value)
  })
}

/** A failure of one attempt is the error it was made of; a timer's has none. What recovery gave up with is its own. */
const originalOf = <A, E>(
  failure: ModelError | RecoveryError | BudgetExceeded,
  brought: Brought<A, E>
): E | ModelError | RecoveryError => {
  if (isModelError(failure) && Option.isSome(brought.error)) return brought.error.value
  // There is no ledger that could refuse.
  return failure as ModelError | RecoveryError
}
