/** A ModelClient that plays a script, for tests and examples: no SDK, no network, no time of its own. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { makeModelError, type Failure, type ModelError } from "../domain/ModelError.ts"
import type { ModelPart, ModelReply } from "../domain/ModelReply.ts"
import type { WireRequest } from "../domain/ModelRequest.ts"
import * as Usage from "../domain/Usage.ts"
import { ModelClient } from "../services/ModelClient.ts"

/** One answer: a reply, a failure, or an effect of your own (a delay, a hang). */
export type Step =
  | { readonly reply: Partial<ModelReply> & { readonly text: string | null } }
  | { readonly fail: Failure }
  | { readonly run: (request: WireRequest) => Effect.Effect<ModelReply, ModelError> }

/** A whole reply from the parts that matter to a test. */
export const makeReply = (parts: Partial<ModelReply> & { readonly text: string | null }): ModelReply => ({
  refusal: null,
  reasoning: null,
  reasoningParts: [],
  toolCalls: [],
  finishReason: "stop",
  usage: Usage.unknown,
  model: "scripted",
  servedModel: null,
  requestId: null,
  warnings: [],
  ...parts
})

/** The parts a stream brings a reply in, a few characters at a time. */
const partsOf = (reply: ModelReply): ReadonlyArray<ModelPart> => [
  ...(reply.text === null
    ? []
    : (reply.text.match(/[\s\S]{1,4}/g) ?? []).map((text) => ({ _tag: "Text" as const, text }))),
  ...reply.toolCalls.map((call) => ({ _tag: "ToolCall" as const, call })),
  { _tag: "End" as const, reply }
]

export interface ScriptedModel {
  readonly client: (typeof ModelClient)["Service"]
  /** Every request that arrived, in order. */
  readonly requests: ReadonlyArray<WireRequest>
}

/** A request beyond the end of the script is a defect. */
export const make = (steps: ReadonlyArray<Step>): ScriptedModel => {
  const requests: Array<WireRequest> = []
  const answer = (request: WireRequest): Effect.Effect<ModelReply, ModelError> =>
    Effect.suspend(() => {
      const step = steps[requests.length]
      requests.push(request)
      if (step === undefined) return Effect.die(new Error(`no scripted answer for request ${requests.length}`))
      if ("fail" in step) return Effect.fail(makeModelError({ model: request.model, ...step.fail }))
      return "run" in step ? step.run(request) : Effect.succeed(makeReply({ model: request.model, ...step.reply }))
    })
  return {
    requests,
    client: ModelClient.of({
      generate: answer,
      stream: (request) => Stream.unwrap(Effect.map(answer(request), (reply) => Stream.fromIterable(partsOf(reply))))
    })
  }
}

/** The script as a layer. */
export const layer = (steps: ReadonlyArray<Step>): Layer.Layer<ModelClient> =>
  Layer.sync(ModelClient, () => make(steps).client)
