import { assert, it } from "@effect/vitest"
import { isStructured } from "../../../src/domain/chat/structured.ts"

it.each([
  { response_format: { type: "json_object" } },
  { response_format: { type: "json_schema", json_schema: {} } },
  { text: { format: { type: "json_schema" } } },
  { output_config: { format: { type: "json_schema" } } },
  { output_format: { type: "json_schema" } },
  { guided_json: {} },
  { guided_choice: ["yes", "no"] },
  { grammar: "root ::= x" },
  { format: "json" },
  { structured_outputs: { regex: "a+" } },
  { extra_body: { guided_regex: "[0-9]+" } },
  { regex: "[0-9]+" }
])("a form is bound by %j", (params) => assert.isTrue(isStructured({ params })))

it.each([
  undefined,
  {},
  { temperature: 0, stop: ["x"] },
  { response_format: { type: "text" } },
  { response_format: "text" },
  { response_format: null },
  { text: { verbosity: "low" } },
  { output_config: { effort: "high" } },
  { text: { format: { type: "text" } } },
  { grammar: "" },
  { extra_body: { top_k: 3 } }
])("no form is bound by %j", (params) => assert.isFalse(isStructured(params === undefined ? {} : { params })))
