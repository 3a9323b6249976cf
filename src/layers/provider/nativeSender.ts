/** Native requests over a fetch: sent once, read as bytes, failures read from structure like every other answer. */
import type * as Context from "effect/Context"
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
import { Alarm } from "../../programs/request/Alarm.ts"
import type { NativeAnswer, NativeSender } from "../../programs/request/NativeSender.ts"
import type { ByteSource, HeadLines } from "../../programs/request/ByteSource.ts"
import { awaitAborted } from "./abortable.ts"
import { readErrorText } from "./answerBody.ts"
import { allowedHeaders, replaceSecrets, secretsOf, withoutSecrets, type Secrets } from "./answerHeaders.ts"
import type { Exchange, Outgoing, RawAnswer } from "./exchange.ts"
import { networkCode } from "../../domain/failure/networkCode.ts"

/** Where a request of a route goes. */
export interface Target {
  readonly url: string
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly exchange: Exchange
  readonly profile: ProviderProfile
  /** Which provider and account route health tells apart; holds no key. */
  readonly identity: () => string
}

/** A failed answer as it came. */
export interface FailedAnswer {
  readonly status: number
  readonly lines: HeadLines
  readonly text: string
}

export interface SenderOptions {
  readonly wire: WireName | null
  /** Further fields of the caller's request: a proxy's dispatcher, cache, credentials. */
  readonly init: RequestInit
  readonly targetOf: (route: Route) => Target
  /** Address of a kept response, below the address of the request. */
  readonly keptAt?: (url: string, id: string, after: number) => string
  /** Where the making of a kept response is stopped. */
  readonly cancelAt?: (url: string, id: string) => string
  /** Told of every failed answer, for what is passed on at the end. */
  readonly onFailed: (answer: FailedAnswer, error: ModelError) => void
}

type Broken = (cause: unknown) => ModelError

/** The next bytes, as an effect of their own. */
const readOf = (body: ByteSource, broken: Broken): NativeAnswer["read"] =>
  Effect.callback<Uint8Array | null, ModelError>((resume) => {
    const look = (): void => {
      try {
        const bytes = body.take()
        if (bytes === undefined) body.whenReady(look)
        else resume(Effect.succeed(bytes))
      } catch (cause) {
        resume(Effect.fail(broken(cause)))
      }
    }
    look()
    return leaving(body)()
  })

/** Everything that comes, without an effect for each read: whoever listens is called until one of them has enough. */
class Flow {
  private readonly body: ByteSource
  private readonly broken: Broken
  private readonly taken: (bytes: Uint8Array) => boolean
  private readonly patience: () => number
  private readonly context: Context.Context<never>
  private readonly resume: (ending: Effect.Effect<boolean, ModelError>) => void
  private alarm: Alarm | null = null
  private isOver = false

  constructor(
    from: { readonly body: ByteSource; readonly broken: Broken },
    to: { readonly taken: (bytes: Uint8Array) => boolean; readonly patience: () => number },
    context: Context.Context<never>,
    resume: (ending: Effect.Effect<boolean, ModelError>) => void
  ) {
    this.body = from.body
    this.broken = from.broken
    this.taken = to.taken
    this.patience = to.patience
    this.context = context
    this.resume = resume
  }

  readonly look = (): void => {
    if (this.isOver) return
    this.alarm?.silence()
    let failure: ModelError | null = null
    const next = (): Uint8Array | null | undefined => {
      try {
        return this.body.take()
      } catch (cause) {
        failure = this.broken(cause)
        return undefined
      }
    }
    try {
      for (let bytes = next(); bytes !== undefined; bytes = next()) {
        if (bytes === null) return this.end(Effect.succeed(true))
        if (!this.taken(bytes)) return this.end(Effect.succeed(false))
      }
    } catch (defect) {
      return this.end(Effect.die(defect))
    }
    if (failure !== null) return this.end(Effect.fail(failure))
    this.wait()
  }

  private wait(): void {
    const millis = this.patience()
    if (millis !== Infinity) {
      this.alarm = new Alarm(this.context, () => this.end(Effect.succeed(false)))
      this.alarm.set(millis)
    }
    this.body.whenReady(this.look)
  }

  private end(ending: Effect.Effect<boolean, ModelError>): void {
    this.stop()
    this.resume(ending)
  }

  stop(): void {
    this.isOver = true
    this.alarm?.silence()
  }
}

const forEver = (): number => Infinity

const flowOf =
  (body: ByteSource, broken: Broken): NativeAnswer["flow"] =>
  (taken, patience = forEver) =>
    Effect.withFiber((fiber) =>
      Effect.callback<boolean, ModelError>((resume) => {
        const flow = new Flow({ body, broken }, { taken, patience }, fiber.context, resume)
        flow.look()
        return Effect.suspend(() => {
          flow.stop()
          return leaving(body)()
        })
      })
    )

/** Whoever leaves an answer before its end closes its connection. */
const leaving = (body: ByteSource) => (): Effect.Effect<void> =>
  Effect.suspend(() => {
    const left = body.cancel()
    return left === null ? Effect.void : awaitAborted(left)
  })

const requestIds = ["x-request-id", "request-id", "apim-request-id", "x-amzn-requestid"]

/** One request that is on its way to a route. */
interface Sent {
  readonly options: SenderOptions
  readonly route: Route
  readonly target: Target
  readonly secrets: Secrets
}

const malformedOf = ({ wire }: SenderOptions) => (wire === "messages" ? AnthropicResponseError : OpenAIResponseError)

const told = ({ options, route, secrets }: Sent, verdict: Verdict): ModelError =>
  makeModelError(
    {
      ...verdict,
      code: withoutSecrets(verdict.code, secrets),
      model: route.model,
      providerMessage: verdict.providerMessage === null ? null : replaceSecrets(verdict.providerMessage, secrets)
    },
    malformedOf(options)
  )

const problemOf = (sent: Sent, { model, requestId }: ReadContext, problem: Flaw | Verdict): ModelError => {
  if ("inBand" in problem) return told(sent, problem)
  const { kind, usage, code } = problem
  const status = kind === "interrupted" ? null : 200
  return makeModelError({ kind, status, code, model, providerRequestId: requestId, usage }, malformedOf(sent.options))
}

/** A refused answer is read as a whole; of one that breaks off its status is left. */
const refused = (sent: Sent, raw: RawAnswer): Effect.Effect<never, ModelError> =>
  Effect.flatMap(readErrorText(raw.body, answerLimits.errorBytes), (text) => {
    const headers = allowedHeaders(raw.lines, sent.secrets)
    const body = parsedOrText(text)
    const error = told(sent, classifyAnswer(sent.target.profile, { status: raw.status, headers, body }))
    sent.options.onFailed({ status: raw.status, lines: raw.lines, text }, error)
    return Effect.fail(error)
  })

const answerOf = (sent: Sent, raw: RawAnswer): NativeAnswer => {
  const allowed = allowedHeaders(raw.lines, sent.secrets)
  const found = requestIds.find((name) => allowed[name] !== undefined)
  const context: ReadContext = {
    profile: sent.target.profile,
    model: sent.route.model,
    requestId: found === undefined ? null : (allowed[found] ?? null)
  }
  const broken = (cause: unknown): ModelError => {
    const { model, requestId: providerRequestId } = context
    return makeModelError({ kind: "interrupted", status: null, code: networkCode(cause), model, providerRequestId })
  }
  return {
    head: { status: raw.status, lines: raw.lines, client: sent.route.client },
    allowed,
    context,
    read: raw.body === null ? Effect.succeed(null) : readOf(raw.body, broken),
    flow: raw.body === null ? () => Effect.succeed(true) : flowOf(raw.body, broken),
    problem: (problem) => problemOf(sent, context, problem)
  }
}

/** Sends; leaving the scope before the answer's end closes its connection. */
const open = (
  options: SenderOptions,
  route: Route,
  target: Target,
  outgoing: Outgoing
): Effect.Effect<NativeAnswer, ModelError, Scope.Scope> => {
  const begin = Effect.callback<RawAnswer, ModelError>((resume) => {
    const takeBack = target.exchange(outgoing, (begun) => {
      if ("answer" in begun) return resume(Effect.succeed(begun.answer))
      const code = networkCode(begun.cause)
      resume(Effect.fail(makeModelError({ kind: "connection", status: null, code, model: route.model })))
    })
    return Effect.suspend(() => awaitAborted(takeBack()))
  })
  return Effect.flatMap(begin, (raw) => {
    const sent: Sent = { options, route, target, secrets: secretsOf({ url: outgoing.url, headers: target.headers }) }
    if (raw.status < 200 || raw.status > 299) return refused(sent, raw)
    const answer = answerOf(sent, raw)
    return raw.body === null ? Effect.succeed(answer) : Effect.as(Effect.addFinalizer(leaving(raw.body)), answer)
  })
}

const withoutBody = (headers: Target["headers"]): Target["headers"] => {
  const { "content-type": _type, "content-length": _length, ...rest } = headers
  return rest
}

export const makeSender = (options: SenderOptions): NativeSender => ({
  send: (route, text) => {
    const target = options.targetOf(route)
    const { url, headers } = target
    return open(options, route, target, { url, headers, method: "POST", body: text, init: options.init })
  },
  takeUp: (route, id, after) => {
    const target = options.targetOf(route)
    const url = options.keptAt?.(target.url, id, after) ?? target.url
    const headers = withoutBody(target.headers)
    return open(options, route, target, { url, headers, method: "GET", body: null, init: options.init })
  },
  giveUp: (route, id) => {
    const target = options.targetOf(route)
    const url = options.cancelAt?.(target.url, id)
    if (url === undefined) return Effect.void
    const headers = withoutBody(target.headers)
    const outgoing = { url, headers, method: "POST", body: null, init: options.init }
    return Effect.scoped(Effect.asVoid(open(options, route, target, outgoing)))
  }
})
