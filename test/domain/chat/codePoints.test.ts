import { assert, it } from "@effect/vitest"
import { head, tail, wellFormed } from "../../../src/domain/chat/codePoints.ts"

const emoji = "\u{1F600}"

it("never parts the two halves of a code point", () => {
  const text = `a${emoji}b${emoji}${emoji}`
  for (let length = 0; length <= text.length + 1; length += 1) {
    assert.isTrue(head(text, length).isWellFormed())
    assert.isTrue(tail(text, length).isWellFormed())
    assert.isAtMost(head(text, length).length, length)
    assert.isAtMost(tail(text, length).length, length)
  }
})

it.each([
  [head(`a${emoji}`, 2), "a"],
  [head(`a${emoji}`, 3), `a${emoji}`],
  [tail(`${emoji}a`, 2), "a"],
  [tail(`${emoji}a`, 0), ""],
  [head("abc", 10), "abc"],
  [wellFormed("half \ud83d"), "half \ufffd"],
  [wellFormed(emoji), emoji]
])("cuts to %j", (got, want) => assert.strictEqual(got, want))
