/**
 * A LanguageModel of effect/ai whose requests are recovered. effect/ai resolves tools above it: a request that is sent
 * again runs no tool again. Over `Recovery`, whose clients reach the providers; or around LanguageModels that exist,
 * with a Recovery of its own over them.
 */
import type * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as OpenAiStructuredOutput from "effect/ai/OpenAiStructuredOutput"
import * as AiErrors from "effect/ai/AiError"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import { refuseUnknown } from "../../domain/failure/unknownOptions.ts"
import { checkedProfile } from "../../domain/provider/ownProfile.ts"
import { generic } from "../../domain/provider/profiles/generic.ts"
import type { ProviderProfile } from "../../domain/provider/ProviderProfile.ts"
import { RecoveryPolicy, type RecoveryPolicyInput } from "../../domain/recovery/RecoveryPolicy.ts"
import { ModelClient } from "../../services/ModelClient.ts"
import { PolicyOverride, PriorityOverride } from "../../services/Overrides.ts"
import { Recovery, type RequestFailure } from "../../services/Recovery.ts"
import * as ModelSummarizer from "../ModelSummarizer.ts"
import * as RecoveryLive from "../RecoveryLive.ts"
import { AiCallNow, type AiCall } from "./AiCall.ts"
import { toAiError } from "./aiFailure.ts"
import * as LanguageModelClient from "./LanguageModelClient.ts"
import { asked, type Form } from "./providerRequest.ts"
import { partsOf, type Part } from "./responseParts.ts"
import * as StreamParts from "./StreamParts.ts"

type Service = LanguageModel.LanguageModel
type Asked = (typeof Recovery)["Service"]
type Options = LanguageModel.ProviderOptions

/** What becomes of a stream that broke off: effect/ai has no way to take text back, so it goes on from what was shown. */
type OnCut = "resume" | "splice"

interface ModelOptions {
  /**
   * A stream that broke off behind some text: `resume` asks for the rest (default), `splice` asks again and drops what
   * is repeated. Background requests fail, as their policy says.
   */
  readonly onCut?: OnCut
}

export interface RecoveredOptions extends ModelOptions {
  /** Schemas as the provider takes them. Default: OpenAI's narrow form, which the others take too. */
  readonly codecTransformer?: LanguageModel.CodecTransformer
  /** Further fields of every request's body: `{ temperature: 0 }`. */
  readonly params?: Readonly<Record<string, unknown>>
}

export interface WrapOptions<R> extends ModelOptions {
  /** A policy, or its fields. The model of a route is what `modelOf` is asked for. */
  readonly policy: RecoveryPolicyInput
  /**
   * The LanguageModel of a route with an output budget: the function of each provider. Without it the LanguageModel of
   * the context is asked, whose budget and model nobody can change: one route, and no raise after a cut answer.
   */
  readonly modelOf?: (route: LanguageModelClient.Route) => Effect.Effect<Service, never, R>
  /** How the provider reports failures. Default: generic. */
  readonly profile?: ProviderProfile
}

const recoveredKeys: ReadonlyArray<string> = ["onCut", "codecTransformer", "params"] satisfies ReadonlyArray<
  keyof RecoveredOptions
>
const wrapKeys: ReadonlyArray<string> = ["onCut", "policy", "modelOf", "profile"] satisfies ReadonlyArray<
  keyof WrapOptions<never>
>

/** Runs an ask with what effect/ai asked beside it, and tells its failure in effect/ai's words. */
const failedAs = (method: string, call: AiCall) => (failure: RequestFailure) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => Effect.fail(toAiError(failure, method, call.lost, now)))

const refused = (method: string, reason: AiErrors.AiErrorReason): AiError.AiError =>
  AiErrors.make({ module: "holdfast", method, reason })

/** Streams go on from what was shown, unless whoever asks has said otherwise. */
const keepingText = (onCut: OnCut) =>
  Effect.gen(function* () {
    const own = yield* PolicyOverride
    const isBackground = (yield* PriorityOverride) === "background"
    return isBackground ? own : { onCut, ...own }
  })

const makeModel = (recovery: Asked, form: Form, onCut: OnCut): Effect.Effect<Service> => {
  /**
   * effect/ai asks once more when an incremental request was refused. Ours are whole: the first refusal stands, and
   * nothing is sent again.
   */
  const refusals = new WeakMap<object, AiError.AiError>()

  const begin = (options: Options, method: string) =>
    Effect.suspend(() => {
      const known = options.incrementalFallback === true ? refusals.get(options.span) : undefined
      if (known !== undefined) return Effect.fail(known)
      const request = asked(options, form)
      if (Result.isFailure(request)) return Effect.fail(refused(method, request.failure))
      const call: AiCall = { options, mapped: request.success.mapped, lost: null }
      return Effect.succeed({ call, request: request.success.request })
    })

  const noting = (options: Options) => (error: AiError.AiError) =>
    Effect.sync(() => {
      refusals.set(options.span, error)
    })

  return LanguageModel.make({
    codecTransformer: form.transformer,
    generateText: (options) => {
      const method = options.responseFormat.type === "json" ? "generateObject" : "generateText"
      return Effect.flatMap(begin(options, method), ({ call, request }) =>
        recovery.complete(request).pipe(
          Effect.provideService(AiCallNow, call),
          Effect.catch(failedAs(method, call)),
          Effect.map((reply): Array<Part> => partsOf(reply))
        )
      ).pipe(Effect.tapError(noting(options)))
    },
    streamText: (options) =>
      Stream.unwrap(
        Effect.gen(function* () {
          const { call, request } = yield* begin(options, "streamText")
          const policy = yield* keepingText(onCut)
          return told(recovery.stream(request)).pipe(
            Stream.provideService(AiCallNow, call),
            Stream.provideService(PolicyOverride, policy),
            Stream.catch((failure) => Stream.fromEffect(failedAs("streamText", call)(failure)))
          )
        })
      ).pipe(Stream.tapError(noting(options)))
  })
}

/** The parts of a recovered stream in effect/ai's form, one array per read. */
const told = <E>(parts: Stream.Stream<Parameters<typeof StreamParts.accept>[1], E>) =>
  Stream.suspend(() => {
    let state = StreamParts.empty
    return Stream.flattenIterable(
      Stream.map(Stream.chunks(parts), (some) => {
        const next = StreamParts.acceptAll(state, some)
        state = next.state
        return next.parts
      })
    )
  })

const checked = <A>(make: () => A): Effect.Effect<A, ConfigurationError> =>
  Effect.suspend(() => {
    try {
      return Effect.succeed(make())
    } catch (cause) {
      return cause instanceof ConfigurationError ? Effect.fail(cause) : Effect.die(cause)
    }
  })

const checkedCut = (onCut: OnCut = "resume"): OnCut => {
  if (onCut !== "resume" && onCut !== "splice")
    throw new ConfigurationError({ field: "onCut", reason: 'is neither "resume" nor "splice"' })
  return onCut
}

/**
 * A LanguageModel over `Recovery`: every provider that has a client of ours, with all of its policy (budgets, routes,
 * compaction).
 */
export const layer = (
  options: RecoveredOptions = {}
): Layer.Layer<LanguageModel.LanguageModel, ConfigurationError, Recovery> =>
  Layer.effect(
    LanguageModel.LanguageModel,
    Effect.gen(function* () {
      const onCut = yield* checked(() => {
        refuseUnknown(options, recoveredKeys)
        return checkedCut(options.onCut)
      })
      const form: Form = {
        transformer: options.codecTransformer ?? OpenAiStructuredOutput.toCodecOpenAI,
        params: options.params ?? {},
        takesProviderTools: false
      }
      return yield* makeModel(yield* Recovery, form, onCut)
    })
  )

/** A LanguageModel alone has one model, and no budget that could be raised. */
const policyOf = (options: WrapOptions<never>): RecoveryPolicy => {
  const policy = new RecoveryPolicy(options.policy)
  if (options.modelOf !== undefined) return policy
  if (policy.routes.length > 1)
    throw new ConfigurationError({ field: "routes", reason: "are several: give `modelOf` to tell them apart" })
  return new RecoveryPolicy({ ...policy, raise: "never" })
}

const wrapForm: Form = {
  transformer: LanguageModel.defaultCodecTransformer,
  params: {},
  takesProviderTools: true
}

/**
 * Recovers any LanguageModel, below the resolution of tools. Route health, events and budgets are those of the context,
 * as with `RecoveryLive`.
 */
export const wrap = <R = LanguageModel.LanguageModel>(
  options: WrapOptions<R>
): Layer.Layer<LanguageModel.LanguageModel, ConfigurationError, R> =>
  Layer.effect(
    LanguageModel.LanguageModel,
    Effect.gen(function* () {
      const set = yield* checked(() => {
        refuseUnknown(options, wrapKeys)
        return {
          onCut: checkedCut(options.onCut),
          policy: policyOf(options as WrapOptions<never>),
          profile: options.profile === undefined ? generic : checkedProfile(options.profile)
        }
      })
      const context = yield* Effect.context<R>()
      const modelOf =
        options.modelOf ?? (() => LanguageModel.LanguageModel as unknown as Effect.Effect<Service, never, R>)
      const client = LanguageModelClient.make({
        // What surrounds a call is no part of the model: it is made of what was there when the layer was built.
        modelOf: (route) => Effect.provideContext(modelOf(route), context),
        profile: set.profile,
        provider: set.profile.name
      })
      const [route] = set.policy.routes
      const recovery = yield* Layer.build(
        RecoveryLive.layer(set.policy).pipe(
          Layer.provideMerge(ModelSummarizer.layer({ model: route?.model ?? "" })),
          Layer.provide(Layer.succeed(ModelClient, client))
        )
      )
      return yield* Effect.provideContext(
        Effect.flatMap(Recovery, (asks) => makeModel(asks, wrapForm, set.onCut)),
        recovery
      )
    })
  )
