/** What the tests of the bridge to effect/ai share: a toolkit that counts, and models over scripts. */
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import type * as AiError from "effect/ai/AiError"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { RecoveryPolicyInput } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as RecoveredModel from "../../../src/layers/ai/RecoveredModel.ts"
import * as ModelSummarizer from "../../../src/layers/ModelSummarizer.ts"
import * as RecoveryLive from "../../../src/layers/RecoveryLive.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import { HealthStore } from "../../../src/services/HealthStore.ts"
import * as HealthMemory from "../../../src/layers/stores/HealthMemory.ts"
import { ModelClient } from "../../../src/services/ModelClient.ts"

export const GetWeather = Tool.make("GetWeather", {
  description: "The weather of a city",
  parameters: Schema.Struct({ city: Schema.String }),
  success: Schema.Struct({ degrees: Schema.Number })
})

export const toolkit = Toolkit.make(GetWeather)

/** Handlers that tell how often the tool ran. */
export const counted = () => {
  const cities: Array<string> = []
  const handlers = toolkit.toLayer({
    GetWeather: ({ city }) =>
      Effect.sync(() => {
        cities.push(city)
        return { degrees: 21 }
      })
  })
  return { cities, handlers }
}

const plain: RecoveryPolicyInput = { ...RecoveryPolicy.broad, routes: [{ model: "m" }] }

/** Route health of its own: another test's faults are none of this one's. */
const ownHealth = Layer.succeed(HealthStore, HealthMemory.make())

/** Our clients below effect/ai. */
export const overScript = (
  steps: ReadonlyArray<ScriptedModel.Step>,
  policy: Partial<RecoveryPolicyInput> = {},
  options: RecoveredModel.RecoveredOptions = {}
) => {
  const script = ScriptedModel.make(steps)
  const layer = RecoveredModel.layer(options).pipe(
    Layer.provide(RecoveryLive.layer(new RecoveryPolicy({ ...plain, ...policy }))),
    Layer.provide(ModelSummarizer.layer({ model: "m" })),
    Layer.provide(Layer.succeed(ModelClient, script.client)),
    Layer.provideMerge(ownHealth)
  )
  return { script, layer }
}

/** One answer of a LanguageModel that somebody else has made. */
export type Answer =
  | ReadonlyArray<Response.PartEncoded>
  | AiError.AiError
  | { readonly stream: ReadonlyArray<Response.StreamPartEncoded>; readonly then?: AiError.AiError | "silence" }

export interface Foreign {
  readonly model: Effect.Effect<LanguageModel.LanguageModel>
  readonly asked: ReadonlyArray<LanguageModel.ProviderOptions>
}

const isError = (answer: Answer): answer is AiError.AiError => "_tag" in answer

/** A LanguageModel of effect/ai that plays a script: no client of ours is below it. */
export const foreign = (answers: ReadonlyArray<Answer>, transformer?: LanguageModel.CodecTransformer): Foreign => {
  const asked: Array<LanguageModel.ProviderOptions> = []
  const next = (options: LanguageModel.ProviderOptions): Answer => {
    const answer = answers[asked.length]
    asked.push(options)
    if (answer === undefined) throw new Error(`no scripted answer for request ${asked.length}`)
    return answer
  }
  const model = LanguageModel.make({
    ...(transformer === undefined ? {} : { codecTransformer: transformer }),
    generateText: (options) =>
      Effect.suspend((): Effect.Effect<Array<Response.PartEncoded>, AiError.AiError> => {
        const answer = next(options)
        if (isError(answer)) return Effect.fail(answer)
        return "stream" in answer ? Effect.die(new Error("a stream was scripted")) : Effect.succeed([...answer])
      }),
    streamText: (options) =>
      Stream.suspend((): Stream.Stream<Response.StreamPartEncoded, AiError.AiError> => {
        const answer = next(options)
        if (isError(answer)) return Stream.fail(answer)
        if (!("stream" in answer)) return Stream.die(new Error("no stream was scripted"))
        const parts = Stream.fromIterable(answer.stream)
        if (answer.then === undefined) return parts
        return Stream.concat(parts, answer.then === "silence" ? Stream.never : Stream.fail(answer.then))
      })
  })
  return { model, asked }
}

/** That model, recovered. */
export const wrapped = (
  inner: Foreign,
  policy: Partial<RecoveryPolicyInput> = {},
  options: Partial<RecoveredModel.WrapOptions<never>> = {}
) =>
  RecoveredModel.wrap({ policy: { ...plain, ...policy }, modelOf: () => inner.model, ...options }).pipe(
    Layer.provideMerge(ownHealth)
  )

export const finish = (
  reason: Response.FinishReason,
  usage: { readonly input?: number; readonly output?: number } = {}
): Response.FinishPartEncoded => ({
  type: "finish",
  reason,
  usage: {
    inputTokens: { total: usage.input, uncached: undefined, cacheRead: undefined, cacheWrite: undefined },
    outputTokens: { total: usage.output, text: undefined, reasoning: undefined }
  },
  response: undefined
})

/** Text of a stream as its consumer puts it together. */
export const shownText = (parts: ReadonlyArray<{ readonly type: string }>): string =>
  parts.map((part) => (part.type === "text-delta" ? String(Reflect.get(part, "delta")) : "")).join("")
