import { assert, it } from "@effect/vitest"
import { canonical, canonicalText } from "../../../src/domain/agent/CanonicalJson.ts"

it.each([
  [{ b: 1, a: [2, 1], c: undefined }, '{"a":[2,1],"b":1}'],
  [{ b: { d: 1, c: 2 }, a: null }, '{"a":null,"b":{"c":2,"d":1}}'],
  [{ c: 1, b: 2, a: 3 }, '{"a":3,"b":2,"c":1}'],
  [[undefined, 1], "[null,1]"],
  [undefined, "null"],
  ['say "hi"', '"say \\"hi\\""'],
  [1.0, "1"],
  [true, "true"]
])("%j has one spelling: %s", (value, text) => assert.strictEqual(canonical(value), text))

it("never makes one number of two long ones", () => {
  assert.notStrictEqual(canonicalText('{"id":12345678901234567}'), canonicalText('{"id":12345678901234568}'))
  assert.strictEqual(canonicalText(' {"id": 1.0} '), canonicalText('{"id":1}'))
})
