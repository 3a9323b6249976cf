import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ReplyPart } from "../../../src/domain/chat/ReplyPart.ts"
import { makeReply } from "../../../src/layers/ScriptedModel.ts"
import { makeKeptStream } from "../../../src/programs/agent/keptStream.ts"
import { noJournal } from "../../../src/services/Journal.ts"
import { runs } from "../../support/runs.ts"

/** A reader of one process: what it is told, and what is kept for the next one. */
const readerOf = (before: string, goesOnFrom: string) => {
  const parts: Array<ReplyPart> = []
  let kept = before
  const journal = {
    ...noJournal,
    turn: "t",
    told: () => kept,
    tell: (_key: string, text: string | null) => Effect.sync(() => void (kept = text === null ? "" : kept + text))
  }
  const stream = makeKeptStream(journal, "k", (part) => Effect.sync(() => void parts.push(part)))
  Effect.runSync(stream.showAgain(goesOnFrom))
  return { parts, kept: () => kept, stream }
}

const shown = (parts: ReadonlyArray<ReplyPart>): string =>
  parts.reduce((text, part) => (part._tag === "Reset" ? "" : part._tag === "TextDelta" ? text + part.text : text), "")

const resets = (parts: ReadonlyArray<ReplyPart>): number => parts.filter(({ _tag }) => _tag === "Reset").length

/** A text in pieces, with reasoning here and there. */
const Pieces = Schema.Array(
  Schema.Struct({ text: Schema.Literals(["", "a", "b", "ab", "ba", "aab"]), thinks: Schema.Boolean })
)
type Pieces = typeof Pieces.Type

const partsOf = (given: Pieces): ReadonlyArray<ReplyPart> => [
  ...given.flatMap(({ text, thinks }): ReadonlyArray<ReplyPart> => [
    ...(thinks ? [{ _tag: "ReasoningDelta" as const, text: "hm" }] : []),
    { _tag: "TextDelta", text }
  ]),
  { _tag: "Finish", reply: makeReply({ text: given.map(({ text }) => text).join("") }) }
]

const textOf = (given: ReadonlyArray<{ readonly text: string }>): string => given.map(({ text }) => text).join("")

describe("a reader over two processes", () => {
  it.prop(
    "has the reply in the end: behind the text that was kept when it begins so, behind one Reset when not",
    { given: Pieces, earlier: Pieces, at: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 6 })) },
    ({ given, earlier, at }) => {
      const before = textOf(earlier.slice(0, 4))
      const base = before.slice(0, at)
      const { parts, stream, kept } = readerOf(before, base)
      assert.strictEqual(shown(parts), before)
      for (const part of partsOf(given)) Effect.runSync(stream.see(part))
      Effect.runSync(stream.flush)
      const whole = base + textOf(given)
      assert.strictEqual(shown(parts), whole)
      assert.strictEqual(kept(), whole)
      assert.strictEqual(resets(parts), whole.startsWith(before) ? 0 : 1)
    },
    { arbitrary: { runs: runs(20_000) } }
  )

  it("drops what was kept when the request goes on from another text", () => {
    const { parts, stream, kept } = readerOf("what was kept", "something else")
    Effect.runSync(stream.see({ _tag: "TextDelta", text: ", and more" }))
    Effect.runSync(stream.flush)
    assert.deepStrictEqual([shown(parts), resets(parts)], ["something else, and more", 1])
    assert.strictEqual(kept(), "something else, and more")
  })

  it("passes on a Reset of the reply itself, once, and tells a call only behind the text it belongs to", () => {
    const { parts, stream } = readerOf("abc", "")
    for (const part of [
      { _tag: "TextDelta", text: "ab" },
      { _tag: "Reset" },
      { _tag: "TextDelta", text: "new" }
    ] as const)
      Effect.runSync(stream.see(part))
    assert.deepStrictEqual([shown(parts), resets(parts)], ["new", 1])
    const other = readerOf("abc", "")
    Effect.runSync(other.stream.see({ _tag: "ToolCallReady", id: "1", name: "n", arguments: "{}" }))
    assert.deepStrictEqual(
      other.parts.map(({ _tag }) => _tag),
      ["TextDelta", "Reset", "ToolCallReady"]
    )
  })
})
