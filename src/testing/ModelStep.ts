/**
 * What a model does in one answer, whatever the wire: the steps of `ScriptedModel` in the words of a provider. Beside them
 * stands any step of a fault script, as it goes on the wire.
 */
import * as Schema from "effect/Schema"
import { isObject, type Json } from "../domain/chat/json.ts"
import { Count } from "../domain/chat/Usage.ts"
import { unknownReason } from "../domain/failure/unknownOptions.ts"
import type { Incoming } from "../programs/commands/drill/inProcessProvider.ts"
import type { ProviderStep } from "../programs/commands/drill/Scenario.ts"
import { statusBody } from "./statusWords.ts"
import { bodyOf, eventTexts, pathOf, type Script, type WireName } from "./wireAnswers.ts"

/** A reply. A text alone is one that says just this. */
export interface ModelAnswer {
  readonly text?: string
  readonly reasoning?: string
  readonly refusal?: string
  readonly toolCalls?: ReadonlyArray<{ readonly id?: string; readonly name: string; readonly args?: Json }>
  /** Default: stop, or tool calls when there are some. */
  readonly finish?: "stop" | "length"
}

interface Times {
  /** Requests it answers, one after the other. Default: 1. */
  readonly repeat?: number
}

export type ModelStep = Times &
  (
    | { readonly reply: string | ModelAnswer }
    /** A stream brings this text and its connection breaks; without a stream there is no answer. */
    | { readonly cut: string }
    /** A stream brings this text and falls silent; without a stream there is no answer. */
    | { readonly stall: string }
    /** A status with what a provider of the wire says beside it; `code` instead of its word, `retryAfter` in seconds. */
    | { readonly status: number; readonly code?: string; readonly retryAfter?: number }
  )

const opt = Schema.optionalKey

const repeat = opt(Count)

/** The form of a step in a model's words. */
export const ModelStepFields = Schema.Union([
  Schema.Struct({
    reply: Schema.Union([
      Schema.String,
      Schema.Struct({
        text: opt(Schema.String),
        reasoning: opt(Schema.String),
        refusal: opt(Schema.String),
        toolCalls: opt(
          Schema.Array(
            Schema.Struct({
              id: opt(Schema.String),
              name: Schema.String,
              args: opt(Schema.Record(Schema.String, Schema.Unknown))
            })
          )
        ),
        finish: opt(Schema.Literals(["stop", "length"]))
      })
    ]),
    repeat
  }),
  Schema.Struct({ cut: Schema.String, repeat }),
  Schema.Struct({ stall: Schema.String, repeat }),
  Schema.Struct({ status: Schema.Int, code: opt(Schema.String), retryAfter: opt(Schema.Finite), repeat })
])

/** What may stand beside the word that says which step it is. */
const beside: Readonly<Record<string, ReadonlyArray<string>>> = {
  reply: ["repeat"],
  cut: ["repeat"],
  stall: ["repeat"],
  status: ["code", "retryAfter", "repeat"]
}

/** A field that no step of this kind has, with those there are; null = each is known. */
export const strayField = (step: ModelStep): string | null => {
  const kind = Object.keys(beside).find((key) => hasKey(step, key)) ?? "reply"
  const known = [kind, ...(beside[kind] ?? [])]
  const stray = Object.keys(step).find((key) => !known.includes(key))
  return stray === undefined ? null : `${stray} ${unknownReason(stray, known)}`
}

export type ChaosStep = ModelStep | ProviderStep

const hasKey = (step: ChaosStep, key: string): boolean => Object.hasOwn(step, key)

export const isModelStep = (step: ChaosStep): step is ModelStep => Object.keys(beside).some((key) => hasKey(step, key))

/** Pieces a text is streamed in: a few characters each, never half of one. */
const pieces = (text: string | undefined): ReadonlyArray<string> =>
  text === undefined || text === "" ? [] : (text.match(/[\s\S]{1,4}/gu) ?? [])

const scriptOf = (answer: string | ModelAnswer, number: number): Script => {
  const given: ModelAnswer = typeof answer === "string" ? { text: answer } : answer
  return {
    id: `scripted-${number}`,
    reasoning: pieces(given.reasoning),
    text: pieces(given.text),
    calls: (given.toolCalls ?? []).map(({ id, name, args = {} }, at) => ({
      id: id ?? `call_${number}_${at}`,
      name,
      args: pieces(JSON.stringify(args))
    })),
    ...(given.refusal === undefined ? {} : { refusal: pieces(given.refusal) }),
    ...(given.finish === undefined ? {} : { finish: given.finish })
  }
}

/** The wire a request is on, by its path; null = it is on none. */
export const wireOf = ({ path }: Incoming): WireName | null => {
  for (const [wire, known] of Object.entries(pathOf))
    if (path.endsWith(known.slice("/v1".length))) return wire as WireName
  return null
}

const streamed = (wire: WireName, script: Script): ProviderStep => ({
  sse: eventTexts(wire, script).map((raw) => ({ raw }))
})

/** Events before a text, and those that open its place. */
const before: { readonly [W in WireName]: { readonly head: number; readonly opening: number } } = {
  chat: { head: 1, opening: 0 },
  responses: { head: 2, opening: 2 },
  messages: { head: 2, opening: 1 }
}

/** The events that bring the text, and what comes before them; nothing that says the reply is over. */
const begun = (wire: WireName, text: string, number: number): ProviderStep => {
  const script = scriptOf(text, number)
  const { head, opening } = before[wire]
  const count = script.text.length === 0 ? head : head + opening + script.text.length
  return {
    sse: eventTexts(wire, script)
      .slice(0, count)
      .map((raw) => ({ raw }))
  }
}

const isStream = (incoming: Incoming): boolean => isObject(incoming.body) && incoming.body["stream"] === true

/** The step on the wire of the request; a request on no wire is answered as chat. */
export const rendered = (step: ModelStep, incoming: Incoming, number: number): ProviderStep => {
  const wire = wireOf(incoming) ?? "chat"
  if ("reply" in step) {
    const script = scriptOf(step.reply, number)
    return isStream(incoming) ? streamed(wire, script) : { body: bodyOf(wire, script) }
  }
  if ("cut" in step)
    return isStream(incoming) ? { ...begun(wire, step.cut, number), end: "reset" } : { network: "ECONNRESET" }
  if ("stall" in step)
    return isStream(incoming) ? { ...begun(wire, step.stall, number), end: "hang" } : { network: "hang" }
  return {
    http: step.status,
    body: statusBody(wire, step.status, step.code),
    ...(step.retryAfter === undefined ? {} : { headers: { "retry-after": String(step.retryAfter) } })
  }
}
