/** A structured answer of an agent: how it is asked for, how its text is read, and when the model is asked again. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { isObject, parse, type Json } from "../domain/chat/json.ts"
import type { ModelReply } from "../domain/chat/ModelReply.ts"
import type { Hooks } from "../services/AgentHooks.ts"
import { readSchema, type Read, type ReadSchema, type SchemaInput } from "./schemas.ts"

/** The model has ended with an answer that does not fit the schema, also when it was asked again. */
export class AnswerMismatch extends Schema.TaggedError<AnswerMismatch>()("AnswerMismatch", {
  /** What is wrong with the last answer: names of fields and kinds, no value. */
  fault: Schema.String,
  guidance: Schema.String
}) {
  override get message(): string {
    return `the answer does not fit its schema: ${this.fault}`
  }
}

/** How often a model is asked again for an answer that fits. */
const maxRepairs = 2

/** Objects that say nothing of further fields have none: a strict schema has to say so. */
const closed = (schema: unknown): unknown => {
  if (Array.isArray(schema)) return schema.map(closed)
  if (!isObject(schema)) return schema
  const inner = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, closed(value)]))
  return isObject(schema["properties"]) && schema["additionalProperties"] === undefined
    ? { ...inner, additionalProperties: false }
    : inner
}

/** Whether every object of the schema is closed and has all of its fields: what a strict schema has to be. */
const isStrict = (schema: unknown): boolean => {
  if (Array.isArray(schema)) return schema.every(isStrict)
  if (!isObject(schema)) return true
  const fields = schema["properties"]
  if (isObject(fields)) {
    const required: unknown = schema["required"]
    const isWhole = Array.isArray(required) && Object.keys(fields).every((name) => required.includes(name))
    if (schema["additionalProperties"] !== false || !isWhole) return false
  }
  return Object.values(schema).every(isStrict)
}

/** The text without the fence that models put around JSON. */
const bare = (text: string): string => /^\s*```(?:json)?\s*\n(.*)\n\s*```\s*$/is.exec(text)?.[1] ?? text

export interface AnswerForm {
  /** The fields of the request that ask for it. */
  readonly params: Json
  readonly read: (reply: ModelReply) => Promise<Read<unknown>>
  /** Sends the model back to work when its answer does not fit. */
  readonly onStop: NonNullable<Hooks["onStop"]>
}

const readReply = async ({ read }: ReadSchema, reply: ModelReply): Promise<Read<unknown>> => {
  if (reply.text === null) return { fault: "there is no text" }
  const parsed = parse(bare(reply.text))
  return parsed._tag === "Failure" ? { fault: "the text is not one JSON value" } : read(parsed.success)
}

export const answerForm = (schema: SchemaInput): AnswerForm => {
  const known = readSchema(schema, "output")
  const json = closed(known.json)
  let repairs = 0
  const read = (reply: ModelReply): Promise<Read<unknown>> => readReply(known, reply)
  return {
    params: {
      response_format: {
        type: "json_schema",
        json_schema: { name: "answer", schema: json, ...(isStrict(json) ? { strict: true } : {}) }
      }
    },
    read,
    onStop: (reply) =>
      Effect.promise(async () => {
        if (reply.refusal !== null || repairs >= maxRepairs) return null
        const found = await read(reply)
        if (!("fault" in found)) return null
        repairs += 1
        return `The answer does not fit: ${found.fault}. Give the whole answer again, as one JSON value of the schema and nothing else:\n${JSON.stringify(json)}`
      })
  }
}
