/** What the adapters share: reading an answer's body in reads, keeping what an SDK drops, naming a failed connection. */
import type { ReadableStreamReadResult } from "node:stream/web"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import type { Verdict } from "../domain/classify.ts"
import { ConfigurationError } from "../domain/ConfigurationError.ts"
import type { ModelError } from "../domain/ModelError.ts"
import type { ModelPart } from "../domain/ModelReply.ts"
import { awaitAborted } from "./abortable.ts"
import type { EventAssembler } from "./EventAssembler.ts"
import type * as UndiciFetch from "./undiciFetch.ts"
import type { Flaw } from "./wireReply.ts"

/** The longest a timer can be: an SDK never ends a call before recovery does. */
export const sdkTimeoutMillis = 2_147_483_647

/** Bodies of failed answers, by the headers object the SDK's error carries. */
export type RawBodies = WeakMap<object, string>

/**
 * A fetch that keeps the body of a failed answer: the SDKs drop parts of it (a sibling `code`, array bodies). Of a body
 * that breaks off nothing is kept: the status says what failed.
 */
export const keepingErrors =
  (inner: UndiciFetch.Fetch, raw: RawBodies): UndiciFetch.Fetch =>
  async (input, init) => {
    const response = await inner(input, init)
    if (response.ok) return response
    const text = await response.text().catch(() => "")
    const copy = new Response(text, { status: response.status, headers: response.headers })
    raw.set(copy.headers, text)
    return copy
  }

export const checkedBaseUrl = (baseUrl: string | URL | undefined): string | undefined => {
  if (baseUrl === undefined) return undefined
  const url = URL.canParse(String(baseUrl)) ? new URL(String(baseUrl)) : null
  if (url === null || (url.protocol !== "http:" && url.protocol !== "https:"))
    throw new ConfigurationError({ field: "baseUrl", reason: "is not an http or https address" })
  return String(baseUrl)
}

export const parsedOrText = (text: string): unknown => {
  const json = Result.try((): unknown => JSON.parse(text))
  return Result.isSuccess(json) ? json.success : text
}

/** The system's code of a failed connection (ECONNRESET, ENOTFOUND ...), wherever in the causes it stands. */
export const networkCode = (cause: unknown): string | null => {
  let current: unknown = cause
  for (let depth = 0; depth < 5 && typeof current === "object" && current !== null; depth += 1) {
    const code: unknown = Reflect.get(current, "code")
    if (typeof code === "string" && /^[A-Z][A-Z0-9_]+$/.test(code)) return code
    current = Reflect.get(current, "cause")
  }
  return null
}

export interface ReadOptions {
  readonly cut: (cause: unknown) => ModelError
  readonly abort: () => void
  readonly problem: (problem: Flaw | Verdict) => ModelError
}

const isNews = (part: ModelPart): boolean => part._tag !== "Life"

/** One pull = one network read = one array of parts. Interrupting a read aborts the call and waits for it. */
export const readEvents = (
  reader: ReadableStreamDefaultReader<Uint8Array>,
  assembler: EventAssembler,
  options: ReadOptions
): Stream.Stream<ModelPart, ModelError> => {
  const decoder = new TextDecoder()
  let isOver = false
  const read = Effect.callback<ReadableStreamReadResult<Uint8Array>, ModelError>((resume) => {
    const settled = reader.read().then(
      (result) => resume(Effect.succeed(result)),
      (cause: unknown) => resume(Effect.fail(options.cut(cause)))
    )
    return Effect.suspend(() => {
      options.abort()
      return awaitAborted(settled)
    })
  })
  const emit = (
    parts: ReadonlyArray<ModelPart>
  ): Effect.Effect<readonly [ModelPart, ...Array<ModelPart>], ModelError | Cause.Done> => {
    const { fault } = assembler
    if (fault !== null) isOver = true
    const [first, ...rest] = parts
    // Parts that came before a fault in the same read are shown first.
    if (first !== undefined && first._tag !== "Life") return Effect.succeed([first, ...rest])
    if (fault !== null) return Effect.fail(options.problem(fault))
    return first === undefined ? Cause.done() : Effect.succeed([first, ...rest])
  }
  const pull = Effect.suspend(() => {
    if (isOver) {
      const { fault } = assembler
      return fault === null ? Cause.done() : Effect.fail(options.problem(fault))
    }
    return Effect.flatMap(read, (result) => {
      if (result.done) {
        isOver = true
        return assembler.done
          ? Cause.done()
          : emit([...assembler.feed(decoder.decode()), ...assembler.end()].filter(isNews))
      }
      return emit(assembler.feed(decoder.decode(result.value, { stream: true })))
    })
  })
  return Stream.fromPull(Effect.succeed(pull))
}
