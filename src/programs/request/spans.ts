/**
 * Spans for whoever traces: one per logical request, HTTP request, wait, compaction and tool, named and described by
 * OpenTelemetry's conventions for generative AI. Counts, codes and names; never a text. While nobody traces, none is made.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as References from "effect/References"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type * as Usage from "../../domain/chat/Usage.ts"

export type Attributes = Readonly<Record<string, string | number | boolean | ReadonlyArray<string>>>

type Sparse = Readonly<Record<string, Attributes[string] | null>>

/** What is unknown is left out. */
export const known = (attributes: Sparse): Attributes => {
  const found: Record<string, Attributes[string]> = {}
  for (const [name, value] of Object.entries(attributes)) if (value !== null) found[name] = value
  return found
}

/** The default tracer keeps spans to itself: nobody would see them. */
const isTraced = (fiber: Fiber.Fiber<unknown, unknown>): boolean =>
  fiber.getRef(Tracer.Tracer) !== Tracer.nativeTracer && fiber.getRef(References.TracerEnabled)

export interface SpanOptions<A, E> {
  readonly name: string
  readonly kind?: Tracer.SpanKind
  /** Asked for when the span begins. */
  readonly begin: () => Attributes
  /** Asked for when it ends. */
  readonly end?: (exit: Exit.Exit<A, E>) => Attributes
}

/** Runs work inside a span of its own. */
export const inSpan = <A, E, R>(
  work: Effect.Effect<A, E, R>,
  options: () => SpanOptions<A, E>
): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    if (!isTraced(fiber)) return work
    const { name, kind = "internal", begin, end } = options()
    return Effect.useSpan(name, { kind, attributes: begin() }, (span) => {
      const inside = Effect.withParentSpan(work, span, { captureStackTrace: false })
      if (end === undefined) return inside
      const note = (exit: Exit.Exit<A, E>): void => {
        for (const [key, value] of Object.entries(end(exit))) span.attribute(key, value)
      }
      return Effect.onExit(inside, (exit) => Effect.sync(() => note(exit)))
    })
  })

/**
 * A span that ends with the scope, for a stream that its consumer drives: what comes back puts the stream inside it. How the
 * scope ends is how the work ended.
 */
export const scopedSpan = (
  options: () => SpanOptions<unknown, { readonly _tag: string }>
): Effect.Effect<<A, E, R>(stream: Stream.Stream<A, E, R>) => Stream.Stream<A, E, R>, never, Scope.Scope> =>
  Effect.withFiber((fiber) => {
    if (!isTraced(fiber)) return Effect.succeed((stream) => stream)
    const { name, kind = "internal", begin, end } = options()
    return Effect.gen(function* () {
      const span = yield* Effect.makeSpanScoped(name, { kind, attributes: begin() })
      // Behind the span, so before its end.
      yield* Effect.addFinalizer((exit) =>
        Effect.sync(() => {
          for (const [key, value] of Object.entries(end?.(exit as Exit.Exit<unknown, { readonly _tag: string }>) ?? {}))
            span.attribute(key, value)
        })
      )
      return (stream) => Stream.provideService(stream, Tracer.ParentSpan, span)
    })
  })

/** Names of providers where the conventions spell them otherwise than the profiles. */
const conventional: Readonly<Record<string, string>> = {
  azure: "azure.ai.openai",
  bedrock: "aws.bedrock",
  gemini: "gcp.gemini",
  mistral: "mistral_ai",
  moonshot: "moonshot_ai",
  xai: "x_ai"
}

export const providerName = (profile: string | null): string | null =>
  profile === null ? null : (conventional[profile] ?? profile)

const idOf = ({ responseId, details }: ModelReply): string | null => {
  const id = responseId ?? details?.["id"]
  return typeof id === "string" ? id : null
}

/** What a reply says of itself, apart from its texts. */
export const replyAttributes = (reply: ModelReply): Attributes =>
  known({
    "gen_ai.response.model": reply.servedModel ?? reply.model,
    "gen_ai.response.finish_reasons": [reply.finishReason],
    "gen_ai.response.id": idOf(reply),
    "holdfast.provider_request_id": reply.providerRequestId
  })

export const usageAttributes = (usage: Usage.Usage): Attributes =>
  known({
    "gen_ai.usage.input_tokens": usage.promptTokens,
    "gen_ai.usage.output_tokens": usage.completionTokens,
    "gen_ai.usage.cache_read.input_tokens": usage.cachedTokens,
    "gen_ai.usage.cache_creation.input_tokens": usage.cacheWriteTokens
  })

/** Tag of what ended work that failed, "interrupted" when it was taken back; null = it did not fail. */
export const errorTypeOf = (exit: Exit.Exit<unknown, { readonly _tag: string }>): string | null => {
  if (Exit.isSuccess(exit)) return null
  const found = Cause.findErrorOption(exit.cause)
  if (found._tag === "Some") return found.value._tag
  return Cause.hasInterruptsOnly(exit.cause) ? "interrupted" : "Defect"
}
