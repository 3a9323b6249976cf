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
  "guided_decoding",
  "guided_decoding_backend",
  "structural_tag",
  "response_schema",
  "responseSchema",
  "responseJsonSchema"
]

/** Fields that hold such fields; one holder may stand inside another (`extra_body.nvext`). */
const holders: ReadonlyArray<string> = [
  "extra_body",
  "text",
  "output_config",
  "nvext",
  "options",
  "google",
  "generationConfig",
  "generation_config"
]
/** How many holders may stand inside one another. */
const deepest = 3

const isPlain = (type: unknown): boolean => type === "text"

/** A field that says "plain text", or nothing, binds nothing. */
const binds = (value: unknown): boolean => {
  if (value === undefined || value === null || value === false || value === "" || isPlain(value)) return false
  return !(isObject(value) && isPlain(value["type"]))
}

/** Whether a request's body, in whatever wire's words, binds the form of its answer. */
export const bindsForm = (body: Json, levels = deepest): boolean =>
  binding.some((name) => Object.hasOwn(body, name) && binds(body[name])) ||
  (levels > 0 &&
    holders.some((name) => {
      const held = Object.hasOwn(body, name) ? body[name] : undefined
      return isObject(held) && bindsForm(held, levels - 1)
    }))

export const isStructured = ({ params }: Pick<ModelRequest, "params">): boolean =>
  params !== undefined && bindsForm(params)
