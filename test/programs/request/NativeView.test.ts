/** What a client sees of a stream of its own API: fed read by read, without a provider and a loop. */
import { assert, describe, it } from "@effect/vitest"
import { answerLimits } from "../../../src/domain/chat/AnswerLimits.ts"
import type { UsageRepair } from "../../../src/domain/wires/native/NativeWire.ts"
import { chatNative } from "../../../src/domain/wires/native/chatNative.ts"
import { messagesNative } from "../../../src/domain/wires/native/messagesNative.ts"
import { readerOf } from "../../../src/domain/wires/native/roughReading.ts"
import { responsesNative } from "../../../src/domain/wires/native/responsesNative.ts"
import { profileForBaseUrl } from "../../../src/domain/provider/Profiles.ts"
import { isProblem, NativeView, type Brought, type ViewOptions } from "../../../src/programs/request/NativeView.ts"
import { eventTexts, plain, wireNames, type Script, type WireName } from "../../support/nativeScripts.ts"

const wires = { chat: chatNative, responses: responsesNative, messages: messagesNative }
const hosts = {
  chat: "https://api.openai.com/v1",
  responses: "https://api.openai.com/v1",
  messages: "https://api.anthropic.com"
}
const encoder = new TextEncoder()
const decoder = new TextDecoder()

const watched = (name: WireName, options: Partial<ViewOptions> = {}) => {
  const wire = wires[name]
  const profile = profileForBaseUrl(hosts[name])
  const written: Array<string> = []
  const brought: Array<Brought> = []
  const view = new NativeView({
    wire,
    isVerified: false,
    isRough: false,
    limits: answerLimits,
    write: (bytes) => written.push(decoder.decode(bytes)),
    ...options
  })
  const usage: UsageRepair = {
    promptTokens: 10,
    addedPromptTokens: 0,
    estimatedPromptTokens: 0,
    earlierOutputTokens: 0
  }
  const begin = (): void => view.begin(readerOf(wire, { profile, model: "m", requestId: null }, {}, null))
  const feed = (...reads: ReadonlyArray<string | Uint8Array>) =>
    reads
      .map((read) =>
        view.feed(typeof read === "string" ? encoder.encode(read) : read, usage, (one) => brought.push(one))
      )
      .find((problem) => problem !== null) ?? null
  const end = () => {
    const ended = view.end(usage, (one) => brought.push(one))
    return isProblem(ended) ? { code: ended.code } : { text: ended.text }
  }
  begin()
  return { view, written, brought, begin, feed, end, usage, shown: () => written.join("") }
}

const hello = plain(["one ", "two ", "three"])
const until = (wire: WireName, word: string, script: Script = hello): ReadonlyArray<string> => {
  const events = eventTexts(wire, script)
  return events.slice(0, events.findIndex((event) => event.includes(word)) + 1)
}

const pieces = {
  chat: /"content":"([^"]*)"/g,
  messages: /"text_delta","text":"([^"]*)"/g,
  responses: /output_text\.delta".*?"delta":"([^"]*)"/g
}

/** The text that a client reads out of what was written. */
const textIn = (wire: WireName, written: string): string =>
  [...written.matchAll(pieces[wire])].map((found) => found[1] ?? "").join("")

describe.each(wireNames)("the view of a stream on %s", (wire) => {
  it("holds its first events until there is something to show, and hands on in one piece what a read lets through", () => {
    const { feed, written } = watched(wire)
    const events = until(wire, '"two ')
    const first = events.findIndex((event) => event.includes('"one '))
    feed(events.slice(0, first).join(""))
    assert.deepStrictEqual(written, [])
    feed(events.slice(first).join(""))
    assert.deepStrictEqual(written, [events.join("")].slice(0, written.length))
    assert.strictEqual(written.join(""), events.join(""))
  })

  it("is read the same in whatever memory its bytes lie", () => {
    const events = until(wire, '"two ')
    const { feed, shown } = watched(wire)
    let size = 0
    for (const event of events) {
      // Each read begins where the one before ended, in a memory of its own.
      const bytes = encoder.encode(event)
      const memory = new Uint8Array(size + bytes.length)
      memory.set(bytes, size)
      feed(memory.subarray(size))
      size += bytes.length
    }
    assert.strictEqual(shown(), events.join(""))
  })

  it("tells what each event brings: thinking, text, calls and usage", () => {
    const script: Script = {
      reasoning: ["hm"],
      text: ["one"],
      calls: [{ id: "c1", name: "look", args: ['{"a":', "1}"] }]
    }
    const { feed, brought, end } = watched(wire)
    feed(...eventTexts(wire, script))
    end()
    assert.isTrue(brought.some(({ reasoning, text, call }) => reasoning && text === null && !call))
    assert.deepStrictEqual(
      brought.flatMap(({ text }) => (text === null || text === "" ? [] : [text])),
      ["one"]
    )
    assert.isTrue(brought.some(({ call, reasoning, text }) => call && !reasoning && text === null))
    assert.isTrue(brought.some(({ call, reasoning, text }) => !call && !reasoning && text === null))
    assert.strictEqual(brought.findLast(({ usage }) => usage !== null)?.usage?.promptTokens, 10)
  })

  it("shows nothing of a call before the answer is whole", () => {
    const script: Script = { reasoning: [], text: ["one"], calls: [{ id: "c1", name: "look", args: ["{}"] }] }
    const events = eventTexts(wire, script)
    const { feed, shown, view, end, usage } = watched(wire)
    feed(...events.slice(0, -1))
    assert.include(shown(), "one")
    assert.notInclude(shown(), "look")
    feed(events.at(-1) ?? "")
    assert.deepStrictEqual(end(), { text: "one" })
    view.complete(usage, null)
    assert.strictEqual(shown(), events.join(""))
  })

  it("lets a comment pass at once when something was shown, and holds it before", () => {
    const { feed, written } = watched(wire)
    feed(": early\n\n")
    assert.deepStrictEqual(written, [])
    feed(...until(wire, '"one '))
    feed(": late\n\n")
    assert.strictEqual(written.at(-1), ": late\n\n")
    assert.isTrue(written.join("").startsWith(": early\n\n"))
  })

  it("shows nothing, comments neither, of an answer that has to be verified", () => {
    const { feed, written } = watched(wire, { isVerified: true })
    feed(...until(wire, '"one '), ": late\n\n")
    assert.deepStrictEqual(written, [])
  })

  it("says whether a stream that ended too early had brought anything", () => {
    const silent = watched(wire)
    assert.deepStrictEqual(silent.end(), { code: "empty_stream" })
    const cut = watched(wire)
    cut.feed(...until(wire, '"one '))
    assert.deepStrictEqual(cut.end(), { code: "no_finish_reason" })
  })

  it("takes a piece of an event for a fault and a line of words for none", () => {
    const { feed } = watched(wire)
    feed(...until(wire, '"one '))
    if (wire === "messages") assert.isNull(feed("data: keep-alive\n\n"))
    for (const piece of ['data: {"id":"x","choi\n\n', 'data:   {"a\n\n', 'data: "x\n\n', "data: [1,\n\n"]) {
      const problem = watched(wire).feed(...until(wire, '"one '), piece)
      assert.strictEqual(problem !== null && "code" in problem ? problem.code : null, "chunk_not_json")
    }
  })

  it("does not pass off an event that was cut for the whole", () => {
    const events = until(wire, '"two ')
    const { feed, end } = watched(wire)
    feed(...events.slice(0, -1), (events.at(-1) ?? "").slice(0, -12))
    assert.include(["event_cut", "no_finish_reason"], (end() as { readonly code?: string }).code)
  })

  it("passes on a comment behind the end of an answer, and drops the beginning of a line behind an unfinished one", () => {
    const whole = watched(wire)
    whole.feed(...eventTexts(wire, hello), ": bye")
    assert.deepStrictEqual(whole.end(), { text: "one two three" })
    whole.view.complete(null, null)
    assert.isTrue(whole.shown().endsWith(": bye"))
    const cut = watched(wire)
    cut.feed(...until(wire, '"two '), ": by")
    cut.end()
    cut.view.commitText(null)
    assert.strictEqual(cut.shown(), until(wire, '"two ').join(""))
  })

  it("knows no answer in a stream that says only that it is over, and passes over events without data", () => {
    const { feed, end, shown } = watched(wire)
    feed("data:\n\n", "data:  \n\n", ...(wire === "chat" ? ["data: [DONE]\n\n"] : []))
    assert.deepStrictEqual(end(), { code: "empty_stream" })
    assert.strictEqual(shown(), "")
  })

  it("closes an event that lacks only its blank line", () => {
    const events = eventTexts(wire, hello)
    const { feed, end, view, shown } = watched(wire)
    feed(...events.slice(0, -1), (events.at(-1) ?? "").trimEnd())
    assert.deepStrictEqual(end(), { text: "one two three" })
    view.complete(null, null)
    assert.strictEqual(shown().trimEnd(), events.join("").trimEnd())
    // A client of messages passes over an event that is not closed.
    if (wire === "messages") assert.isTrue(shown().endsWith("\n\n"))
    const cut = watched(wire)
    const before = until(wire, '"two ')
    cut.feed(...before.slice(0, -1), (before.at(-1) ?? "").trimEnd())
    assert.deepStrictEqual(cut.end(), { code: "no_finish_reason" })
    assert.strictEqual(cut.shown(), before.join(""))
  })

  it("is too large past its limits, by the event and by the whole", () => {
    const code = (limits: Partial<typeof answerLimits>, ...reads: ReadonlyArray<string>) => {
      const problem = watched(wire, { limits: { ...answerLimits, ...limits } }).feed(...reads)
      return problem !== null && "code" in problem ? problem.code : null
    }
    assert.strictEqual(code({ eventBytes: 20 }, `data: ${"x".repeat(15)}`), "event_too_large")
    assert.isNull(code({ eventBytes: 20 }, `: ${"x".repeat(18)}`))
    const comment = ": 345678\n\n"
    assert.isNull(code({ replyBytes: 20 }, comment, comment))
    assert.strictEqual(code({ replyBytes: 20 }, comment, comment, ":"), "answer_too_large")
  })

  it("puts a comment of ours before the last event, and none where there is no event", () => {
    const events = eventTexts(wire, hello)
    const { feed, end, view, shown, usage } = watched(wire)
    feed(...events)
    end()
    view.complete(usage, "cost 1")
    assert.strictEqual(shown(), [...events.slice(0, -1), ": cost 1\n\n", events.at(-1)].join(""))
    const empty = watched(wire)
    empty.view.complete(null, "cost 1")
    assert.notInclude(empty.shown(), "cost 1")
  })

  it("ends with the word that clients wait for, once", () => {
    const word = wires[wire].lastWord
    const events = eventTexts(wire, hello)
    const { feed, view, shown, end } = watched(wire)
    feed(...(word === "" ? events : events.slice(0, -1)))
    end()
    view.complete(null, null)
    assert.isTrue(shown().endsWith(word))
    assert.strictEqual(shown().split(word === "" ? "no word" : word).length, word === "" ? 1 : 2)
  })
})

describe.each(wireNames)("the view of an answer that goes on, on %s", (wire) => {
  const long = "This sentence is long enough."

  /** What a client reads of a cut text and of what the model says when it is asked to go on. */
  const goneOn = (before: string, ...pieces: ReadonlyArray<string>) => {
    const one = watched(wire)
    one.feed(...eventTexts(wire, { ...plain([before]), finish: "length" }))
    one.end()
    one.view.commitText(one.usage)
    one.view.goOn()
    one.begin()
    one.feed(...eventTexts(wire, plain(pieces, "b")))
    one.end()
    one.view.complete(one.usage, null)
    assert.notInclude(one.written, "")
    return textIn(wire, one.shown())
  }

  it("shows nothing twice that the model repeats word for word", () => {
    assert.strictEqual(goneOn(long, long.slice(0, 9), long.slice(9), " More."), `${long} More.`)
    assert.strictEqual(goneOn(long, `${long} More.`), `${long} More.`)
  })

  it("shows all of it when it only began like a repetition, or ended within one", () => {
    assert.strictEqual(goneOn(long, "This sentence", " is another."), `${long}This sentence is another.`)
    assert.strictEqual(goneOn(long, "This sentence"), `${long}This sentence`)
    assert.strictEqual(goneOn(long, "This ", "sentence"), `${long}This sentence`)
  })

  it("holds what a continuation that broke off had said of a repetition against no other one", () => {
    for (const [broken, whole] of [
      ["This ", "This is new."],
      ["This ", `${long} More.`],
      ["Other", "Other words."]
    ] as const) {
      const one = watched(wire)
      one.feed(...eventTexts(wire, { ...plain([long]), finish: "length" }))
      one.end()
      one.view.commitText(one.usage)
      one.view.goOn()
      one.begin()
      one.feed(...until(wire, JSON.stringify(broken).slice(0, -1), plain([broken], "b")))
      if (broken === "Other") one.view.splice()
      one.begin()
      one.feed(...eventTexts(wire, plain([whole], "c")))
      one.end()
      one.view.complete(one.usage, null)
      assert.strictEqual(textIn(wire, one.shown()), whole.startsWith(long) ? whole : `${long}${whole}`)
    }
  })

  it("shows a short text again, which is repeated for good reasons", () => {
    assert.strictEqual(goneOn("ha ", "ha ", "ha"), "ha ha ha")
    const edge = "x".repeat(24)
    assert.strictEqual(goneOn(edge, edge, "y"), `${edge}y`)
    assert.strictEqual(goneOn(edge.slice(1), edge.slice(1), "y"), `${edge.slice(1)}${edge.slice(1)}y`)
  })

  it("shows of a replay only what is new, and ends it where it says something else", () => {
    const same = watched(wire)
    same.feed(...until(wire, '"two '))
    same.view.splice()
    same.begin()
    same.feed(...eventTexts(wire, plain(["one t", "wo three"], "b")))
    assert.deepStrictEqual(same.end(), { text: "one two three" })
    same.view.complete(same.usage, null)
    assert.strictEqual(textIn(wire, same.shown()), "one two three")
    const other = watched(wire)
    other.feed(...until(wire, '"two '))
    other.view.splice()
    other.begin()
    const problem = other.feed(...eventTexts(wire, plain(["one else"], "b")))
    assert.strictEqual(problem !== null && "code" in problem ? problem.code : null, "replay_differs")
    assert.isTrue(other.view.replayDiffers)
    const short = watched(wire)
    short.feed(...until(wire, '"two '))
    short.view.splice()
    short.begin()
    short.feed(...eventTexts(wire, plain(["one"], "b")))
    assert.deepStrictEqual(short.end(), { code: "replay_differs" })
  })

  it("goes on behind comments that were shown", () => {
    const { view, feed, begin, end, usage, shown } = watched(wire)
    feed(": first\n\n", ...until(wire, '"two '), ": then\n\n")
    view.goOn()
    begin()
    feed(": again\n\n", ...eventTexts(wire, plain(["three"], "b")))
    assert.deepStrictEqual(end(), { text: "three" })
    view.complete(usage, null)
    assert.strictEqual(textIn(wire, shown()), "one two three")
    assert.strictEqual(shown().split(": again\n\n").length, 2)
  })

  it("shows text that was held as it came when it is gone on from", () => {
    const { view, feed, end, usage, shown } = watched(wire, { isVerified: true })
    feed(...eventTexts(wire, { ...plain(["one ", "two"]), finish: "length" }))
    end()
    view.commitText(usage)
    assert.strictEqual(shown(), until(wire, '"two"', plain(["one ", "two"])).join(""))
  })

  it("knows whether it is stitched", () => {
    const { view, feed } = watched(wire)
    feed(...until(wire, '"two '))
    assert.isFalse(view.isStitched)
    view.goOn()
    assert.isTrue(view.isStitched)
    assert.deepStrictEqual(view.shown, { text: "", reasoning: false, other: false })
  })

  it("cannot go on from thinking alone, nor from what is read roughly", () => {
    const thinking = watched(wire)
    const events = eventTexts(wire, { reasoning: ["hm"], text: ["one"], calls: [] })
    const at = events.findIndex((event) => event.includes('"hm"'))
    thinking.feed(...events.slice(0, at + 1))
    assert.isTrue(thinking.view.isUnfinishable())
    thinking.feed(...events.slice(at + 1, events.findIndex((event) => event.includes('"one"')) + 1))
    assert.isFalse(thinking.view.isUnfinishable())
    const rough = watched(wire, { isRough: true })
    rough.feed(...until(wire, '"two '))
    assert.isTrue(rough.view.isUnfinishable())
  })
})

describe("a chat chunk that brings text and the end together", () => {
  const head = { id: "c", object: "chat.completion.chunk", created: 1, model: "m" }
  const chunk = (choice: object, more: object = {}) =>
    `data: ${JSON.stringify({ ...head, choices: [{ index: 0, ...choice }], ...more })}\n\n`

  it("is shown without its end and its usage when the answer goes on", () => {
    const { feed, end, view, shown, usage } = watched("chat")
    feed(
      chunk({ delta: { role: "assistant", content: "one " }, finish_reason: null }),
      chunk(
        { delta: { content: "two" }, finish_reason: "length" },
        { usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 } }
      ),
      "data: [DONE]\n\n"
    )
    end()
    view.commitText(usage)
    assert.strictEqual(
      shown(),
      chunk({ delta: { role: "assistant", content: "one " }, finish_reason: null }) +
        chunk({ delta: { content: "two" }, finish_reason: null })
    )
  })

  it("keeps whatever else it says while it is no end", () => {
    const { feed, view, shown } = watched("chat", { isVerified: true })
    const one = chunk({ delta: { role: "assistant", content: "one " }, finish_reason: null }, { usage: null })
    feed(one)
    view.commitText(null)
    assert.strictEqual(shown(), one)
  })

  it("opens nothing, whatever words are in it", () => {
    const { feed, view } = watched("chat")
    const odd = { system_fingerprint: "content_block_start response.output_item.added" }
    feed(chunk({ delta: { role: "assistant" }, finish_reason: null }, odd), chunk({ delta: { content: "one" } }))
    assert.isFalse(view.isUnfinishable())
  })

  it("is shown as it came when the answer is whole", () => {
    const { feed, end, view, shown } = watched("chat")
    const last = chunk({ delta: { content: "two" }, finish_reason: "stop" })
    feed(last, "data: [DONE]\n\n")
    end()
    view.complete(null, null)
    assert.strictEqual(shown(), `${last}data: [DONE]\n\n`)
  })
})

describe("the name of an answer", () => {
  const created = (response: unknown, number = 0) =>
    `data: ${JSON.stringify({ type: "response.created", sequence_number: number, response })}\n\n`

  it("is unknown before its first event and begins anew with each attempt", () => {
    const { view, feed, begin } = watched("responses")
    assert.deepStrictEqual([view.id, view.sequence], [null, -1])
    feed(...eventTexts("responses", hello).slice(0, 2))
    assert.deepStrictEqual([view.id, view.sequence], ["resp_a", 1])
    begin()
    assert.deepStrictEqual([view.id, view.sequence], [null, -1])
  })

  it("is the first that the stream says, where that is a text", () => {
    for (const response of [null, "resp_x", {}, { id: 7 }]) {
      const { view, feed } = watched("responses")
      feed(created(response))
      assert.isNull(view.id)
    }
    const { view, feed } = watched("responses")
    feed(created({ id: "resp_x" }), created({ id: "resp_y" }, 1))
    assert.strictEqual(view.id, "resp_x")
  })

  it("is that of the message on messages, and none on chat", () => {
    const messages = watched("messages")
    messages.feed(...eventTexts("messages", plain(["x"], "first")).slice(0, 1))
    messages.feed(...eventTexts("messages", plain(["x"], "second")).slice(0, 1))
    assert.strictEqual(messages.view.id, "msg_first")
    const odd = watched("messages")
    odd.feed('data: {"type":"message_start","message":{"id":7}}\n\n', 'data: {"type":"message_start"}\n\n')
    assert.isNull(odd.view.id)
    const chat = watched("chat")
    chat.feed(...eventTexts("chat", hello))
    assert.deepStrictEqual([chat.view.id, chat.view.sequence], [null, -1])
  })

  it("is unknown when the event that says it was cut", () => {
    const { view, feed } = watched("responses")
    const problem = feed('data: {"type":"response.created","response":{"id":"re\n\n')
    assert.isNotNull(problem)
    assert.isNull(view.id)
  })

  it("is forgotten when the answer has failed: a failed one has nothing more to give", () => {
    const { view, feed } = watched("responses")
    feed(...until("responses", '"two '))
    feed('data: {"type":"response.failed","sequence_number":50,"response":{"error":{"code":"server_error"}}}\n\n')
    assert.isNull(view.id)
  })
})

describe("a stream that was taken up", () => {
  it("leaves out what was seen, and hands on the rest with what lies between in the same read", () => {
    const events = eventTexts("responses", hello)
    const { view, feed, shown, end } = watched("responses")
    const at = until("responses", '"two ').length
    feed(...events.slice(0, at))
    view.takeUp()
    // It begins two events too early.
    feed(`: again\n\n${events.slice(at - 2).join("")}`)
    assert.deepStrictEqual(end(), { text: "one two three" })
    view.complete(null, null)
    assert.strictEqual(shown(), [...events.slice(0, at), ": again\n\n", ...events.slice(at)].join(""))
  })

  it("forgets the half event of the connection before", () => {
    const events = eventTexts("responses", hello)
    const { view, feed, shown, end } = watched("responses")
    const at = until("responses", '"two ').length
    feed(...events.slice(0, at), (events[at] ?? "").slice(0, 20))
    view.takeUp()
    feed(...events.slice(at))
    assert.deepStrictEqual(end(), { text: "one two three" })
    view.complete(null, null)
    assert.strictEqual(shown(), events.join(""))
  })

  it("shows an event without a number, which nothing can place", () => {
    const { view, feed } = watched("responses")
    feed(...until("responses", '"two '))
    view.takeUp()
    const { sequence } = view
    feed('data: {"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"x"}\n\n')
    assert.strictEqual(view.sequence, sequence)
    assert.strictEqual(view.shown.text, "one two x")
  })
})

describe("what was opened in a stream", () => {
  const opened = (type: string, index = 0) =>
    `data: ${JSON.stringify({ type: "content_block_start", index, content_block: { type, text: "", thinking: "" } })}\n\n`
  const delta = (text: string, index = 0) =>
    `data: ${JSON.stringify({ type: "content_block_delta", index, delta: { type: "text_delta", text } })}\n\n`
  const stop = (index: number) => `data: ${JSON.stringify({ type: "content_block_stop", index })}\n\n`

  it("cannot be gone on from with a second text, and can with one", () => {
    const { view, feed } = watched("messages")
    feed(...eventTexts("messages", hello).slice(0, 1), opened("text"), delta("one"))
    assert.isFalse(view.isUnfinishable())
    feed(stop(0), opened("text", 1), delta("two", 1))
    assert.isTrue(view.isUnfinishable())
  })

  it("cannot be gone on from when it is neither text nor thinking", () => {
    for (const [type, isStuck] of [
      ["thinking", false],
      ["redacted_thinking", false],
      ["server_tool_use", true],
      ["web_search_tool_result", true]
    ] as const) {
      const { view, feed } = watched("messages")
      feed(...eventTexts("messages", hello).slice(0, 1), opened(type), stop(0), opened("text", 1), delta("one", 1))
      assert.strictEqual(view.isUnfinishable(), isStuck, type)
    }
  })
})
