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

export const makeSender = (options: SenderOptions): NativeSender => {
  const malformed = options.wire === "messages" ? AnthropicResponseError : OpenAIResponseError

  const told = (verdict: Verdict, model: string, secrets: Secrets): ModelError =>
    makeModelError(
      {
        ...verdict,
        code: withoutSecrets(verdict.code, secrets),
        model,
        providerMessage: verdict.providerMessage === null ? null : replaceSecrets(verdict.providerMessage, secrets)
      },
      malformed
    )

  const problemOf =
    (context: ReadContext, secrets: Secrets) =>
    (problem: Flaw | Verdict): ModelError => {
      if ("inBand" in problem) return told(problem, context.model, secrets)
      const { kind, usage, code } = problem
      const status = kind === "interrupted" ? null : 200
      return makeModelError(
        { kind, status, code, model: context.model, providerRequestId: context.requestId, usage },
        malformed
      )
    }

  /** A refused answer is read as a whole; of one that breaks off its status is left. */
  const refused = (
    target: Target,
    route: Route,
    response: Response,
    secrets: Secrets
  ): Effect.Effect<never, ModelError> =>
    Effect.flatMap(readErrorText(response.body, answerLimits.errorBytes), (text) => {
      const headers = allowedHeaders(response.headers, secrets)
      const verdict = classifyAnswer(target.profile, { status: response.status, headers, body: parsedOrText(text) })
      const error = told(verdict, route.model, secrets)
      options.onFailed({ status: response.status, headers: response.headers, text }, error)
      return Effect.fail(error)
    })

  const answerOf = (
    target: Target,
    route: Route,
    response: Response,
    secrets: Secrets,
    controller: AbortController
  ): Effect.Effect<NativeAnswer, never, Scope.Scope> => {
    const allowed = allowedHeaders(response.headers, secrets)
    const found = requestIds.find((name) => allowed[name] !== undefined)
    const context: ReadContext = {
      profile: target.profile,
      model: route.model,
      requestId: found === undefined ? null : (allowed[found] ?? null)
    }
    const answer = (read: NativeAnswer["read"]): NativeAnswer => ({
      head: { status: response.status, headers: response.headers },
      allowed,
      context,
      read,
      problem: problemOf(context, secrets)
    })
    if (response.body === null) return Effect.succeed(answer(Effect.succeed(null)))
    const reader = response.body.getReader()
    const read = Effect.callback<Uint8Array | null, ModelError>((resume) => {
      const settled = reader.read().then(
        (result) => resume(Effect.succeed(result.done ? null : result.value)),
        (cause: unknown) => {
          const { model, requestId: providerRequestId } = context
          resume(
            Effect.fail(
              makeModelError({ kind: "interrupted", status: null, code: networkCode(cause), model, providerRequestId })
            )
          )
        }
      )
      return Effect.suspend(() => {
        controller.abort()
        return awaitAborted(settled)
      })
    })
    return Effect.as(
      Effect.addFinalizer(() =>
        Effect.suspend(() => {
          controller.abort()
          return awaitAborted(reader.cancel().catch(() => undefined))
        })
      ),
      answer(read)
    )
  }

  const open = (
    route: Route,
    target: Target,
    url: string,
    init: RequestInit
  ): Effect.Effect<NativeAnswer, ModelError, Scope.Scope> => {
    const controller = new AbortController()
    const call = abortable(
      (signal) => {
        signal.addEventListener("abort", () => controller.abort(), { once: true })
        return target.fetch(url, { redirect: "manual", ...options.init, ...init, signal: controller.signal })
      },
      (cause) => makeModelError({ kind: "connection", status: null, code: networkCode(cause), model: route.model })
    )
    return Effect.flatMap(call, (response) => {
      const secrets = secretsOf({ url, headers: target.headers })
      return response.ok
        ? answerOf(target, route, response, secrets, controller)
        : refused(target, route, response, secrets)
    })
  }

  return {
    send: (route, text) => {
      const target = options.targetOf(route)
      const body = options.method === "GET" || options.method === "HEAD" ? {} : { body: text }
      return open(route, target, target.url, { method: options.method, headers: target.headers, ...body })
    },
    takeUp: (route, id, after) => {
      const target = options.targetOf(route)
      const url = options.keptAt?.(target.url, id, after) ?? target.url
      const headers = new Headers(target.headers)
      headers.delete("content-type")
      headers.delete("content-length")
      return open(route, target, url, { method: "GET", headers })
    }
  }
}
