import { assert, it } from "@effect/vitest"
import { bindsForm, isStructured } from "../../../src/domain/chat/structured.ts"
import { chatNative } from "../../../src/domain/wires/native/chatNative.ts"
import { messagesNative } from "../../../src/domain/wires/native/messagesNative.ts"
import { responsesNative } from "../../../src/domain/wires/native/responsesNative.ts"

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
  { regex: "[0-9]+" },
  { extra_body: { nvext: { guided_choice: ["yes", "no"] } } },
  { extra_body: { google: { generationConfig: { responseSchema: {} } } } },
  { structural_tag: { structures: [] } }
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

const wires = { chat: chatNative, responses: responsesNative, messages: messagesNative }
const askedOf = (wire: keyof typeof wires, fields: object) => {
  const own = wire === "responses" ? { input: "Hi" } : { messages: [{ role: "user", content: "Hi" }] }
  const body = { model: "m", ...own, ...fields }
  return wires[wire].view(body, JSON.stringify(body))
}

it.each([
  { response_format: { type: "json_object" } },
  { text: { format: { type: "json_schema", schema: {} } } },
  { output_config: { format: { type: "json_schema", schema: {} } } },
  { guided_json: {} },
  { extra_body: { nvext: { guided_choice: ["yes", "no"] } } }
])("a request on any wire binds its form by %j", (fields) => {
  for (const wire of ["chat", "responses", "messages"] as const)
    assert.isTrue(askedOf(wire, fields)?.isStructured, wire)
})

it.each([{}, { response_format: { type: "text" } }, { text: { format: { type: "text" } } }, { output_config: {} }])(
  "a request on any wire does not bind its form by %j",
  (fields) => {
    for (const wire of ["chat", "responses", "messages"] as const)
      assert.isFalse(askedOf(wire, fields)?.isStructured, wire)
  }
)

it("is not led astray by holders without end", () => {
  const around = (levels: number): Record<string, unknown> =>
    levels === 0 ? { guided_json: {} } : { extra_body: around(levels - 1) }
  assert.isTrue(bindsForm(around(3)))
  assert.isFalse(bindsForm(around(4)))
})
