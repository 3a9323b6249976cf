/**
 * A script of a provider: steps as they go on the wire, and steps in a model's words, which are put in the words of a wire
 * when it is known who asks.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { isObject, parse, type Json } from "../domain/chat/json.ts"
import { ConfigurationError } from "../domain/failure/ConfigurationError.ts"
import type { Render } from "../programs/commands/drill/inProcessProvider.ts"
import type { DrillProvider } from "../programs/commands/drill/ScriptBook.ts"
import { expandSteps, ProviderSteps, type ProviderStep, type Scenario } from "../programs/commands/drill/Scenario.ts"
import { checkLine } from "../programs/commands/drill/scenarioExpect.ts"
import { isModelStep, ModelStepFields, rendered, strayField, type ChaosStep, type ModelStep } from "./ModelStep.ts"

/** A list of steps, a scenario, or its JSON text. */
export type ChaosScript = string | ReadonlyArray<ChaosStep> | { readonly provider: ReadonlyArray<ChaosStep> }

/** A request as it was sent. */
export interface ChaosRequest {
  /** Counts from 1. */
  readonly n: number
  /** Milliseconds since the script was made. */
  readonly atMs: number
  readonly model: string
  readonly maxOutputTokens: number | null
  readonly body: unknown
}

/** What a provider tells of itself. */
export interface ChaosRecord {
  readonly requests: ReadonlyArray<ChaosRequest>
  /** Answers whose connection is still open: 0 when nothing has leaked. */
  readonly connectionsOpen: () => number
  /** Steps that no request has used. */
  readonly stepsLeft: () => number
  /** A request came behind the last step. It was answered with a 400 that says `script_ended`. */
  readonly hasRunOut: () => boolean
  /**
   * What of a script's `expect` does not hold: its entries about requests and their times, and `result` when one is given.
   * Empty = all holds. Default: the expectations of the scenario the script was made of.
   */
  readonly differences: (seen?: { readonly expect?: Json; readonly result?: Json }) => ReadonlyArray<string>
}

const bad = (field: string, reason: string): ConfigurationError => new ConfigurationError({ field, reason })

const strict = { onExcessProperty: "error" } as const
const decodeModel = Schema.decodeUnknownResult(ModelStepFields, strict)
const decodeRaw = Schema.decodeUnknownResult(ProviderSteps, strict)

const faultOf = (step: ChaosStep): string | null => {
  const stray = isModelStep(step) ? strayField(step) : null
  if (stray !== null) return stray
  const decoded: Result.Result<unknown, Schema.SchemaError> = isModelStep(step) ? decodeModel(step) : decodeRaw([step])
  return Result.isFailure(decoded) ? decoded.failure.message.replaceAll(/\s*\n\s*/g, " ") : null
}

/** Steps as they are given, each checked in its own form. */
const stepsOf = (given: unknown): ReadonlyArray<ChaosStep> => {
  if (!Array.isArray(given)) throw bad("provider", "must be a list of steps")
  for (const [at, step] of given.entries()) {
    if (!isObject(step)) throw bad(`provider[${at}]`, "is no step")
    const fault = faultOf(step as ChaosStep)
    if (fault !== null) throw bad(`provider[${at}]`, fault)
  }
  return given as ReadonlyArray<ChaosStep>
}

const rawOf = (script: ChaosScript): unknown => {
  if (typeof script !== "string") return script
  const json = parse(script)
  if (Result.isFailure(json)) throw bad("script", "is not JSON")
  return json.success
}

/** A step that is rendered when it is known who asks; its place among the steps is kept. */
const placeOf = (step: ChaosStep, models: Map<ProviderStep, ModelStep>): ReadonlyArray<ProviderStep> => {
  if (!isModelStep(step)) return expandSteps([step])
  return Array.from({ length: step.repeat ?? 1 }, () => {
    const place: ProviderStep = {}
    models.set(place, step)
    return place
  })
}

/** A script, ready to be played by a provider. */
export interface PlayedScript {
  readonly scenario: Scenario
  readonly render: Render
  readonly record: (provider: DrillProvider) => ChaosRecord
}

/** What the provider alone can tell. */
const requestEntries: ReadonlySet<string> = new Set([
  "requests",
  "requestCount",
  "requestModels",
  "requestAtMs",
  "minGapMs",
  "gapsNonDecreasing",
  "sameMessagesAcrossRequests",
  "sameToolsAcrossRequests",
  "requestTails",
  "lastRoleOfEachRequest"
])

const aboutRequests = (expect: Json): Json =>
  Object.fromEntries(Object.entries(expect).filter(([name]) => requestEntries.has(name)))

const differencesOf = (
  scenario: Json,
  provider: DrillProvider,
  { expect, result }: { readonly expect?: Json; readonly result?: Json }
): ReadonlyArray<string> => {
  const wanted = expect ?? (isObject(scenario["expect"]) ? scenario["expect"] : {})
  const line = { requests: provider.requests, results: result === undefined ? [] : [result] }
  return [
    ...(provider.hasRunOut() ? ["a request found no scripted answer"] : []),
    ...checkLine({ ...scenario, expect: result === undefined ? aboutRequests(wanted) : wanted }, line)
  ]
}

/** A step that is none is a ConfigurationError that names its place. */
export const playedScript = (script: ChaosScript): PlayedScript => {
  const raw = rawOf(script)
  const scenario: Json = isObject(raw) ? raw : {}
  const models = new Map<ProviderStep, ModelStep>()
  const provider = stepsOf(Array.isArray(raw) ? raw : scenario["provider"]).flatMap((step) => placeOf(step, models))
  let played = 0
  return {
    scenario: { id: "chaos", provider },
    render: (step, incoming) => {
      played += 1
      const model = models.get(step)
      return model === undefined ? step : rendered(model, incoming, played)
    },
    record: (of) => ({
      requests: of.requests,
      connectionsOpen: of.connectionsOpen,
      stepsLeft: () => provider.length - played,
      hasRunOut: of.hasRunOut,
      differences: (seen = {}) => differencesOf(scenario, of, seen)
    })
  }
}
