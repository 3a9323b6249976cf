/**
 * A ModelClient over LanguageModels of effect/ai: sends once, with the tools of the call and without running them. What
 * the caller asked goes through word for word; only the prompt is the attempt's.
 */
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { ModelPart, ModelReply } from "../../domain/chat/ModelReply.ts"
import type { WireRequest } from "../../domain/chat/ModelRequest.ts"
import * as Usage from "../../domain/chat/Usage.ts"
import { inBandStatus } from "../../domain/failure/FaultKind.ts"
import { makeModelError, type ModelError } from "../../domain/failure/ModelError.ts"
import { inBandFault } from "../../domain/provider/classify.ts"
import type { ProviderProfile } from "../../domain/provider/ProviderProfile.ts"
import { ModelClient } from "../../services/ModelClient.ts"
import { AiCallNow, type AiCall } from "./AiCall.ts"
import { promptOf } from "./messagePrompt.ts"
import { modelErrorOf } from "./providerFailure.ts"
import type { Part } from "./responseParts.ts"
import { encoded, isEmpty, replyOf, usageOf, WrappedStream, type AnyPart } from "./wrappedReply.ts"

type Model = LanguageModel.LanguageModel
type Format = LanguageModel.ProviderOptions["responseFormat"]

/** What an attempt asks of a provider, beside the prompt. */
export interface Route {
  readonly model: string
  /** null = no budget is sent. */
  readonly maxOutputTokens: number | null
}

export interface ClientOptions {
  readonly modelOf: (route: Route) => Effect.Effect<Model>
  readonly profile: ProviderProfile
  /** Whom the requests reach; see `ModelClient`. */
  readonly provider: string
}

/** A toolkit that tells of tools and runs none. */
const toldOnly = (tools: ReadonlyArray<Tool.Any>) => ({
  tools: Object.fromEntries(tools.map((tool) => [tool.name, tool])),
  handle: () => Effect.die(new Error("a tool was to run below recovery"))
})

/** The summary of a compaction is a request of its own: it has no tools and no form. */
const optionsFor = (request: WireRequest, call: AiCall | null) => {
  const prompt = promptOf(request.messages, call?.mapped ?? [])
  if (call === null || request.role === "summarizer" || call.options.tools.length === 0) return { prompt }
  const { tools, toolChoice } = call.options
  return {
    prompt,
    toolkit: toldOnly(tools),
    toolChoice,
    disableToolCallResolution: true as const,
    // The toolkit above recovery checks each call, once.
    toolCallValidation: "deferred" as const
  }
}

interface Answer {
  readonly content: ReadonlyArray<AnyPart>
}

/** A LanguageModel without the types of one toolkit: which tools it is told of is known at run time only. */
interface Untyped {
  readonly generateText: (options: object) => Effect.Effect<Answer, AiError.AiError>
  readonly generateObject: (options: object) => Effect.Effect<Answer & { readonly value: unknown }, AiError.AiError>
  readonly streamText: (options: object) => Stream.Stream<AnyPart, AiError.AiError>
}

const untyped = (model: Model): Untyped => model as unknown as Untyped

/**
 * The object, in the form that the outer model decodes: the inner one may have asked for it in another one, so its text
 * is replaced.
 */
const generateObject = (
  inner: Model,
  request: WireRequest,
  call: AiCall,
  { schema, objectName }: Extract<Format, { readonly type: "json" }>
): Effect.Effect<Answer, AiError.AiError> =>
  Effect.flatMap(
    untyped(inner).generateObject({ ...optionsFor(request, call), schema, objectName }),
    ({ content, value }) =>
      Effect.mapBoth(Schema.encodeUnknownEffect(schema as Schema.Codec<unknown, unknown>)(value), {
        onFailure: (error) =>
          AiError.make({
            module: "holdfast",
            method: "generateObject",
            reason: AiError.InvalidOutputError.fromSchemaError(error)
          }),
        onSuccess: (json) => ({ content: withObject(content, JSON.stringify(json)) })
      })
  )

const withObject = (content: ReadonlyArray<AnyPart>, json: string): ReadonlyArray<AnyPart> => {
  const first = content.findIndex((part) => part.type === "text")
  return content.flatMap((part, at): ReadonlyArray<AnyPart> => {
    if (part.type !== "text") return [part]
    return at === first ? [{ ...part, text: json }] : []
  })
}

const isPart = (part: Part | null): part is Part => part !== null

const emptyReply = (model: string): ModelError => makeModelError({ kind: "empty_reply", status: inBandStatus, model })

const replyFrom = (parts: ReadonlyArray<AnyPart>, model: string): Effect.Effect<ModelReply, ModelError> => {
  const finish = parts.find((part) => part.type === "finish")
  const kept = parts.map(encoded).filter(isPart)
  const usage = finish === undefined ? Usage.unknown : usageOf(finish.usage)
  return isEmpty(kept)
    ? Effect.fail(emptyReply(model))
    : Effect.succeed(replyOf(kept, usage, finish?.reason ?? "stop", model))
}

/** The error that a part of a stream holds: of effect/ai, or as the provider sent it. */
const errorOf = (error: unknown, model: string, profile: ProviderProfile): ModelError => {
  if (AiError.isAiError(error)) return modelErrorOf(error, model, profile)
  const verdict = inBandFault(profile, { status: inBandStatus, headers: {}, body: error })
  return makeModelError(
    verdict === null ? { kind: "interrupted", status: null, code: "error_part", model } : { ...verdict, model }
  )
}

export const make = (options: ClientOptions): (typeof ModelClient)["Service"] => {
  const { modelOf, profile } = options

  const failed =
    (call: AiCall | null, { model }: WireRequest) =>
    (error: AiError.AiError): ModelError => {
      if (call !== null && error.reason._tag === "NetworkError") call.lost = error
      return modelErrorOf(error, model, profile)
    }

  const routeOf = ({ model, maxOutputTokens }: WireRequest): Route => ({ model, maxOutputTokens })

  const answered = (
    inner: Model,
    request: WireRequest,
    call: AiCall | null
  ): Effect.Effect<Answer, AiError.AiError> => {
    const format = request.role === "summarizer" ? undefined : call?.options.responseFormat
    return call !== null && format?.type === "json"
      ? generateObject(inner, request, call, format)
      : untyped(inner).generateText(optionsFor(request, call))
  }

  return ModelClient.of({
    provider: options.provider,
    generate: (request) =>
      Effect.gen(function* () {
        const call = yield* AiCallNow
        const inner = yield* modelOf(routeOf(request))
        const { content } = yield* Effect.mapError(answered(inner, request, call), failed(call, request))
        return yield* replyFrom(content, request.model)
      }),
    stream: (request) =>
      Stream.unwrap(
        Effect.gen(function* () {
          const call = yield* AiCallNow
          const inner = yield* modelOf(routeOf(request))
          const parts = untyped(inner).streamText(optionsFor(request, call))
          return read(Stream.mapError(parts, failed(call, request)), request.model, profile)
        })
      )
  })
}

/** Reads a stream to its end; one that does not say how it ends has been cut. */
const read = (
  parts: Stream.Stream<AnyPart, ModelError>,
  model: string,
  profile: ProviderProfile
): Stream.Stream<ModelPart, ModelError> =>
  Stream.suspend(() => {
    const wrapped = new WrappedStream(model)
    let broken: ModelError | null = null
    // What stands before an error in the same read is told first.
    const untilError = Stream.takeUntil(parts, (part) => part.type === "error")
    const seen = Stream.map(untilError, (part): ModelPart => {
      if (part.type !== "error") return wrapped.take(part)
      broken = errorOf(part.error, model, profile)
      return { _tag: "Life" }
    })
    const end = Stream.unwrap(
      Effect.suspend((): Effect.Effect<Stream.Stream<ModelPart>, ModelError> => {
        if (broken !== null) return Effect.fail(broken)
        if (wrapped.reason === null) return Effect.fail(makeModelError({ kind: "interrupted", status: null, model }))
        if (wrapped.isEmpty()) return Effect.fail(emptyReply(model))
        return Effect.succeed(Stream.succeed({ _tag: "End", reply: wrapped.reply() }))
      })
    )
    return Stream.concat(seen, end)
  })
