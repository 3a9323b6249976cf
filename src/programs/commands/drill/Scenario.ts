/**
 * Fault scenarios, format 2: what the caller does, what the provider answers, what must hold in the end. Everything is
 * data. Faults of a file are told with the scenario's id and the place.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { isObject, parse } from "../../../domain/chat/json.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { FaultKind } from "../../../domain/failure/FaultKind.ts"
import { policyChanges } from "./policyChanges.ts"

/** The wire of a scenario's requests and answers. `openai` is chat. */
const Adapter = Schema.Literals(["openai", "responses", "anthropic"])
export type Adapter = typeof Adapter.Type

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
const opt = Schema.optionalKey

export const ScenarioCall = Schema.Struct({
  messages: opt(Schema.Array(Schema.Record(Schema.String, Schema.Unknown))),
  tools: opt(Schema.Array(Schema.Record(Schema.String, Schema.Unknown))),
  stream: opt(Schema.Boolean),
  priority: opt(Schema.Literals(["foreground", "background"])),
  random: opt(Schema.Finite),
  maxOutputTokens: opt(Count)
})
export type ScenarioCall = typeof ScenarioCall.Type

export interface SseData {
  readonly data?: unknown
  readonly event?: string
  readonly comment?: string
  readonly raw?: string
  readonly waitMs?: number
  readonly repeat?: number
  readonly seq?: ReadonlyArray<SseData>
}

const SseItem = Schema.Struct({
  data: opt(Schema.Unknown),
  event: opt(Schema.String),
  comment: opt(Schema.String),
  raw: opt(Schema.String),
  waitMs: opt(Count),
  repeat: opt(Count),
  seq: opt(Schema.Array(Schema.suspend((): Schema.Codec<SseData> => SseItem)))
})

export interface Generate {
  readonly count?: number
  readonly tool: string
  readonly args: Readonly<Record<string, unknown>>
  readonly text?: string
}

export interface ProviderStep {
  readonly role?: "main" | "summarizer" | "background"
  readonly repeat?: number
  readonly delayMs?: number
  readonly http?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly rawBody?: string
  readonly sse?: ReadonlyArray<SseData>
  readonly end?: "close" | "reset" | "hang"
  readonly network?: "ECONNRESET" | "ETIMEDOUT" | "ENOTFOUND" | "hang"
  readonly generate?: Generate
  readonly cycle?: ReadonlyArray<ProviderStep>
}

const ProviderStep = Schema.Struct({
  role: opt(Schema.Literals(["main", "summarizer", "background"])),
  repeat: opt(Count),
  delayMs: opt(Schema.Finite),
  http: opt(Count),
  headers: opt(Schema.Record(Schema.String, Schema.String)),
  body: opt(Schema.Unknown),
  rawBody: opt(Schema.String),
  sse: opt(Schema.Array(SseItem)),
  end: opt(Schema.Literals(["close", "reset", "hang"])),
  network: opt(Schema.Literals(["ECONNRESET", "ETIMEDOUT", "ENOTFOUND", "hang"])),
  generate: opt(
    Schema.Struct({
      count: opt(Count),
      tool: Schema.String,
      args: Schema.Record(Schema.String, Schema.Unknown),
      text: opt(Schema.String)
    })
  ),
  cycle: opt(Schema.Array(Schema.suspend((): Schema.Codec<ProviderStep> => ProviderStep)))
})

/** The answers of a provider. */
export const ProviderSteps = Schema.Array(ProviderStep)

export const ToolBehaviour = Schema.Struct({
  text: opt(Schema.String),
  returns: opt(Schema.Array(Schema.String)),
  perArgs: opt(Schema.String),
  fails: opt(Schema.String),
  dies: opt(Schema.String),
  sleepMs: opt(Count),
  timeoutMs: opt(Count),
  polling: opt(Schema.Boolean),
  parallel: opt(Schema.Boolean),
  repeat: opt(Schema.Literals(["safe", "never"]))
})
export type ToolBehaviour = typeof ToolBehaviour.Type

const limit = opt(Schema.NullOr(Schema.Union([Count, Schema.Record(Schema.String, Count)])))

const Price = Schema.Struct({
  inputPerM: Schema.Finite,
  outputPerM: Schema.Finite,
  cachedInputPerM: opt(Schema.Finite),
  cacheWritePerM: opt(Schema.Finite)
})

export const ScenarioConfig = Schema.Struct({
  primary: opt(Schema.String),
  fallback: opt(Schema.NullOr(Schema.String)),
  ...policyChanges,
  routeHealth: opt(Schema.Literals(["on", "off"])),
  modelMaxTokens: limit,
  contextWindow: limit,
  estimateTokens: opt(Count),
  codes: opt(Schema.Array(Schema.Struct({ status: Count, code: Schema.String, kind: FaultKind }))),
  budgetParam: opt(Schema.Record(Schema.String, Schema.Literals(["max_tokens", "max_completion_tokens"]))),
  prices: opt(Schema.Record(Schema.String, Price)),
  maxCostUsd: opt(Schema.Finite),
  spentUsd: opt(Schema.Finite),
  maxTotalTokens: opt(Count),
  maxSteps: opt(Count),
  cacheTtl: opt(Schema.Union([Schema.Literals(["5m", "1h"]), Schema.Array(Schema.Literals(["5m", "1h"]))])),
  apiKey: opt(Schema.String),
  baseUrl: opt(Schema.String),
  headers: opt(Schema.Record(Schema.String, Schema.String)),
  env: opt(Schema.Record(Schema.String, Schema.NullOr(Schema.String)))
})
export type ScenarioConfig = typeof ScenarioConfig.Type

export const ScenarioAction = Schema.Struct({
  atMs: Schema.Finite,
  do: Schema.Literals(["interrupt", "interruptTool", "userMessage"]),
  id: opt(Schema.String),
  text: opt(Schema.String)
})
export type ScenarioAction = typeof ScenarioAction.Type

export const ScriptEntry = Schema.Struct({
  call: opt(ScenarioCall),
  say: opt(Schema.String),
  drop: opt(Schema.Array(Count))
})
export type ScriptEntry = typeof ScriptEntry.Type

export const Scenario = Schema.Struct({
  id: Schema.NonEmptyString,
  area: opt(Schema.String),
  preset: opt(Schema.Literals(["strict", "broad", "unattended", "background"])),
  profile: opt(Schema.String),
  adapter: opt(Adapter),
  mode: opt(Schema.Literals(["call", "agent"])),
  source: opt(Schema.String),
  date: opt(Schema.String),
  symptom: opt(Schema.String),
  note: opt(Schema.String),
  hand: opt(Schema.String),
  clockUtc: opt(Schema.String),
  random: opt(Schema.Finite),
  config: opt(ScenarioConfig),
  request: opt(ScenarioCall),
  script: opt(Schema.Array(ScriptEntry)),
  parallel: opt(Schema.Array(ScenarioCall)),
  tools: opt(Schema.Record(Schema.String, ToolBehaviour)),
  actions: opt(Schema.Array(ScenarioAction)),
  provider: ProviderSteps,
  expect: opt(Schema.Record(Schema.String, Schema.Unknown))
})
export type Scenario = typeof Scenario.Type

const decode = Schema.decodeUnknownResult(Scenario, { onExcessProperty: "error" })

const bad = (field: string, reason: string): ConfigurationError => new ConfigurationError({ field, reason })

const oneOfCalls = (scenario: Scenario): ConfigurationError | null => {
  const ways = [scenario.request, scenario.script, scenario.parallel].filter((way) => way !== undefined)
  return ways.length === 1 ? null : bad(scenario.id, "needs exactly one of request, script and parallel")
}

/** One scenario, checked; the failure names the scenario and the place. */
export const parseScenario = (raw: unknown, index: number): Result.Result<Scenario, ConfigurationError> => {
  const id = isObject(raw) && typeof raw["id"] === "string" ? raw["id"] : `scenarios[${index}]`
  const decoded = decode(raw)
  if (Result.isFailure(decoded)) return Result.fail(bad(id, decoded.failure.message.replaceAll(/\s*\n\s*/g, " ")))
  const fault = oneOfCalls(decoded.success)
  return fault === null ? Result.succeed(decoded.success) : Result.fail(fault)
}

/** One entry of a file: a scenario, or why it cannot be played. */
export interface ScenarioEntry {
  readonly id: string
  readonly scenario: Result.Result<Scenario, ConfigurationError>
}

/**
 * A file: `{ scenarios: [...] }`, a list, or a single scenario. A faulty entry does not spoil the others; a file that is
 * not JSON is a fault of the whole.
 */
export const parseScenarios = (
  file: string,
  text: string
): Result.Result<ReadonlyArray<ScenarioEntry>, ConfigurationError> => {
  const json = parse(text)
  if (Result.isFailure(json)) return Result.fail(bad(file, "is not JSON"))
  const raw = json.success
  const list: ReadonlyArray<unknown> = Array.isArray(raw)
    ? raw
    : isObject(raw) && Array.isArray(raw["scenarios"])
      ? raw["scenarios"]
      : [raw]
  const seen = new Set<string>()
  return Result.succeed(
    list.map((entry, index): ScenarioEntry => {
      const scenario = parseScenario(entry, index)
      const id = Result.isSuccess(scenario) ? scenario.success.id : scenario.failure.field
      const isSecond = seen.has(id)
      seen.add(id)
      return { id, scenario: isSecond ? Result.fail(bad(id, "stands in the file twice")) : scenario }
    })
  )
}

/** Steps as they are handed out: cycles and repeats spelled out. */
export const expandSteps = (steps: ReadonlyArray<ProviderStep>): ReadonlyArray<ProviderStep> =>
  steps.flatMap((step): ReadonlyArray<ProviderStep> => {
    const times = step.repeat ?? 1
    if (step.cycle !== undefined) {
      const { cycle } = step
      return Array.from({ length: times }, () => expandSteps(cycle)).flat()
    }
    if (times === 1 && step.generate === undefined) return [step]
    const { repeat: _, ...once } = step
    return Array.from({ length: times * (step.generate?.count ?? 1) }, () => once)
  })

/** Items of a stream, repeats spelled out. */
export const expandSse = (items: ReadonlyArray<SseData>): ReadonlyArray<SseData> =>
  items.flatMap((item): ReadonlyArray<SseData> => {
    const { seq } = item
    return seq === undefined ? [item] : Array.from({ length: item.repeat ?? 1 }, () => expandSse(seq)).flat()
  })

/** Answers of a provider, one queue per role. */
export interface StepQueue {
  readonly take: (role: string) => ProviderStep | null
}

export const makeStepQueue = (steps: ReadonlyArray<ProviderStep>): StepQueue => {
  const queues = new Map<string, Array<ProviderStep>>()
  for (const step of expandSteps(steps)) {
    const role = step.role ?? "main"
    queues.set(role, [...(queues.get(role) ?? []), step])
  }
  return { take: (role) => queues.get(role)?.shift() ?? null }
}

const fill = (value: unknown, number: number): unknown => {
  if (typeof value === "string") return value.replaceAll("{i}", String(number))
  if (Array.isArray(value)) return value.map((entry) => fill(entry, number))
  return isObject(value)
    ? Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, fill(entry, number)]))
    : value
}

interface GeneratedCall {
  readonly id: string
  readonly call: string
  readonly name: string
  readonly args: unknown
  readonly text: string | null
}

const generatedOn: { readonly [A in Adapter]: (call: GeneratedCall) => unknown } = {
  openai: ({ id, call, name, args, text }) => ({
    id,
    object: "chat.completion",
    choices: [
      {
        index: 0,
        finish_reason: "tool_calls",
        message: {
          role: "assistant",
          content: text,
          tool_calls: [{ id: call, type: "function", function: { name, arguments: JSON.stringify(args) } }]
        }
      }
    ],
    usage: { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 }
  }),
  responses: ({ id, call, name, args, text }) => ({
    id,
    object: "response",
    status: "completed",
    model: "generated",
    output: [
      ...(text === null
        ? []
        : [{ id: `m-${id}`, type: "message", role: "assistant", content: [{ type: "output_text", text }] }]),
      { id: `f-${id}`, type: "function_call", call_id: call, name, arguments: JSON.stringify(args) }
    ],
    usage: { input_tokens: 100, output_tokens: 20, total_tokens: 120 }
  }),
  anthropic: ({ id, call, name, args, text }) => ({
    id,
    type: "message",
    role: "assistant",
    model: "generated",
    content: [...(text === null ? [] : [{ type: "text", text }]), { type: "tool_use", id: call, name, input: args }],
    stop_reason: "tool_use",
    stop_sequence: null,
    usage: { input_tokens: 100, output_tokens: 20 }
  })
}

/** The body of the n-th generated answer, in the wire of the adapter. */
export const generatedBody = (generate: Generate, number: number, adapter: Adapter): unknown =>
  generatedOn[adapter]({
    id: `gen-${number}`,
    call: `g${number}`,
    name: String(fill(generate.tool, number)),
    args: fill(generate.args, number),
    text: generate.text === undefined ? null : String(fill(generate.text, number))
  })

/** One item of a stream as bytes on the wire; "" for a wait. */
export const sseText = (item: SseData): string => {
  if (item.raw !== undefined) return item.raw
  if (item.comment !== undefined) return `: ${item.comment}\n\n`
  if (item.data === undefined) return ""
  const event = item.event === undefined ? "" : `event: ${item.event}\n`
  const data = typeof item.data === "string" ? item.data : JSON.stringify(item.data)
  return `${event}${data
    .split("\n")
    .map((line) => `data: ${line}`)
    .join("\n")}\n\n`
}
