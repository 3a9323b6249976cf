/** What the adapters share: reading an answer's body in reads, keeping what an SDK drops, naming a failed connection. */
import type { ReadableStreamReadResult } from "node:stream/web"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import type { AnswerLimits } from "../../domain/chat/AnswerLimits.ts"
import { isJson, isWholeBody } from "../../domain/chat/json.ts"
import type { Verdict } from "../../domain/provider/classify.ts"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import type { ModelError } from "../../domain/failure/ModelError.ts"
import type { ModelPart } from "../../domain/chat/ModelReply.ts"
import { awaitAborted } from "./abortable.ts"
import { endingGraceMillis } from "./answerBody.ts"
import type { Sent } from "./answerHeaders.ts"
import type { EventAssembler } from "./EventAssembler.ts"
import * as UndiciFetch from "./undiciFetch.ts"
import { flaw, type Flaw } from "../../domain/wires/wireReply.ts"

/** The longest a timer can be: an SDK never ends a call before recovery does. */
export const sdkTimeoutMillis = 2_147_483_647

/** What an SDK does not hand over of an exchange. */
export interface Exchange {
  readonly sent: Sent
  /** Body of a failed answer, not read yet; null = there is none, or the answer is no failure. */
  readonly body: ReadableStream<Uint8Array> | null
  /** The whole body of an answer that is no failure, when the transport has read it; null = it is in the answer. */
  readonly text: string | null
}

/** Exchanges by the headers object of the answer, which the SDK's errors carry too. */
export type Exchanges = WeakMap<object, Exchange>

/** The fetch an SDK's client of the caller's own sends with; the platform's when it does not show one. */
export const fetchOf = (client: object): UndiciFetch.Fetch => {
  const own: unknown = Reflect.get(client, "fetch")
  if (typeof own !== "function") return fetch
  // A dispatcher of the caller's own is undici's business: the platform's fetch refuses those of another version.
  const options: unknown = Reflect.get(client, "fetchOptions")
  const hasDispatcher = typeof options === "object" && options !== null && "dispatcher" in options
  if (own === globalThis.fetch && hasDispatcher) return UndiciFetch.make()
  return (input, init) => Reflect.apply(own, undefined, [input, init])
}

/**
 * A fetch that keeps the body of a failed answer from the SDKs: they drop parts of it (a sibling `code`, array bodies)
 * and would wait for its end without one. A redirect is not followed: key and prompt go to no other
 * address than the one that was given.
 */
export const keepingErrors =
  (inner: UndiciFetch.Fetch, exchanges: Exchanges): UndiciFetch.Fetch =>
  async (input, init) => {
    const response = await inner(input, { ...init, redirect: "manual" })
    const sent: Sent = { url: input instanceof Request ? input.url : String(input), headers: init?.headers }
    if (response.ok) {
      exchanges.set(response.headers, { sent, body: null, text: UndiciFetch.textOf(response) })
      return response
    }
    const copy = new Response(null, { status: response.status, headers: response.headers })
    exchanges.set(copy.headers, { sent, body: response.body, text: null })
    return copy
  }

export const checkedBaseUrl = (baseUrl: string | URL | undefined): string | undefined => {
  if (baseUrl === undefined) return undefined
  const url = URL.canParse(String(baseUrl)) ? new URL(String(baseUrl)) : null
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:"))
    throw new ConfigurationError({ field: "baseUrl", reason: "is not an http or https address" })
  return String(baseUrl)
}

export interface ReadOptions {
  /** The content type names an event stream, or nothing that speaks against one. */
  readonly isEventStream: boolean
  /** Reads an answer that is one JSON body after all. */
  readonly whole: (text: string) => Result.Result<ReadonlyArray<ModelPart>, ModelError>
  readonly cut: (cause: unknown) => ModelError
  readonly abort: () => void
  /** The wire's own end was read: the line may close by itself. */
  readonly leave: () => void
  readonly problem: (problem: Flaw | Verdict) => ModelError
  readonly limits: AnswerLimits
}

const nothingMore: ReadableStreamReadResult<Uint8Array> = { done: true, value: undefined }

const life: ModelPart = { _tag: "Life" }

const isNews = (part: ModelPart): boolean => part._tag !== "Life"

/** How long a server may take to close the body after the wire's own end: within it the connection is used again. */
const closingGraceMillis = 250

/**
 * Reads on behind a reply that is over, so that its connection can be used again, and closes it when the server does
 * not end. Nobody waits for it, and it keeps no process alive.
 */
export const drain = (reader: ReadableStreamDefaultReader<Uint8Array>, abort: () => void): void => {
  const timer = setTimeout(() => {
    abort()
    reader.cancel().catch(() => undefined)
  }, closingGraceMillis)
  if (typeof timer === "object") timer.unref()
  const readOn = async (): Promise<void> => {
    while (!(await reader.read()).done);
  }
  readOn().then(
    () => clearTimeout(timer),
    () => clearTimeout(timer)
  )
}

/** What the body is, by its first characters; null = not known yet. Content types lie. */
export const formatOf = (lead: string, isEventStream: boolean): "events" | "body" | null => {
  const start = lead.trimStart()
  if (start === "") return null
  if (start.startsWith("{") || start.startsWith("[")) return "body"
  if (isEventStream) return "events"
  if (/^(data|event|id|retry)?:/.test(start)) return "events"
  return start.length < longestField ? null : "body"
}

/** `event:`, `retry:`. */
const longestField = 6

/** One answer that is being read. */
interface Reading {
  readonly reader: ReadableStreamDefaultReader<Uint8Array>
  readonly assembler: EventAssembler
  readonly options: ReadOptions
  readonly decoder: InstanceType<typeof TextDecoder>
  format: "events" | "body" | null
  /** Text of a body, or of a beginning that does not tell the format yet. */
  kept: string
  isOver: boolean
  bytes: number
  /** What is left of the time that the end of a whole reply may take, counted while the line is read. */
  graceMillis: number
}

type Pulled = Effect.Effect<readonly [ModelPart, ...Array<ModelPart>], ModelError | Cause.Done>

/** One network read. Interrupting it aborts the call and waits for it. */
const readOnce = ({ reader, options }: Reading): Effect.Effect<ReadableStreamReadResult<Uint8Array>, ModelError> =>
  Effect.callback((resume) => {
    const settled = reader.read().then(
      (result) => resume(Effect.succeed(result)),
      (cause: unknown) => resume(Effect.fail(options.cut(cause)))
    )
    return Effect.suspend(() => {
      options.abort()
      return awaitAborted(settled)
    })
  })

/** A read behind the finish reason: within what is left of the grace. */
const readInGrace = (reading: Reading): Effect.Effect<ReadableStreamReadResult<Uint8Array>, ModelError> =>
  Effect.clockWith((clock) => {
    const since = clock.monotonicTimeNanosUnsafe()
    const orElse = (): Effect.Effect<ReadableStreamReadResult<Uint8Array>> => Effect.succeed(nothingMore)
    const duration = Math.max(0, reading.graceMillis)
    return Effect.onExit(Effect.timeoutOrElse(readOnce(reading), { duration, orElse }), () =>
      Effect.sync(() => {
        reading.graceMillis -= Number(clock.monotonicTimeNanosUnsafe() - since) / 1e6
      })
    )
  })

const emit = (reading: Reading, parts: ReadonlyArray<ModelPart>): Pulled => {
  const { fault } = reading.assembler
  if (fault !== null) reading.isOver = true
  const [first, ...rest] = parts
  // Parts that came before a fault in the same read are shown first.
  if (first !== undefined && first._tag !== "Life") return Effect.succeed([first, ...rest])
  if (fault !== null) return Effect.fail(reading.options.problem(fault))
  return first === undefined ? Cause.done() : Effect.succeed([first, ...rest])
}

const feed = (reading: Reading, text: string): ReadonlyArray<ModelPart> => {
  const { assembler, options } = reading
  if (reading.format === "events") return assembler.feed(text)
  reading.kept += text
  reading.format ??= formatOf(reading.kept, options.isEventStream)
  if (reading.format !== "events") return [life]
  const lead = reading.kept
  reading.kept = ""
  return assembler.feed(lead)
}

/** The body has ended, or the line behind a whole reply. */
const end = (reading: Reading, text: string): Pulled => {
  const { assembler, options } = reading
  reading.isOver = true
  const parts = feed(reading, text)
  if (reading.format === "events" || (reading.format === null && options.isEventStream))
    return emit(reading, [...parts, ...assembler.end()].filter(isNews))
  // A JSON body that an event stream announced may be a stray line before the events.
  if (options.isEventStream && !isJson(reading.kept))
    return emit(reading, [...assembler.feed(reading.kept), ...assembler.end()].filter(isNews))
  const whole = options.whole(reading.kept)
  return Result.isSuccess(whole) ? emit(reading, whole.success) : Effect.fail(whole.failure)
}

const onRead = (reading: Reading, result: ReadableStreamReadResult<Uint8Array>): Pulled => {
  const { assembler, decoder, options } = reading
  if (result.done) return end(reading, decoder.decode())
  reading.bytes += result.value.byteLength
  if (reading.bytes > options.limits.replyBytes)
    return Effect.fail(options.problem(flaw("reply_too_large", assembler.usage)))
  return emit(reading, feed(reading, decoder.decode(result.value, { stream: true })))
}

const pull = (reading: Reading): Pulled => {
  const { assembler, options } = reading
  if (reading.isOver) return assembler.fault === null ? Cause.done() : Effect.fail(options.problem(assembler.fault))
  // The reply is over: a connection that stays open or breaks now changes nothing.
  if (assembler.done) {
    reading.isOver = true
    options.leave()
    return Cause.done()
  }
  const whole = assembler.whole()
  if (whole !== null) return emit(reading, whole)
  const isWhole = assembler.finished || (reading.format === "body" && isWholeBody(reading.kept))
  return Effect.matchEffect(isWhole ? readInGrace(reading) : readOnce(reading), {
    onFailure: (error) => (isWhole ? end(reading, "") : Effect.fail(error)),
    onSuccess: (result) => onRead(reading, result)
  })
}

/**
 * One pull = one network read = one array of parts. What came is an event stream or one JSON body, whatever its content
 * type says.
 */
export const readEvents = (
  reader: ReadableStreamDefaultReader<Uint8Array>,
  assembler: EventAssembler,
  options: ReadOptions
): Stream.Stream<ModelPart, ModelError> => {
  const reading: Reading = {
    reader,
    assembler,
    options,
    decoder: new TextDecoder(),
    format: null,
    kept: "",
    isOver: false,
    bytes: 0,
    graceMillis: endingGraceMillis
  }
  return Stream.fromPull(Effect.succeed(Effect.suspend(() => pull(reading))))
}
