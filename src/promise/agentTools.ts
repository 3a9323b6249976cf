/** Tools of an agent as plain functions. What they throw, reject with or give back becomes a result the model reads. */
import * as Effect from "effect/Effect"
import type { Json } from "../domain/chat/json.ts"
import { refuseUnknown } from "../domain/failure/unknownOptions.ts"
import { ConfigurationError } from "../domain/failure/ConfigurationError.ts"
import { fromJsonSchema, runOptionsOf, type RunOptions, type Tool } from "../programs/agent/tool.ts"
import { readSchema, type OutputOf, type SchemaInput } from "./schemas.ts"

/** A tool an agent takes. Made by `defineTool`, `mcpTools` or `agent.asTool`. */
export type AgentTool = Tool

export interface ToolContext {
  /** Aborted when the call is no longer wanted: its time-out, the run's cancellation. */
  readonly signal: AbortSignal
  /** The id the model gave the call. */
  readonly callId: string
  /** The same for the same call of the same turn, also after a restart; null = nothing is kept of this run. */
  readonly key: string | null
}

export interface DefineTool<S extends SchemaInput> extends RunOptions {
  readonly name: string
  readonly description: string
  /** The arguments: a Standard Schema (zod, valibot, arktype), a Schema of Effect, or JSON Schema. */
  readonly parameters: S
  /** What the model is told of the arguments, where the schema makes no JSON Schema of itself. */
  readonly jsonSchema?: Json
  /** Gets the arguments read by the schema. Gives back a text, a JSON value, `toolContent(...)` or nothing, or a promise of it. */
  readonly run: (args: OutputOf<S>, context: ToolContext) => unknown
}

/** Arguments that are JSON of the right kind and do not fit the schema. */
class InvalidArguments extends Error {
  override readonly name = "InvalidArguments"
}

const names: ReadonlyArray<string> = [
  "name",
  "description",
  "parameters",
  "jsonSchema",
  "run",
  "timeout",
  "parallel",
  "polling",
  "repeat",
  "approval",
  "settle"
] satisfies ReadonlyArray<keyof DefineTool<SchemaInput>>

const checkNamed = (options: { readonly name: unknown; readonly run: unknown }): void => {
  if (typeof options.name !== "string" || options.name === "")
    throw new ConfigurationError({ field: "name", reason: "is missing: it names the tool" })
  if (typeof options.run !== "function") throw new ConfigurationError({ field: "run", reason: "is no function" })
}

/**
 * A tool:
 *
 *     defineTool({ name: "add", description: "adds", parameters: z.object({ a: z.number(), b: z.number() }),
 *       run: async ({ a, b }) => a + b, repeat: "safe" })
 */
export const defineTool = <const S extends SchemaInput>(options: DefineTool<S>): AgentTool => {
  refuseUnknown(options, names)
  checkNamed(options)
  const { json, read } = readSchema(options.parameters, "parameters", options.jsonSchema)
  return fromJsonSchema(
    { type: "function", function: { name: options.name, description: options.description, parameters: json } },
    (args, call) =>
      Effect.tryPromise({
        try: async (signal) => {
          const found = await read(args)
          if ("fault" in found) throw new InvalidArguments(found.fault)
          const context: ToolContext = { signal, callId: call.id, key: call.key ?? null }
          return options.run(found.value as OutputOf<S>, context)
        },
        catch: (thrown) => thrown
      }),
    runOptionsOf(options)
  )
}
