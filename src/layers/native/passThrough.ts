/**
 * Calls of none of the three APIs: passed on as they are. What creates nothing on the server is repeated like a model's
 * call, through the same loop; everything else is sent once. The answer is the very Response that came.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import * as Usage from "../../domain/chat/Usage.ts"
import { parsedOrText } from "../../domain/chat/json.ts"
import { makeModelError, type ModelError } from "../../domain/failure/ModelError.ts"
import type { Trail } from "../../domain/failure/Trail.ts"
import { classifyAnswer } from "../../domain/provider/classify.ts"
import type { ProviderProfile } from "../../domain/provider/ProviderProfile.ts"
import { nothingSeen } from "../../domain/recovery/Outcome.ts"
import { outcomeOfError } from "../../domain/recovery/outcomeOf.ts"
import { RecoveryPolicy } from "../../domain/recovery/RecoveryPolicy.ts"
import type { AttemptDriver } from "../../programs/request/AttemptDriver.ts"
import { recover } from "../../programs/request/recover.ts"
import { RequestWatch } from "../../services/RequestWatch.ts"
import { makeTurn } from "../../services/Turn.ts"
import { abortable } from "../provider/abortable.ts"
import { allowedHeaders, replaceSecrets, secretsOf } from "../provider/answerHeaders.ts"
import { networkCode } from "../../domain/failure/networkCode.ts"
import { failureAnswer, type RefusedAnswer } from "./answerFor.ts"
import type { NativeServices } from "./callNative.ts"
import { remember } from "./failureStore.ts"
import { toResponse } from "./NativeResponse.ts"

export interface PassedCall {
  readonly services: NativeServices
  readonly policy: RecoveryPolicy
  readonly incoming: {
    readonly url: string
    readonly method: string
    readonly headers: Readonly<Record<string, string>>
    readonly signal: AbortSignal | null
    /** null = a body that can be read only once. */
    readonly text: string | null
  }
  readonly send: () => Promise<Response>
  readonly profile: ProviderProfile
  readonly isRepeatable: boolean
  readonly requestId: string
}

/** The loop counts replies; of this one it needs no more than that it came. */
const replyOf = (providerRequestId: string | null): ModelReply => ({
  text: null,
  refusal: null,
  reasoning: null,
  reasoningParts: [],
  toolCalls: [],
  finishReason: "stop",
  usage: Usage.unknown,
  model: "-",
  servedModel: null,
  providerRequestId,
  warnings: []
})

/** One route, no other road than the transient one. */
const policyOf = (policy: RecoveryPolicy): RecoveryPolicy =>
  new RecoveryPolicy({
    ...policy,
    routes: [{ model: "-" }],
    fallbackAfter: {},
    routeHealth: null,
    compaction: { mode: "off" },
    suspectOverflow: false
  })

interface Sending {
  response: Response | null
  answer: RefusedAnswer | null
}

const attempt = (call: PassedCall, sending: Sending): Effect.Effect<ModelReply, ModelError> => {
  const { url, headers: sent } = call.incoming
  const sends = abortable(
    async () => {
      const response = await call.send()
      const secrets = secretsOf({ url, headers: sent })
      const text = response.ok || response.status < 400 ? null : await response.text().catch(() => "")
      return { response, text, secrets }
    },
    (cause) => makeModelError({ kind: "connection", status: null, code: networkCode(cause) })
  )
  return Effect.flatMap(sends, ({ response, text, secrets }) => {
    const headers = allowedHeaders(response.headers, secrets)
    if (text === null) {
      sending.response = response
      return Effect.succeed(replyOf(headers["x-request-id"] ?? null))
    }
    const verdict = classifyAnswer(call.profile, { status: response.status, headers, body: parsedOrText(text) })
    const words = verdict.providerMessage
    const error = makeModelError({
      ...verdict,
      providerMessage: words === null ? null : replaceSecrets(words, secrets)
    })
    sending.answer = { raw: { status: response.status, lines: [...response.headers], text }, error }
    return Effect.fail(error)
  })
}

const driverOf = (call: PassedCall, policy: RecoveryPolicy, sending: Sending): AttemptDriver => ({
  streaming: false,
  promptTokens: () => 0,
  fault: () => null,
  attempt: () => attempt(call, sending),
  classify: (result, plan) =>
    Result.isFailure(result) ? outcomeOfError(policy, result.failure, plan, nothingSeen) : { _tag: "Completed" },
  prepare: () => Effect.succeed(false),
  compact: () => Effect.succeed({ _tag: "NothingToCompact" }),
  merge: (last) => last,
  partial: () => null
})

export const passThrough = (call: PassedCall): Promise<Response> => {
  const { services, incoming } = call
  const canRepeat =
    call.isRepeatable && (incoming.text !== null || incoming.method === "GET" || incoming.method === "HEAD")
  if (!canRepeat) return call.send()
  const policy = policyOf(call.policy)
  const sending: Sending = { response: null, answer: null }
  let trail: Trail = []
  const program = Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const loop = {
      policy,
      requestId: call.requestId,
      role: "main" as const,
      emit: services.emit,
      ledger: null,
      health: null,
      turn: makeTurn(),
      callerCap: null,
      providerOf: () => call.profile.name,
      structured: false
    }
    const exit = yield* Effect.exit(
      Effect.provideService(recover(loop, driverOf(call, policy, sending)), RequestWatch, {
        ended: (whole) => {
          trail = whole
        }
      })
    )
    if (Exit.isSuccess(exit)) return sending.response
    const found = Cause.findErrorOption(exit.cause)
    if (found._tag !== "Some") return yield* Effect.failCause(exit.cause)
    const wallMillis = clock.currentTimeMillisUnsafe()
    const answers = sending.answer === null ? [] : [sending.answer]
    const response = toResponse(
      failureAnswer({ wire: null, failure: found.value, trail, off: null, id: call.requestId, wallMillis, answers })
    )
    remember(found.value, response.headers, call.requestId)
    return response
  })
  const { signal } = incoming
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(signal.reason)
    const fiber = Effect.runForkWith(services.context)(program)
    const onAbort = (): void => {
      reject(signal?.reason)
      fiber.interruptUnsafe()
    }
    signal?.addEventListener("abort", onAbort, { once: true })
    fiber.addObserver((exit) => {
      signal?.removeEventListener("abort", onAbort)
      if (Exit.isSuccess(exit) && exit.value !== null) resolve(exit.value)
      else if (Exit.isFailure(exit)) reject(Cause.squash(exit.cause))
    })
  })
}
