import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { isMessage, isToolSpec, textOf, withoutForeign, type Message } from "../../../src/domain/chat/Message.ts"
import { groupsOf, leadingSystem, splitForCompaction, unpaired } from "../../../src/domain/chat/MessageGroups.ts"
import { toMessage } from "../../../src/domain/chat/ModelReply.ts"
import * as RequestWindow from "../../../src/domain/chat/RequestWindow.ts"
import { local, ofMessage } from "../../../src/domain/chat/TokenEstimate.ts"
import * as Usage from "../../../src/domain/chat/Usage.ts"
import { makeReply } from "../../../src/layers/ScriptedModel.ts"
import { runs } from "../../support/runs.ts"

const user = (content: string): Message => ({ role: "user", content })
const system: Message = { role: "system", content: "rules" }
const calls = (...ids: ReadonlyArray<string>): Message => ({
  role: "assistant",
  content: null,
  tool_calls: ids.map((id) => ({ id, type: "function", function: { name: "f", arguments: "{}" } }))
})
const result = (id: string): Message => ({ role: "tool", tool_call_id: id, content: "r" })

describe("groups of messages", () => {
  it("keep a call with all its results, by adjacency", () => {
    const messages = [user("a"), calls("1", "2"), result("1"), result("2"), user("b"), calls("1"), result("1")]
    assert.deepStrictEqual(
      groupsOf(messages).map((group) => group.length),
      [1, 3, 1, 2]
    )
    assert.deepStrictEqual(groupsOf(messages).flat(), messages)
  })

  it("leave a result behind an assistant message without calls on its own", () => {
    const said: Message = { role: "assistant", content: "a" }
    for (const before of [said, { ...said, tool_calls: [] }, user("a")])
      assert.deepStrictEqual(
        groupsOf([before, result("1")]).map((group) => group.length),
        [1, 1]
      )
  })

  it("leave a result without a call on its own", () => {
    assert.deepStrictEqual(
      groupsOf([result("1"), user("a"), result("2")]).map((group) => group.length),
      [1, 1, 1]
    )
  })

  it("split at whole units: the system prompt stays first, at least so many messages stay", () => {
    const messages = [
      system,
      { role: "developer", content: "more" } as Message,
      user("a"),
      calls("1", "2"),
      result("1"),
      result("2"),
      user("b"),
      user("c")
    ]
    const split = splitForCompaction(messages, 3)
    assert.deepStrictEqual([split.system.length, split.old.length, split.recent.length], [2, 1, 5])
    assert.deepStrictEqual(splitForCompaction(messages, 2).recent, [user("b"), user("c")])
    assert.deepStrictEqual(splitForCompaction([system, user("a")], 4).old, [])
    assert.strictEqual(leadingSystem([system]), 1)
    assert.strictEqual(leadingSystem([]), 0)
  })

  it.each<readonly [string | null, ReadonlyArray<Message>]>([
    [null, [user("a"), calls("1", "2"), result("2"), result("1"), user("b")]],
    ["1", [user("a"), calls("1"), user("b")]],
    ["1", [user("a"), calls("1")]],
    ["9", [user("a"), calls("1"), result("9")]],
    ["1", [calls("1"), result("1"), result("1")]],
    ["2", [result("2")]]
  ])("names the tool call %s that is not paired", (id, messages) => {
    const fault = unpaired(messages)
    if (id === null) assert.isNull(fault)
    else assert.include(fault ?? "", id)
  })
})

describe("the window", () => {
  const made = RequestWindow.make([system, user("old"), user("mid"), user("now")], "Go on.")

  it("keeps fragments with the prompt behind each, and joins them verbatim", () => {
    const window = RequestWindow.keep(RequestWindow.keep(made, "a \n"), " b")
    assert.deepStrictEqual(RequestWindow.messagesOf(window).slice(4), [
      { role: "assistant", content: "a \n" },
      user("Go on."),
      { role: "assistant", content: " b" },
      user("Go on.")
    ])
    assert.strictEqual(RequestWindow.textOf(window), "a \n b")
    assert.strictEqual(RequestWindow.textOf(made), "")
    assert.deepStrictEqual(made.fragments, [])
    assert.strictEqual(RequestWindow.messagesOf(made), made.base)
  })

  it("puts a summary between the system prompt and the recent messages, and forgets old usage", () => {
    const counted: Message = {
      role: "assistant",
      content: "x",
      usage: { ...Usage.unknown, promptTokens: 9, completionTokens: 1 }
    }
    const window = RequestWindow.make([system, user("old"), counted, user("now")], "Go on.")
    const parts = RequestWindow.split(window, 2)
    const after = RequestWindow.withSummary(window, parts, "S")
    assert.deepStrictEqual(after.base, [
      system,
      user("Summary of the conversation so far:\n\nS"),
      { role: "assistant", content: "x" },
      user("now")
    ])
    assert.isDefined(counted.usage)
    assert.isNull(RequestWindow.faultOf(after))
    assert.isNotNull(RequestWindow.faultOf(RequestWindow.make([calls("1")], "Go on.")))
  })

  it.each([
    ["the quick", "quick fox", 10, 5],
    ["the quick", "quick fox", 4, 0],
    ["abcabc", "abcd", 10, 3],
    ["abc", "xyz", 10, 0],
    ["", "abc", 10, 0],
    ["aa", "aaa", 2, 2],
    ["abc", "abc", 0, 0]
  ])("finds the overlap of %j and %j within %i: %i", (before, after, limit, expected) => {
    assert.strictEqual(RequestWindow.overlapOf(before, after, limit), expected)
  })

  it.effect.prop(
    "never loses or reorders a message when it splits",
    {
      kinds: Schema.Array(Schema.Literals(["user", "calls"])).check(Schema.isMaxLength(12)),
      keep: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 9 }))
    },
    ({ kinds, keep }) =>
      Effect.sync(() => {
        const messages = [
          system,
          ...kinds.flatMap((kind, at) =>
            kind === "user" ? [user(String(at))] : [calls("x", "y"), result("x"), result("y")]
          )
        ]
        const split = splitForCompaction(messages, keep)
        assert.deepStrictEqual([...split.system, ...split.old, ...split.recent], messages)
        assert.isTrue(split.old.length === 0 || split.recent.length >= keep)
        assert.isNull(unpaired(split.recent))
        assert.isNull(unpaired(split.old))
      }),
    { arbitrary: { runs: runs(1_000) } }
  )
})

describe("messages", () => {
  it("lose the parts of another model on the way, never in the history", () => {
    const bound: Message = {
      role: "assistant",
      content: "x",
      reasoning_parts: [
        { model: "a", text: "t", signature: "s" },
        { model: "b", text: "u" }
      ],
      tool_calls: [
        { id: "1", type: "function", function: { name: "f", arguments: "{}" }, provider_meta: { model: "a", k: 1 } }
      ]
    }
    const plain = user("q")
    const [forB, same] = withoutForeign([bound, plain], "b")
    assert.strictEqual(same, plain)
    assert.deepStrictEqual(forB, {
      role: "assistant",
      content: "x",
      reasoning_parts: [{ model: "b", text: "u" }],
      tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: "{}" } }]
    })
    assert.strictEqual(
      withoutForeign([{ ...bound, reasoning_parts: [], tool_calls: [] } as Message], "z")[0]?.role,
      "assistant"
    )
    const [forC] = withoutForeign(
      [{ role: "assistant", content: "x", reasoning_parts: [{ model: "a", text: "t" }] }],
      "c"
    )
    assert.notProperty(forC, "reasoning_parts")
  })

  it("are told by their shape", () => {
    for (const good of [user("a"), calls("1"), result("1"), { role: "user", content: [{ type: "text", text: "a" }] }])
      assert.isTrue(isMessage(good))
    for (const bad of [
      null,
      "x",
      {},
      { role: "king", content: "a" },
      { role: "user" },
      { role: "tool", content: "a" },
      { role: "user", content: 5 }
    ])
      assert.isFalse(isMessage(bad))
    assert.isTrue(isToolSpec({ type: "function", function: { name: "f" } }))
    for (const bad of [
      null,
      {},
      { type: "x", function: { name: "f" } },
      { type: "function", function: null },
      { type: "function", function: {} }
    ])
      assert.isFalse(isToolSpec(bad))
  })

  it("show their text", () => {
    assert.strictEqual(
      textOf({ role: "user", content: [{ type: "text", text: "a" }, { type: "image" }, { type: "text", text: "b" }] }),
      "ab"
    )
    assert.strictEqual(textOf(calls("1")), "")
    assert.strictEqual(textOf({ role: "assistant" }), "")
  })

  it("keep what a reply brought", () => {
    const reply = makeReply({
      text: null,
      refusal: "no",
      toolCalls: [{ id: "1", name: "f", arguments: "{}", providerMeta: { model: "m" } }],
      reasoningParts: [{ model: "m", text: "t" }],
      extra: { audio: 1 }
    })
    assert.deepStrictEqual(toMessage(reply), {
      role: "assistant",
      content: null,
      refusal: "no",
      tool_calls: [
        { id: "1", type: "function", function: { name: "f", arguments: "{}" }, provider_meta: { model: "m" } }
      ],
      reasoning_parts: [{ model: "m", text: "t" }],
      provider_meta: { audio: 1, model: reply.model },
      usage: Usage.unknown
    })
  })
})

describe("the token estimate", () => {
  it("begins at the last known usage and adds what is new", () => {
    const answered: Message = {
      role: "assistant",
      content: "x",
      usage: { ...Usage.unknown, promptTokens: 100, completionTokens: 20 }
    }
    assert.strictEqual(local([user("a".repeat(4_000)), answered, user("12345678")], []), 120 + 4 + 2)
    const unknownUsage: Message = { role: "assistant", content: "x", usage: Usage.unknown }
    assert.strictEqual(local([user("1234"), unknownUsage], []), 5 + 5)
  })

  it("counts tools, calls, thinking and attachments", () => {
    assert.isAbove(
      local([user("a")], [{ type: "function", function: { name: "f", parameters: { type: "object" } } }]),
      local([user("a")], [])
    )
    assert.isAbove(ofMessage(calls("1", "2")), ofMessage(calls("1")))
    assert.isAbove(ofMessage({ role: "user", content: [{ type: "image_url", image_url: {} }] }), 900)
    assert.isBelow(
      ofMessage({ role: "user", content: [{ type: "image_url", image_url: { url: "x".repeat(1_000_000) } }] }),
      2_000
    )
    assert.isAbove(
      ofMessage({ role: "assistant", content: "a", reasoning_parts: [{ model: "m", text: "long thought" }] }),
      ofMessage({ role: "assistant", content: "a" })
    )
    assert.isAbove(ofMessage(user("语".repeat(8))), ofMessage(user("a".repeat(8))))
  })
})

describe("usage", () => {
  const some = { ...Usage.unknown, promptTokens: 3, completionTokens: 4 }
  it("sums what is known and keeps the rest unknown", () => {
    assert.deepStrictEqual(Usage.sum(some, { ...some, cachedTokens: 1 }), {
      ...Usage.unknown,
      promptTokens: 6,
      completionTokens: 8,
      cachedTokens: 1
    })
    assert.deepStrictEqual(Usage.sum(Usage.unknown, some), some)
    assert.isFalse(Usage.isKnown(Usage.unknown))
    assert.isFalse(Usage.isKnown({ ...Usage.unknown, promptTokens: 1 }))
    assert.isTrue(Usage.isKnown(some))
  })
  it("takes a later report over an earlier one", () => {
    assert.deepStrictEqual(Usage.update({ ...some, cachedTokens: 2 }, { ...Usage.unknown, completionTokens: 9 }), {
      ...some,
      cachedTokens: 2,
      completionTokens: 9
    })
  })
})

describe("usage of several requests", () => {
  it("sums what is known: unknown and known is the known part, unknown alone stays unknown", () => {
    const left = { ...Usage.unknown, promptTokens: 5, completionTokens: 7, cachedTokens: 2 }
    const right = { ...Usage.unknown, promptTokens: 3, completionTokens: null, reasoningTokens: 4 }
    assert.deepStrictEqual(Usage.sum(left, right), {
      promptTokens: 8,
      completionTokens: 7,
      cachedTokens: 2,
      cacheWriteTokens: null,
      reasoningTokens: 4
    })
  })
})

describe("parts bound to a model", () => {
  const call = { id: "1", type: "function", function: { name: "f", arguments: "{}" } } as const
  const bound = (model: string) => ({ ...call, provider_meta: { model, signature: "s" } })

  it("leave a call's own data and take away another model's", () => {
    const message: Message = { role: "assistant", content: null, tool_calls: [bound("a"), bound("b"), call] }
    assert.deepStrictEqual(withoutForeign([message], "a"), [{ ...message, tool_calls: [bound("a"), call, call] }])
  })

  it("leave own thinking and take away another model's", () => {
    const own = { model: "a", text: "mine" }
    const message: Message = { role: "assistant", content: "x", reasoning_parts: [own, { model: "b", text: "other" }] }
    assert.deepStrictEqual(withoutForeign([message], "a"), [{ ...message, reasoning_parts: [own] }])
    assert.deepStrictEqual(withoutForeign([message], "c"), [{ role: "assistant", content: "x" }])
  })
})

it("a text part is estimated like the same text, another part as an attachment", () => {
  const text = "x".repeat(400)
  assert.strictEqual(ofMessage({ role: "user", content: [{ type: "text", text }] }), ofMessage(user(text)))
  assert.isAbove(ofMessage({ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }), 500)
})
