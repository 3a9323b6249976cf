/** Native requests over a fetch: sent once, read as bytes, failures read from structure like every other answer. */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { answerLimits } from "../../domain/chat/AnswerLimits.ts"
import { parsedOrText } from "../../domain/chat/json.ts"
import {
  makeModelError,
  AnthropicResponseError,
  OpenAIResponseError,
  type ModelError
} from "../../domain/failure/ModelError.ts"
import { classifyAnswer, type Verdict } from "../../domain/provider/classify.ts"
import type { ProviderProfile } from "../../domain/provider/ProviderProfile.ts"
import type { Route } from "../../domain/recovery/RecoveryPolicy.ts"
import type { WireName } from "../../domain/wires/native/NativeWire.ts"
import type { Flaw, ReadContext } from "../../domain/wires/wireReply.ts"
import type { NativeAnswer, NativeSender } from "../../programs/request/NativeSender.ts"
import { abortable, awaitAborted } from "./abortable.ts"
import { allowedHeaders, replaceSecrets, secretsOf, withoutSecrets, type Secrets } from "./answerHeaders.ts"
import { readErrorText } from "./answerBody.ts"
import { networkCode } from "./networkCode.ts"

export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>

/** Where a request of a route goes. */
export interface Target {
  readonly url: string
  readonly headers: Headers
  readonly fetch: Fetch
  readonly profile: ProviderProfile
}

/** A failed answer as it came. */
export interface FailedAnswer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

export interface SenderOptions {
  readonly wire: WireName | null
  readonly method: string
  /** Further fields of the caller's request: a proxy's dispatcher, cache, credentials. */
  readonly init: RequestInit
  readonly targetOf: (route: Route) => Target
  /** Address of a kept response, below the address of the request. */
  readonly keptAt?: (url: string, id: string, after: number) => string
  /** Told of every failed answer, for what is passed on at the end. */
  readonly onFailed: (answer: FailedAnswer, error: ModelError) => void
}

const requestIds = ["x-request-id", "request-id", "apim-request-id", "x-amzn-requestid"]

type Malformed = typeof AnthropicResponseError | typeof OpenAIResponseError

/** One request that is on its way to a route. */
interface Sent {
  readonly options: SenderOptions
  readonly route: Route
  readonly target: Target
  /** The error of an answer that is none. */
  readonly malformed: Malformed
  readonly secrets: Secrets
  /** Closes the connection. */
  readonly abort: () => void
}

const told = ({ route, malformed, secrets }: Sent, verdict: Verdict): ModelError =>
  makeModelError(
    {
      ...verdict,
      code: withoutSecrets(verdict.code, secrets),
      model: route.model,
      providerMessage: verdict.providerMessage === null ? null : replaceSecrets(verdict.providerMessage, secrets)
    },
    malformed
  )

const problemOf = (sent: Sent, { model, requestId }: ReadContext, problem: Flaw | Verdict): ModelError => {
  if ("inBand" in problem) return told(sent, problem)
  const { kind, usage, code } = problem
  const status = kind === "interrupted" ? null : 200
  return makeModelError({ kind, status, code, model, providerRequestId: requestId, usage }, sent.malformed)
}

/** A refused answer is read as a whole; of one that breaks off its status is left. */
const refused = (sent: Sent, response: Response): Effect.Effect<never, ModelError> =>
  Effect.flatMap(readErrorText(response.body, answerLimits.errorBytes), (text) => {
    const headers = allowedHeaders(response.headers, sent.secrets)
    const body = parsedOrText(text)
    const error = told(sent, classifyAnswer(sent.target.profile, { status: response.status, headers, body }))
    sent.options.onFailed({ status: response.status, headers: response.headers, text }, error)
    return Effect.fail(error)
  })

type Reader = ReadableStreamDefaultReader<Uint8Array>

/** The next bytes; null = the end. Interrupting a read aborts the call and waits for it. */
const nextOf = (sent: Sent, { model, requestId }: ReadContext, reader: Reader): NativeAnswer["read"] =>
  Effect.callback<Uint8Array | null, ModelError>((resume) => {
    const settled = reader.read().then(
      (result) => resume(Effect.succeed(result.done ? null : result.value)),
      (cause: unknown) => {
        const code = networkCode(cause)
        const cut = makeModelError({ kind: "interrupted", status: null, code, model, providerRequestId: requestId })
        resume(Effect.fail(cut))
      }
    )
    return Effect.suspend(() => {
      sent.abort()
      return awaitAborted(settled)
    })
  })

const closing = (sent: Sent, reader: Reader): Effect.Effect<void> =>
  Effect.suspend(() => {
    sent.abort()
    return awaitAborted(reader.cancel().catch(() => undefined))
  })

/** The answer to read; leaving the scope closes its connection. */
const answerOf = (sent: Sent, response: Response): Effect.Effect<NativeAnswer, never, Scope.Scope> => {
  const allowed = allowedHeaders(response.headers, sent.secrets)
  const found = requestIds.find((name) => allowed[name] !== undefined)
  const context: ReadContext = {
    profile: sent.target.profile,
    model: sent.route.model,
    requestId: found === undefined ? null : (allowed[found] ?? null)
  }
  const answer = (read: NativeAnswer["read"]): NativeAnswer => ({
    head: { status: response.status, headers: response.headers },
    allowed,
    context,
    read,
    problem: (problem) => problemOf(sent, context, problem)
  })
  if (response.body === null) return Effect.succeed(answer(Effect.succeed(null)))
  const reader = response.body.getReader()
  return Effect.as(
    Effect.addFinalizer(() => closing(sent, reader)),
    answer(nextOf(sent, context, reader))
  )
}

const open = (
  options: SenderOptions,
  route: Route,
  url: string,
  init: RequestInit
): Effect.Effect<NativeAnswer, ModelError, Scope.Scope> => {
  const target = options.targetOf(route)
  const controller = new AbortController()
  const abort = (): void => controller.abort()
  const call = abortable(
    (signal) => {
      signal.addEventListener("abort", abort, { once: true })
      return target.fetch(url, { redirect: "manual", ...options.init, ...init, signal: controller.signal })
    },
    (cause) => makeModelError({ kind: "connection", status: null, code: networkCode(cause), model: route.model })
  )
  return Effect.flatMap(call, (response) => {
    const malformed = options.wire === "messages" ? AnthropicResponseError : OpenAIResponseError
    const secrets = secretsOf({ url, headers: target.headers })
    const sent: Sent = { options, route, target, malformed, secrets, abort }
    return response.ok ? answerOf(sent, response) : refused(sent, response)
  })
}

export const makeSender = (options: SenderOptions): NativeSender => ({
  send: (route, text) => {
    const { url, headers } = options.targetOf(route)
    const body = options.method === "GET" || options.method === "HEAD" ? {} : { body: text }
    return open(options, route, url, { method: options.method, headers, ...body })
  },
  takeUp: (route, id, after) => {
    const target = options.targetOf(route)
    const headers = new Headers(target.headers)
    headers.delete("content-type")
    headers.delete("content-length")
    return open(options, route, options.keptAt?.(target.url, id, after) ?? target.url, { method: "GET", headers })
  }
})
