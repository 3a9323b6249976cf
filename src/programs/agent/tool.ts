/** Tools as values: a spec for the model, traits for the loop, and the work for one call. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as ToolArguments from "../../domain/agent/ToolArguments.ts"
import type * as ToolResult from "../../domain/agent/ToolResult.ts"
import type { ToolSpec } from "../../domain/chat/Message.ts"
import type { ToolCall } from "../../domain/chat/ModelReply.ts"

/** A tool, ready to run. Made by `tool` or `fromJsonSchema`. */
export interface Tool<R = never> {
  readonly spec: ToolSpec
  readonly traits: ToolResult.ToolTraits
  /** null = no time-out. */
  readonly timeoutMillis: number | null
  /** The work for one call, or what is wrong with its arguments. */
  readonly begin: (call: ToolCall) => Result.Result<Effect.Effect<string, unknown, R>, string>
}

export interface RunOptions {
  /** Default: none. */
  readonly timeout?: Duration.Input
  /** Default: false. */
  readonly parallel?: boolean
  /** Default: false. */
  readonly polling?: boolean
  /** Default: never. */
  readonly repeat?: "safe" | "never"
}

const traitsOf = (options: RunOptions): ToolResult.ToolTraits => ({
  parallel: options.parallel ?? false,
  polling: options.polling ?? false,
  repeat: options.repeat ?? "never"
})

const timeoutOf = (options: RunOptions): number | null =>
  options.timeout === undefined ? null : Duration.toMillis(Duration.fromInputUnsafe(options.timeout))

/** The JSON Schema a model is told of. Definitions stay beside it. */
const jsonSchemaOf = (schema: Schema.Constraint): unknown => {
  const document = Schema.toJsonSchemaDocument(schema)
  return Object.keys(document.definitions).length === 0
    ? document.schema
    : { ...document.schema, $defs: document.definitions }
}

/**
 * A tool whose arguments are an Effect Schema; the handler gets them decoded, and its text is what the model reads.
 *
 *     tool({ name: "add", description: "adds", parameters: Schema.Struct({ a: Schema.Finite, b: Schema.Finite }),
 *       run: ({ a, b }) => Effect.succeed(String(a + b)), parallel: true, repeat: "safe" })
 */
export const tool = <A, E, R>(
  options: RunOptions & {
    readonly name: string
    readonly description: string
    readonly parameters: Schema.Codec<A, unknown>
    readonly run: (args: A, call: ToolCall) => Effect.Effect<string, E, R>
  }
): Tool<R> => {
  const decode = Schema.decodeUnknownResult(options.parameters)
  const parameters = jsonSchemaOf(options.parameters)
  return {
    spec: { type: "function", function: { name: options.name, description: options.description, parameters } },
    traits: traitsOf(options),
    timeoutMillis: timeoutOf(options),
    begin: (call) =>
      Result.flatMap(ToolArguments.read(parameters, call.arguments), (raw) =>
        Result.match(decode(raw), {
          onSuccess: (args) => Result.succeed(Effect.suspend(() => options.run(args, call))),
          onFailure: (error) => Result.fail(error.message.replaceAll(/\s*\n\s*/g, " "))
        })
      )
  }
}

/** A tool that is declared by a spec as it goes on the wire; the handler gets the checked JSON object. */
export const fromJsonSchema = <E, R>(
  spec: ToolSpec,
  run: (args: Readonly<Record<string, unknown>>, call: ToolCall) => Effect.Effect<string, E, R>,
  options: RunOptions = {}
): Tool<R> => ({
  spec,
  traits: traitsOf(options),
  timeoutMillis: timeoutOf(options),
  begin: (call) =>
    Result.map(ToolArguments.read(spec.function.parameters, call.arguments), (args) =>
      Effect.suspend(() => run(args, call))
    )
})
