import { assert, it } from "@effect/vitest"
import * as Result from "effect/Result"
import { faultOf, read } from "../../../src/domain/agent/ToolArguments.ts"

const schema = {
  type: "object",
  properties: {
    limit: { type: "integer" },
    mode: { enum: ["fast", "slow"] },
    names: { type: "array", items: { type: "string" } },
    nested: { type: "object", properties: { deep: { type: ["number", "null"] } }, required: ["deep"] }
  },
  required: ["limit"]
}

it.each([
  ['{"limit":"ten"}', "limit must be an integer, but is a string"],
  ['{"limit":1.5}', "limit must be an integer, but is a number"],
  ["{}", "limit is required"],
  ["", "limit is required"],
  ['{"limit":1,"mode":"other"}', 'mode must be one of "fast", "slow"'],
  ['{"limit":1,"names":["a",2]}', "names[1] must be a string, but is a number"],
  ['{"limit":1,"nested":{}}', "nested.deep is required"],
  ['{"limit":1,"nested":{"deep":"x"}}', "nested.deep must be a number or null, but is a string"],
  ["[1]", "the arguments must be one JSON object, but are an array"],
  ["null", "the arguments must be one JSON object, but are null"],
  ["7", "the arguments must be one JSON object, but are a number"],
  ['{"limit":{}}', "limit must be an integer, but is an object"],
  ['{"limit":null}', "limit must be an integer, but is null"],
  ['{"limit":1,"nested":[]}', "nested must be an object, but is an array"]
])("says of %s that %s", (text, fault) => {
  assert.deepStrictEqual(read(schema, text), Result.fail(fault))
})

it.each(['{"action": list"}', '{"limit":1', '{"limit":', "limit=1"])("says that %s is not valid JSON", (text) => {
  const found = read(schema, text)
  assert.isTrue(Result.isFailure(found) && found.failure.includes("not valid JSON"))
})

it("allows properties the schema does not name", () => {
  assert.deepStrictEqual(
    read(schema, '{"limit":1.0,"further":true,"nested":{"deep":null}}'),
    Result.succeed({ limit: 1, further: true, nested: { deep: null } })
  )
})

it("takes no text as no arguments", () => {
  assert.deepStrictEqual(read({ type: "object" }, " "), Result.succeed({}))
})

it("names the arguments as a whole where no field is to blame", () => {
  assert.strictEqual(faultOf({ type: "array" }, {}), "the arguments must be an array, but is an object")
  assert.strictEqual(faultOf({ enum: [1] }, 2), "the arguments must be one of 1")
})

it("checks nothing against a schema that is none, a type nobody knows, or a depth no tool has", () => {
  for (const schema of [null, true, "string", [], { type: "date" }, { type: 7 }]) assert.isNull(faultOf(schema, 7))
  const deep = (levels: number): unknown =>
    levels === 0 ? { type: "string" } : { type: "array", items: deep(levels - 1) }
  const nested = (levels: number): unknown => (levels === 0 ? 7 : [nested(levels - 1)])
  assert.isNotNull(faultOf(deep(32), nested(32)))
  assert.isNull(faultOf(deep(33), nested(33)))
})
