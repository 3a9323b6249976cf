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

  const delta = (text: string): ReplyPart => ({ _tag: "TextDelta", text })
  const seen = (before: string, goesOnFrom: string, ...given: ReadonlyArray<ReplyPart>) => {
    const reader = readerOf(before, goesOnFrom)
    for (const part of given) Effect.runSync(reader.stream.see(part))
    return reader.parts
  }

  it("is told nothing of its own where nothing was kept", () => {
    assert.deepStrictEqual(seen("", ""), [])
    assert.deepStrictEqual(seen("", "from elsewhere"), [delta("from elsewhere")])
  })

  it("is told no empty text when the reply says exactly what was kept", () => {
    assert.deepStrictEqual(seen("abc", "", delta("ab"), delta("c")), [delta("abc")])
    assert.deepStrictEqual(seen("abc", "", delta("abcd"), delta("e")), [delta("abc"), delta("d"), delta("e")])
  })

  it("is told the reasoning of another reply again behind the Reset, and its calls after the text", () => {
    const reasons: ReplyPart = { _tag: "ReasoningDelta", text: "hm" }
    const ready: ReplyPart = { _tag: "ToolCallReady", id: "1", name: "n", arguments: "{}" }
    const reset: ReplyPart = { _tag: "Reset" }
    assert.deepStrictEqual(seen("abc", "", reasons, delta("ab"), delta("x")), [
      delta("abc"),
      reasons,
      reset,
      reasons,
      delta("ab"),
      delta("x")
    ])
    assert.deepStrictEqual(seen("abc", "a", delta("b"), ready), [delta("abc"), reset, delta("a"), delta("b"), ready])
  })

  it("is told of a reply that was shorter at its end, once", () => {
    const finish: ReplyPart = { _tag: "Finish", reply: makeReply({ text: "ab" }) }
    assert.deepStrictEqual(
      seen("abc", "", delta("ab"), finish, finish).map(({ _tag }) => _tag),
      ["TextDelta", "Reset", "TextDelta", "Finish", "Finish"]
    )
  })

  it("is told at once of what is no text, and the comparison goes on", () => {
    const usage: ReplyPart = { _tag: "UsageSeen", usage: makeReply({ text: null }).usage }
    assert.deepStrictEqual(seen("abc", "", delta("a"), usage, delta("bc"), delta("d")), [
      delta("abc"),
      usage,
      delta("d")
    ])
  })

  it("keeps text in pieces of two thousand characters, and the rest when it is asked to", () => {
    const told: Array<string | null> = []
    const journal = {
      ...noJournal,
      turn: "t",
      tell: (_key: string, text: string | null) => Effect.sync(() => void told.push(text))
    }
    const stream = makeKeptStream(journal, "k", () => Effect.void)
    for (let at = 0; at < 2_001; at += 1) Effect.runSync(stream.see(delta("x")))
    assert.deepStrictEqual(
      told.map((text) => text?.length),
      [2_000]
    )
    for (let round = 0; round < 2; round += 1) Effect.runSync(stream.flush)
    assert.deepStrictEqual(
      told.map((text) => text?.length),
      [2_000, 1]
    )
    Effect.runSync(stream.see(delta("more")))
    Effect.runSync(stream.see({ _tag: "Reset" }))
    Effect.runSync(stream.flush)
    assert.deepStrictEqual(told.slice(2), [null])
  })
})
