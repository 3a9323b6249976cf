import { assert, it } from "@effect/vitest"
import * as Result from "effect/Result"
import { isCount, isJson, nestingLimit, parse, parsedObject, parsedOrText } from "../../../src/domain/chat/json.ts"

const faultOf = (text: string): string | null => {
  const parsed = parse(text)
  return Result.isFailure(parsed) ? parsed.failure : null
}

const nested = (depth: number): string => "[".repeat(depth) + "]".repeat(depth)

it.each([
  ['{"a":1}', null],
  [' {"a":[1,{"b":"}"}]} ', null],
  ["null", null],
  ['{"a":', "cut"],
  ['\n\n{"choices":[{"index":0,"', "cut"],
  ['"half a te', "cut"],
  ['{"a":"\\', "cut"],
  ["[1,2", "cut"],
  ["upstream timeout", "not_json"],
  ["", "not_json"],
  ["<html>{", "not_json"],
  ['{"a":1}}', "not_json"],
  ["{a:1}", "not_json"],
  ["nul", "not_json"]
])("reads %j as %j", (text, fault) => assert.strictEqual(faultOf(text), fault))

it("parses to the limit of nesting and not one level more", () => {
  assert.isTrue(isJson(nested(nestingLimit)))
  assert.strictEqual(faultOf(nested(nestingLimit + 1)), "too_deep")
  assert.strictEqual(faultOf(nested(100_000)), "too_deep")
  assert.strictEqual(faultOf("[".repeat(100_000)), "too_deep")
})

it("counts no bracket inside a text", () => {
  assert.isTrue(isJson(JSON.stringify({ text: "[".repeat(100_000) + '\\"' })))
})

it("keeps a text that is no JSON, and gives objects only where objects are wanted", () => {
  assert.strictEqual(parsedOrText("502 Bad Gateway"), "502 Bad Gateway")
  assert.deepStrictEqual(parsedOrText('{"a":1}'), { a: 1 })
  assert.deepStrictEqual(parsedObject('{"a":1}'), { a: 1 })
  assert.isNull(parsedObject("[1]"))
  assert.isNull(parsedObject("null"))
})

it.each([
  [0, true],
  [7, true],
  [-1, false],
  [1.5, false],
  [2 ** 53, false],
  ["3", false]
])("%j is a count: %j", (value, expected) => assert.strictEqual(isCount(value), expected))
