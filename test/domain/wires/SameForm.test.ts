import { assert, describe, it } from "@effect/vitest"
import { profileNamed } from "../../../src/domain/provider/Profiles.ts"
import { eventReaderOf as messageReaderOf } from "../../../src/domain/wires/anthropicReader.ts"
import type { EventReader } from "../../../src/domain/wires/EventReader.ts"
import { eventReaderOf as chunkReaderOf } from "../../../src/domain/wires/openAiReader.ts"
import { SameForm } from "../../../src/domain/wires/SameForm.ts"
import { isFlaw, type ReadContext } from "../../../src/domain/wires/wireReply.ts"
import { chance, type Chance } from "../../support/chance.ts"
import { runs } from "../../support/runs.ts"

const chunk = (content: string, more = ""): string => `{"id":"r","choices":[{"delta":{"content":${content}}${more}}]}`

describe("the form of an event", () => {
  const remembered = (data = chunk('"one"'), text = "one"): SameForm => {
    const form = new SameForm("content")
    form.remember(undefined, data, text)
    return form
  }

  it("gives the text of the next event that has it", () => {
    const form = remembered()
    assert.strictEqual(form.textIn(undefined, chunk('"two"')), "two")
    assert.strictEqual(form.textIn(undefined, chunk('"dre\u00e9 \ud83d\ude00"')), "dre\u00e9 \ud83d\ude00")
    const spaced = remembered('{"content": "one"}')
    assert.strictEqual(spaced.textIn(undefined, '{"content": "two"}'), "two")
  })

  it.each([
    ["an empty text", chunk('""')],
    ["an escape", chunk('"a\\n"')],
    ["a quote, and a field behind it", chunk('"a","x":"b"')],
    ["a control character", chunk('"a\tb"')],
    ["no text", chunk("null")],
    ["another end", chunk('"two"', ',"finish_reason":"stop"')],
    ["another beginning", ` ${chunk('"two"')}`],
    ["less than the form", '{"id":"r","choices":[{"delta":{"content":"']
  ])("leaves to be parsed what has %s", (_, data) => {
    assert.isNull(remembered().textIn(undefined, data))
  })

  it("leaves an event of another name to be parsed", () => {
    assert.isNull(remembered().textIn("error", chunk('"two"')))
  })

  it("is remembered of no event in which the text cannot be told from another one", () => {
    const twice = '{"content":"one","choices":[{"delta":{"content":"one"}}]}'
    assert.isNull(remembered(twice).textIn(undefined, twice))
    assert.isNull(remembered('{"content":"\\u006fne"}').textIn(undefined, '{"content":"\\u006fne"}'))
  })

  it("is not looked for any more in a stream whose events all differ", () => {
    const form = new SameForm("content")
    const numbered = (at: number): string => `{"at":${at},"content":"one"}`
    for (let at = 0; at < 20; at += 1) {
      assert.isNull(form.textIn(undefined, numbered(at)))
      form.remember(undefined, numbered(at), "one")
    }
    assert.isNull(form.textIn(undefined, numbered(19)))
    const often = new SameForm("content")
    for (let at = 0; at < 20; at += 1) {
      often.remember(undefined, numbered(at), "one")
      assert.strictEqual(often.textIn(undefined, numbered(at)), "one")
    }
  })
})

const context = (name: string): ReadContext => {
  const profile = profileNamed(name)
  if (profile === null) throw new Error(name)
  return { profile, model: "m", requestId: null }
}

const texts = ["a", "b ", "", '"q"', "\\", "zwei\n", "\u00e9\u2028", "\ud83d\ude00", 'x","y":"', "data: {", "\t"]

/** A piece of an answer in the API's form, or something that is nearly one. */
const pieces: { readonly [Wire in "chat" | "messages"]: (random: Chance) => readonly [string | undefined, string] } = {
  chat: (random) => {
    const text = random.pick(texts)
    const delta = random.pick<object>([
      { content: text },
      { content: text },
      { content: text },
      { content: text, reasoning_content: random.pick(["", "so"]) },
      { content: text, refusal: random.pick([null, "no"]) },
      { content: [{ type: "text", text }] },
      { content: text, note: text },
      { role: "assistant", content: text },
      { tool_calls: [{ index: 0, id: "c", function: { name: "f", arguments: "" } }] },
      { tool_calls: [{ index: 0, function: { arguments: "{}" } }] }
    ])
    const body = {
      id: random.pick(["r", "r", "r", "s"]),
      content: random.pick([undefined, undefined, text]),
      choices: [{ index: 0, delta, finish_reason: random.pick([null, null, null, null, null, null, "stop", "odd"]) }],
      usage: random.pick([undefined, undefined, undefined, null, { prompt_tokens: 1, completion_tokens: 2 }])
    }
    return [random.pick([undefined, undefined, undefined, "x"]), JSON.stringify(body)]
  },
  messages: (random) => {
    const index = random.pick([0, 0, 0, 1])
    const text = random.pick(texts)
    const event = random.pick<{ readonly type: string }>([
      {
        type: "message_start",
        message: { id: "m", model: "m", usage: { input_tokens: 1, output_tokens: 1 } }
      } as never,
      { type: "content_block_start", index, content_block: { type: "text", text: "" } } as never,
      { type: "content_block_start", index, content_block: { type: "thinking", thinking: "" } } as never,
      ...Array.from({ length: 6 }, () => ({ type: "content_block_delta", index, delta: { type: "text_delta", text } })),
      { type: "content_block_delta", index, delta: { type: "thinking_delta", thinking: text } } as never,
      { type: "content_block_stop", index } as never,
      { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 3 } } as never
    ])
    return [event.type, JSON.stringify(event)]
  }
}

const readers = { chat: chunkReaderOf, messages: messageReaderOf }

describe.each(["chat", "messages"] as const)("a reader of %s that knows the form of an event", (wire) => {
  it("reads every stream as one that parses all of it", () => {
    for (let seed = 1; seed <= runs(20_000); seed += 1) {
      const random = chance(seed)
      const profile = context(wire === "chat" ? random.pick(["openai", "openrouter"]) : "anthropic")
      const [knowing, parsing]: ReadonlyArray<EventReader> = [readers[wire](profile, {}), readers[wire](profile, {})]
      if (knowing === undefined || parsing === undefined) return
      for (let at = 0; at < 12; at += 1) {
        const [name, data] = pieces[wire](random)
        // No two events in a row begin alike.
        const problem = parsing.onEvent(name, " ".repeat(1 + (at % 2)) + data)
        assert.deepStrictEqual(knowing.onEvent(name, data), problem, `seed ${seed}: ${data}`)
        assert.deepStrictEqual(knowing.parts, parsing.parts, `seed ${seed}: ${data}`)
        assert.deepStrictEqual(
          [knowing.usage, knowing.finishReason, knowing.done],
          [parsing.usage, parsing.finishReason, parsing.done]
        )
        if (problem !== null) break
      }
      const [known, parsed] = [knowing.reply("stop"), parsing.reply("stop")]
      assert.deepStrictEqual(known, parsed, `seed ${seed}`)
      assert.strictEqual(isFlaw(known), isFlaw(parsed))
    }
  })
})
