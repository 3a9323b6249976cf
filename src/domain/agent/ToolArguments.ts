/**
 * The arguments of a tool call: parsed from the model's text and checked against the tool's JSON Schema. Checked are
 * type, properties, required, enum and items; further properties are allowed. A fault is a sentence that names the field,
 * so that the model can mend it.
 */
import * as Result from "effect/Result"
import { isObject, parse as parseJson, type Json } from "../chat/json.ts"
import { canonical } from "./CanonicalJson.ts"

/** Schemas of a model's tools are shallow; deeper ones are not followed. */
const maxDepth = 32

const kindOf = (value: unknown): string => {
  if (value === null) return "null"
  if (Array.isArray(value)) return "an array"
  return typeof value === "object" ? "an object" : `a ${typeof value}`
}

const isOfType = (type: string, value: unknown): boolean => {
  switch (type) {
    case "object":
      return isObject(value)
    case "array":
      return Array.isArray(value)
    case "string":
    case "boolean":
      return typeof value === type
    case "number":
      return typeof value === "number"
    case "integer":
      return typeof value === "number" && Number.isInteger(value)
    case "null":
      return value === null
    default:
      return true
  }
}

const article = (type: string): string => (/^[aeio]/.test(type) ? `an ${type}` : type === "null" ? type : `a ${type}`)

const nameAt = (path: string): string => (path === "" ? "the arguments" : path)
const fieldAt = (path: string, key: string): string => (path === "" ? key : `${path}.${key}`)

/** First fault of a value, as a sentence that names the field; null = it fits. */
export const faultOf = (schema: unknown, value: unknown, path = "", depth = 0): string | null => {
  if (!isObject(schema) || depth > maxDepth) return null
  const types = (Array.isArray(schema["type"]) ? schema["type"] : [schema["type"]]).filter(
    (type): type is string => typeof type === "string"
  )
  if (types.length > 0 && !types.some((type) => isOfType(type, value)))
    return `${nameAt(path)} must be ${types.map(article).join(" or ")}, but is ${kindOf(value)}`
  const allowed = schema["enum"]
  if (Array.isArray(allowed) && !allowed.some((one) => canonical(one) === canonical(value)))
    return `${nameAt(path)} must be one of ${allowed.map((one) => JSON.stringify(one)).join(", ")}`
  if (isObject(value)) {
    const required = schema["required"]
    if (Array.isArray(required))
      for (const key of required)
        if (typeof key === "string" && !Object.hasOwn(value, key)) return `${fieldAt(path, key)} is required`
    const properties = schema["properties"]
    if (isObject(properties))
      for (const [key, property] of Object.entries(properties)) {
        if (!Object.hasOwn(value, key)) continue
        const fault = faultOf(property, value[key], fieldAt(path, key), depth + 1)
        if (fault !== null) return fault
      }
  }
  if (Array.isArray(value) && isObject(schema["items"]))
    for (const [index, entry] of value.entries()) {
      const fault = faultOf(schema["items"], entry, `${path}[${index}]`, depth + 1)
      if (fault !== null) return fault
    }
  return null
}

/** The JSON value of an argument text. No text at all is an empty object: tools without arguments are called so. */
export const parse = (text: string): Result.Result<unknown, string> => {
  if (text.trim() === "") return Result.succeed({})
  return Result.mapError(parseJson(text), (fault) =>
    fault === "too_deep"
      ? "the arguments nest too deeply to be read. Send the whole call again with flatter arguments."
      : "the arguments are not valid JSON (cut off or badly quoted). Send the whole call again with arguments that are one JSON object."
  )
}

/** Arguments that are an object and fit the schema, or what is wrong with them. */
export const read = (schema: unknown, text: string): Result.Result<Json, string> => {
  const parsed = parse(text)
  if (Result.isFailure(parsed)) return Result.fail(parsed.failure)
  const value = parsed.success
  if (!isObject(value)) return Result.fail(`the arguments must be one JSON object, but are ${kindOf(value)}`)
  const fault = faultOf(schema, value)
  return fault === null ? Result.succeed(value) : Result.fail(fault)
}
