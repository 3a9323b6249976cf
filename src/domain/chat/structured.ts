/**
 * Whether a request asks for an answer in a fixed form (JSON by a schema, a grammar, guided decoding). Such an answer is
 * one value: a half of it and a continuation that begins a new one make neither.
 */
import { isObject, type Json } from "./json.ts"
import type { ModelRequest } from "./ModelRequest.ts"

/** Fields of request bodies that bind the form, in the words of several providers and servers. */
const binding: ReadonlyArray<string> = [
  "response_format",
  "output_format",
  "structured_outputs",
  "format",
  "grammar",
  "json_schema",
  "regex",
  "ebnf",
  "guided_json",
  "guided_regex",
  "guided_choice",
  "guided_grammar",
  "guided_decoding_backend"
]

/** Fields that hold such fields. */
const holders: ReadonlyArray<string> = ["extra_body", "text", "output_config", "nvext", "options"]

const isPlain = (type: unknown): boolean => type === "text"

/** A field that says "plain text", or nothing, binds nothing. */
const binds = (value: unknown): boolean => {
  if (value === undefined || value === null || value === false || value === "" || isPlain(value)) return false
  return !(isObject(value) && isPlain(value["type"]))
}

const bindsIn = (fields: Json): boolean => binding.some((name) => Object.hasOwn(fields, name) && binds(fields[name]))

export const isStructured = (request: Pick<ModelRequest, "params">): boolean => {
  const { params } = request
  if (params === undefined) return false
  return (
    bindsIn(params) ||
    holders.some((name) => {
      const held = params[name]
      return isObject(held) && bindsIn(held)
    })
  )
}
