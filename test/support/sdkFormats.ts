/** Formats of structured answers as openai's helpers make them, without a schema library. */
import { makeParseableResponseFormat, makeParseableTextFormat } from "openai/lib/parser"

const schema = {
  type: "object",
  properties: { sum: { type: "number" } },
  required: ["sum"],
  additionalProperties: false
}
const read = (text: string): { readonly sum: number } => JSON.parse(text) as { readonly sum: number }

export const sumFormat = {
  chat: makeParseableResponseFormat({ type: "json_schema", json_schema: { name: "sum", strict: true, schema } }, read),
  responses: makeParseableTextFormat({ type: "json_schema", name: "sum", strict: true, schema }, read)
}
