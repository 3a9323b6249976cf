/** Tools as values: a spec for the model, traits for the loop, and the work for one call. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as ToolArguments from "../../domain/agent/ToolArguments.ts"
import type * as ToolResult from "../../domain/agent/ToolResult.ts"
import { refuseUnknown } from "../../domain/failure/unknownOptions.ts"
import { given } from "../../domain/chat/given.ts"
import type { Json } from "../../domain/chat/json.ts"
import type { ToolSpec } from "../../domain/chat/Message.ts"

/** A tool, ready to run. Made by `tool` or `fromJsonSchema`. */
export interface Tool<R = never> {
  readonly spec: ToolSpec
  readonly traits: ToolResult.ToolTraits
  /** null = no time-out. */
  readonly timeoutMillis: number | null
  /** The work for one call, or what is wrong with its arguments. */
  readonly begin: (call: ToolResult.KeyedCall) => Result.Result<Effect.Effect<unknown, unknown, R>, string>
  /** What became of the call of this key; absent = nobody knows. */
  readonly settle?: (key: string) => Effect.Effect<unknown, unknown, R>
}

export interface RunOptions {
  /** Default: none. */
  readonly timeout?: Duration.Input
  /** Default: false. */
  readonly parallel?: boolean
  /** Default: false. */
  readonly polling?: boolean
  /** What becomes of a call whose process ended before its result. Default: never. */
  readonly repeat?: "safe" | "keyed" | "never"
  /** A person is asked before it runs. Default: false. */
  readonly approval?: boolean
  /**
   * Tells what became of the call of a key, for `repeat: "never"`: what it gave back, as `run` would have, or null when it
   * has not happened (then it runs). A failure: it is not known.
   */
  readonly settle?: (key: string) => unknown
}

const traitsOf = (options: RunOptions): ToolResult.ToolTraits => ({
  parallel: options.parallel ?? false,
  polling: options.polling ?? false,
  repeat: options.repeat ?? "never",
  ...(options.approval === true ? { approval: true } : {})
})

const settleOf = <R>({ settle }: RunOptions): Pick<Tool<R>, "settle"> =>
  settle === undefined ? {} : { settle: (key) => work<R>(() => settle(key)) }

const timeoutOf = (options: RunOptions): number | null =>
  options.timeout === undefined ? null : Duration.toMillis(Duration.fromInputUnsafe(options.timeout))

/** What the handler of a tool needs, from what it gives back. */
export type ServicesOf<Output> = Output extends Effect.Effect<infer _A, infer _E, infer R> ? R : never

const isPromise = (value: unknown): value is PromiseLike<unknown> =>
  typeof value === "object" && value !== null && "then" in value && typeof value.then === "function"

/** Effects in promises in effects: a handler gives back what its writer had at hand. */
const maxNesting = 5

/** An effect of whatever a handler gives back: an effect, a promise, or a value. */
const effectOf = <R>(output: unknown, nesting = 0): Effect.Effect<unknown, unknown, R> => {
  if (nesting > maxNesting) return Effect.succeed(output)
  if (Effect.isEffect(output))
    return Effect.flatMap(output as Effect.Effect<unknown, unknown, R>, (inner) => effectOf<R>(inner, nesting + 1))
  if (!isPromise(output)) return Effect.succeed(output)
  return Effect.flatMap(Effect.tryPromise({ try: async () => output, catch: (cause) => cause }), (inner) =>
    effectOf<R>(inner, nesting + 1)
  )
}

/** Runs a handler. What it throws is its failure. */
const work = <R>(run: () => unknown): Effect.Effect<unknown, unknown, R> =>
  Effect.flatMap(Effect.try({ try: run, catch: (cause) => cause }), (output) => effectOf<R>(output))

/** How a tool is run, of options that hold more. */
export const runOptionsOf = ({ timeout, parallel, polling, repeat, approval, settle }: RunOptions): RunOptions =>
  given({ timeout, parallel, polling, repeat, approval, settle })

const runNames: ReadonlyArray<string> = [
  "timeout",
  "parallel",
  "polling",
  "repeat",
  "approval",
  "settle"
] satisfies ReadonlyArray<keyof RunOptions>

/** The JSON Schema a model is told of. Definitions stay beside it. */
export const jsonSchemaOf = (schema: Schema.Constraint): Json => {
  const document = Schema.toJsonSchemaDocument(schema)
  const json = document.schema as Json
  return Object.keys(document.definitions).length === 0 ? json : { ...json, $defs: document.definitions }
}

/**
 * A tool whose arguments are an Effect Schema; the handler gets them decoded. It gives back a text or a JSON value, at once,
 * as a promise or as an effect; that is what the model reads.
 *
 *     tool({ name: "add", description: "adds", parameters: Schema.Struct({ a: Schema.Finite, b: Schema.Finite }),
 *       run: ({ a, b }) => Effect.succeed(String(a + b)), parallel: true, repeat: "safe" })
 */
export const tool = <A, Output>(
  options: RunOptions & {
    readonly name: string
    readonly description: string
    readonly parameters: Schema.Codec<A, unknown>
    readonly run: (args: A, call: ToolResult.KeyedCall) => Output
  }
): Tool<ServicesOf<Output>> => {
  refuseUnknown(options, ["name", "description", "parameters", "run", ...runNames])
  const decode = Schema.decodeUnknownResult(options.parameters)
  const parameters = jsonSchemaOf(options.parameters)
  return {
    spec: { type: "function", function: { name: options.name, description: options.description, parameters } },
    traits: traitsOf(options),
    timeoutMillis: timeoutOf(options),
    ...settleOf<ServicesOf<Output>>(options),
    begin: (call) =>
      Result.flatMap(ToolArguments.read(parameters, call.arguments), (raw) =>
        Result.match(decode(raw), {
          onSuccess: (args) => Result.succeed(work<ServicesOf<Output>>(() => options.run(args, call))),
          onFailure: (error) => Result.fail(error.message.replaceAll(/\s*\n\s*/g, " "))
        })
      )
  }
}

/** A tool that is declared by a spec as it goes on the wire; the handler gets the checked JSON object. */
export const fromJsonSchema = <Output>(
  spec: ToolSpec,
  run: (args: Readonly<Record<string, unknown>>, call: ToolResult.KeyedCall) => Output,
  options: RunOptions = {}
): Tool<ServicesOf<Output>> => {
  refuseUnknown(options, runNames)
  return {
    spec,
    traits: traitsOf(options),
    timeoutMillis: timeoutOf(options),
    ...settleOf<ServicesOf<Output>>(options),
    begin: (call) =>
      Result.map(ToolArguments.read(spec.function.parameters, call.arguments), (args) =>
        work<ServicesOf<Output>>(() => run(args, call))
      )
  }
}
