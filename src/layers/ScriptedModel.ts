/** A ModelClient that plays a script, for tests and examples: no SDK, no network, no time of its own. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { ConfigurationError } from "../domain/failure/ConfigurationError.ts"
import { FaultKind, isLegal } from "../domain/failure/FaultKind.ts"
import { makeModelError, type Failure, type ModelError } from "../domain/failure/ModelError.ts"
import type { ModelPart, ModelReply } from "../domain/chat/ModelReply.ts"
import type { WireRequest } from "../domain/chat/ModelRequest.ts"
import * as Usage from "../domain/chat/Usage.ts"
import { ModelClient } from "../services/ModelClient.ts"

/**
 * One answer: a reply, a failure, an answer that breaks off or falls silent, or an effect of your own (a delay, say).
 * `cut` and `stall` are the text a stream brings before that; without a stream no text arrives.
 */
export type Step =
  | { readonly reply: Partial<ModelReply> & { readonly text: string | null } }
  | { readonly fail: Failure }
  | { readonly cut: string }
  | { readonly stall: string }
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
  providerRequestId: null,
  warnings: [],
  ...parts
})

/** A few characters at a time. */
const textParts = (text: string): ReadonlyArray<ModelPart> =>
  (text.match(/[\s\S]{1,4}/g) ?? []).map((piece) => ({ _tag: "Text", text: piece }))

/** The parts a stream brings a reply in. */
const partsOf = (reply: ModelReply): ReadonlyArray<ModelPart> => [
  ...(reply.text === null ? [] : textParts(reply.text)),
  ...reply.toolCalls.map((call) => ({ _tag: "ToolCall" as const, call })),
  { _tag: "End" as const, reply }
]

export interface ScriptedModel {
  readonly client: (typeof ModelClient)["Service"]
  /** Every request that arrived, in order. */
  readonly requests: ReadonlyArray<WireRequest>
}

const isKind = Schema.is(FaultKind)

/** A failure no provider can cause is a mistake in the script. */
const check = (steps: ReadonlyArray<Step>): void => {
  for (const [index, step] of steps.entries()) {
    if (!("fail" in step)) continue
    const { kind, status } = step.fail
    const reason = !isKind(kind)
      ? "is not a kind of failure"
      : isLegal(kind, status)
        ? null
        : `never comes with ${status === null ? "no status" : `HTTP ${status}`}`
    if (reason !== null)
      throw new ConfigurationError({ field: `steps[${index}].fail`, reason: `(${String(kind)}) ${reason}` })
  }
}

/** What a step brings before it ends, and how it ends. */
const played = (
  step: Step,
  request: WireRequest
): { readonly shown: string; readonly end: Effect.Effect<ModelReply, ModelError> } => {
  if ("fail" in step) return { shown: "", end: Effect.fail(makeModelError({ model: request.model, ...step.fail })) }
  if ("run" in step) return { shown: "", end: step.run(request) }
  if ("stall" in step) return { shown: step.stall, end: Effect.never }
  if ("cut" in step)
    return {
      shown: step.cut,
      end: Effect.fail(makeModelError({ kind: "interrupted", status: null, model: request.model }))
    }
  return { shown: "", end: Effect.succeed(makeReply({ model: request.model, ...step.reply })) }
}

/** A request beyond the end of the script is a defect; a failure that cannot be is a ConfigurationError at once. */
export const make = (steps: ReadonlyArray<Step>): ScriptedModel => {
  check(steps)
  const requests: Array<WireRequest> = []
  const next = (request: WireRequest): ReturnType<typeof played> => {
    const step = steps[requests.length]
    requests.push(request)
    return step === undefined
      ? { shown: "", end: Effect.die(new Error(`no scripted answer for request ${requests.length}`)) }
      : played(step, request)
  }
  return {
    requests,
    client: ModelClient.of({
      generate: (request) => Effect.suspend(() => next(request).end),
      stream: (request) =>
        Stream.suspend(() => {
          const { shown, end } = next(request)
          const rest = Stream.unwrap(Effect.map(end, (reply) => Stream.fromIterable(partsOf(reply))))
          return shown === "" ? rest : Stream.concat(Stream.fromIterable(textParts(shown)), rest)
        })
    })
  }
}

/** The script as a layer. */
export const layer = (steps: ReadonlyArray<Step>): Layer.Layer<ModelClient> => {
  check(steps)
  return Layer.sync(ModelClient, () => make(steps).client)
}
