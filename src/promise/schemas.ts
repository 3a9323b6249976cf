/**
 * Schemas of other libraries (zod, valibot, arktype: Standard Schema) and plain JSON Schema, as a tool and a structured
 * answer need them: what the model is told, and what its JSON is read by.
 */
import * as Schema from "effect/Schema"
import { isObject, type Json } from "../domain/chat/json.ts"
import { ConfigurationError } from "../domain/failure/ConfigurationError.ts"
import { jsonSchemaOf } from "../programs/agent/tool.ts"

interface Issue {
  readonly message: string
  readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined
}

type Validated<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: ReadonlyArray<Issue> }

/** Standard Schema, version 1: what zod 3.24, valibot 1, arktype 2 and later have. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => Validated<Output> | Promise<Validated<Output>>
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

/** A schema: of a library, of Effect, or as plain JSON Schema. */
export type SchemaInput<A = unknown> = StandardSchema<unknown, A> | Schema.Codec<A, unknown> | Json

/** What a value read by the schema is. */
export type OutputOf<S> =
  S extends StandardSchema<unknown, infer A> ? A : S extends Schema.Codec<infer A, infer _I> ? A : Json

/** What the value is, or what is wrong with it, in words that name the field. */
export type Read<A> = { readonly value: A } | { readonly fault: string }

export interface ReadSchema {
  /** What the model is told. */
  readonly json: Json
  readonly read: (value: unknown) => Read<unknown> | Promise<Read<unknown>>
}

const isStandard = (schema: object): schema is StandardSchema => {
  const standard: unknown = Reflect.get(schema, "~standard")
  return isObject(standard) && typeof standard["validate"] === "function"
}

const keyOf = (segment: PropertyKey | { readonly key: PropertyKey }): string =>
  String(typeof segment === "object" ? segment.key : segment)

const told = ({ path, message }: Issue): string =>
  path === undefined || path.length === 0 ? message : `${path.map(keyOf).join(".")}: ${message}`

const readOf = (validated: Validated<unknown>): Read<unknown> =>
  validated.issues === undefined
    ? { value: validated.value }
    : { fault: validated.issues.map(told).join("; ") || "it does not fit the schema" }

/** The JSON Schema a library makes of its schema itself (Standard JSON Schema). */
const ownJson = (schema: StandardSchema, field: string): Json => {
  const converter: unknown = Reflect.get(schema["~standard"], "jsonSchema")
  if (!isObject(converter) || typeof converter["input"] !== "function")
    throw new ConfigurationError({
      field,
      reason: `is a schema of ${schema["~standard"].vendor} that makes no JSON Schema of itself: give that beside it, as jsonSchema`
    })
  const { $schema: _, ...json } = converter["input"]({ target: "draft-2020-12" }) as Json
  return json
}

/** `json`: what the model is told, where the schema cannot say it itself. */
export const readSchema = (schema: SchemaInput, field: string, json?: Json): ReadSchema => {
  if (Schema.isSchema(schema)) {
    const standard: StandardSchema = Schema.toStandardSchemaV1(schema as Schema.Codec<unknown, unknown>)
    return { json: json ?? jsonSchemaOf(schema), read: reader(standard) }
  }
  const given: unknown = schema
  if ((typeof given === "object" || typeof given === "function") && given !== null && isStandard(given))
    return { json: json ?? ownJson(given, field), read: reader(given) }
  if (!isObject(given))
    throw new ConfigurationError({ field, reason: "is no schema: give a Standard Schema or JSON Schema" })
  return { json: given, read: (value) => ({ value }) }
}

const reader =
  (schema: StandardSchema) =>
  (value: unknown): Read<unknown> | Promise<Read<unknown>> => {
    const validated = schema["~standard"].validate(value)
    return validated instanceof Promise ? validated.then(readOf) : readOf(validated)
  }
