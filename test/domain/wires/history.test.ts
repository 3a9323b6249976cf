import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Message } from "../../../src/domain/chat/Message.ts"
import { toMessage } from "../../../src/domain/chat/ModelReply.ts"
import type { WireRequest } from "../../../src/domain/chat/ModelRequest.ts"
import { unpaired } from "../../../src/domain/chat/MessageGroups.ts"
import type { ProviderProfile } from "../../../src/domain/provider/ProviderProfile.ts"
import { profiles } from "../../../src/domain/provider/Profiles.ts"
import { anthropic } from "../../../src/domain/provider/profiles/anthropic.ts"
import { deepseek } from "../../../src/domain/provider/profiles/deepseek.ts"
import { gemini } from "../../../src/domain/provider/profiles/gemini.ts"
import { generic } from "../../../src/domain/provider/profiles/generic.ts"
import { groq } from "../../../src/domain/provider/profiles/groq.ts"
import { mistral } from "../../../src/domain/provider/profiles/mistral.ts"
import { moonshot } from "../../../src/domain/provider/profiles/moonshot.ts"
import { openai } from "../../../src/domain/provider/profiles/openai.ts"
import { openrouter } from "../../../src/domain/provider/profiles/openrouter.ts"
import * as anthropicWire from "../../../src/domain/wires/anthropicWire.ts"
import * as responsesWire from "../../../src/domain/wires/responsesWire.ts"
import { fit, ownNames } from "../../../src/domain/wires/history.ts"
import { readBody, toBody } from "../../../src/domain/wires/openAiWire.ts"
import { runs } from "../../support/runs.ts"

const requestOf = (messages: ReadonlyArray<Message>, more: Partial<WireRequest> = {}): WireRequest => ({
  messages,
  model: "m",
  maxOutputTokens: 8,
  role: "main",
  ...more
})

const called = (id: string, name = "read", args = "{}", more: object = {}): Message => ({
  role: "assistant",
  content: null,
  tool_calls: [{ id, type: "function", function: { name, arguments: args } }],
  ...more
})

const result = (id: string): Message => ({ role: "tool", tool_call_id: id, content: "ok" })

const sent = (profile: ProviderProfile, messages: ReadonlyArray<Message>, more: Partial<WireRequest> = {}): string =>
  JSON.stringify(toBody(requestOf(messages, more), profile, "max_tokens", false)["messages"])

const idsOf = (profile: ProviderProfile, messages: ReadonlyArray<Message>): ReadonlyArray<string> =>
  fit(requestOf(messages), profile).messages.flatMap((message) =>
    message.role === "assistant" ? (message.tool_calls ?? []).map((call) => call.id) : []
  )

describe("ids of calls", () => {
  it.each<readonly [string, ProviderProfile, RegExp]>([
    ["functions.read:0", anthropic, /^[\w-]{1,64}$/],
    ["c1", mistral, /^[A-Za-z0-9]{9}$/],
    ["x".repeat(90), openai, /^[\w-]{1,40}$/],
    ["", anthropic, /^[\w-]{1,64}$/],
    ["ümlaut id", anthropic, /^[\w-]{1,64}$/]
  ])("%j is spelled as the provider takes it, the same each time", (id, profile, shape) => {
    const history = [called(id), result(id)]
    const [wire = ""] = idsOf(profile, history)
    assert.match(wire, shape)
    assert.deepStrictEqual(idsOf(profile, [...history, { role: "user", content: "on" }]), [wire])
    assert.isNull(unpaired(fit(requestOf(history), profile).messages))
  })

  it("that come again in a later step are another call's", () => {
    const history = [called("call_0"), result("call_0"), called("call_0"), result("call_0")]
    const fitted = fit(requestOf(history), anthropic).messages
    assert.strictEqual(new Set(idsOf(anthropic, history)).size, 2)
    assert.isNull(unpaired(fitted))
  })

  it("that fit stay as they are", () => {
    assert.deepStrictEqual(idsOf(openai, [called("call_abc"), result("call_abc")]), ["call_abc"])
  })
})

describe("names of tools", () => {
  const tools = [{ type: "function", function: { name: "fs.read" } }] as const

  it("are mapped both ways where the provider has a spelling", () => {
    const request = requestOf([called("c1", "browser.tabs.open"), result("c1")], { tools })
    const body = toBody(
      { ...request, params: { tool_choice: { type: "function", function: { name: "fs.read" } } } },
      openai,
      "max_tokens",
      false
    )
    assert.notInclude(JSON.stringify(body), "fs.read")
    assert.notInclude(JSON.stringify(body), "browser.tabs.open")
    assert.include(JSON.stringify(body["tool_choice"]), "fs_read")
    assert.deepStrictEqual(["fs_read", "browser_tabs_open", "other"].map(ownNames(request, openai)), [
      "fs.read",
      "browser.tabs.open",
      "other"
    ])
  })

  it("are taken as offered by servers without one, invented ones as words", () => {
    const body = JSON.stringify(
      toBody(requestOf([called("c1", "browser.tabs.open"), result("c1")], { tools }), generic, "max_tokens", false)
    )
    assert.include(body, "fs.read")
    assert.notInclude(body, "browser.tabs.open")
  })

  it("never meet on the wire", () => {
    const both = [
      { type: "function", function: { name: "a.b" } },
      { type: "function", function: { name: "a_b" } }
    ] as const
    const names = fit(requestOf([], { tools: both }), openai).tools.map((tool) => tool.function.name)
    assert.strictEqual(new Set(names).size, 2)
    assert.strictEqual(names[1], "a_b")
  })

  it("of a reply are the caller's own", () => {
    const request = requestOf([], { tools })
    const context = { profile: openai, model: "m", requestId: null, ownName: ownNames(request, openai) }
    const call = { id: "c", type: "function", function: { name: "fs_read", arguments: "{}" } }
    const read = readBody(
      context,
      JSON.stringify({
        choices: [{ finish_reason: "tool_calls", message: { role: "assistant", content: null, tool_calls: [call] } }]
      }),
      {}
    )
    assert.strictEqual(Result.isSuccess(read) ? read.success.toolCalls[0]?.name : null, "fs.read")
  })
})

describe("what a history holds", () => {
  it.each(["", "  ", '{"path":', "null", "[1]", '"a"', "path=a"])("arguments of %j travel as an object", (args) => {
    for (const profile of profiles) {
      const [call] = fit(requestOf([called("c1", "read", args), result("c1")]), profile).messages
      assert.strictEqual(call?.role === "assistant" ? call.tool_calls?.[0]?.function.arguments : null, "{}")
    }
  })

  it("is well-formed text, wherever a half of an emoji stands", () => {
    const half = "\ud83d"
    const messages: ReadonlyArray<Message> = [
      { role: "user", content: [{ type: "text", text: `a${half}` }] },
      called("c1", "read", `{"p":"${half}"}`),
      { role: "tool", tool_call_id: "c1", content: `cut ${half}` }
    ]
    assert.notMatch(sent(openai, messages), /\\ud83d/)
    assert.notMatch(
      JSON.stringify(
        anthropicWire.toBody(requestOf(messages, { params: { metadata: { user: half } } }), anthropic, null, false)
      ),
      /\\ud83d/
    )
  })

  it("leaves empty turns behind", () => {
    const messages: ReadonlyArray<Message> = [
      { role: "user", content: "a" },
      { role: "assistant", content: "" },
      { role: "user", content: " \n" },
      { role: "user", content: "b" }
    ]
    assert.strictEqual(sent(openai, messages), '[{"role":"user","content":"a"},{"role":"user","content":"b"}]')
  })
})

describe("what belongs to a model", () => {
  const replied = (profile: ProviderProfile, message: object): Message => {
    const call = {
      id: "c1",
      type: "function",
      function: { name: "read", arguments: "{}" },
      extra_content: { google: { thought_signature: "SIG" } }
    }
    const read = readBody(
      { profile, model: "m", requestId: null },
      JSON.stringify({
        choices: [
          { finish_reason: "tool_calls", message: { role: "assistant", content: null, tool_calls: [call], ...message } }
        ]
      }),
      {}
    )
    if (Result.isFailure(read)) throw new Error(JSON.stringify(read.failure))
    return toMessage(read.success)
  }
  const fields = {
    reasoning_content: "THOUGHTS",
    reasoning_details: [{ type: "reasoning.encrypted", data: "SEALED" }],
    annotations: [{ type: "NOTE" }],
    executed_tools: ["RAN"]
  }

  it.each<readonly [string, ProviderProfile, ReadonlyArray<string>]>([
    ["deepseek", deepseek, ["THOUGHTS", "SIG"]],
    ["openrouter", openrouter, ["SEALED", "SIG"]],
    ["gemini", gemini, ["SIG"]],
    ["groq", groq, []],
    ["openai", openai, []],
    ["generic", generic, ["SIG"]]
  ])("goes back to it as %s wants it, and to no other", (_, profile, expected) => {
    const history = [replied(profile, fields), result("c1")]
    const all = ["THOUGHTS", "SEALED", "NOTE", "RAN", "SIG"]
    assert.deepStrictEqual(
      all.filter((word) => sent(profile, history).includes(word)),
      all.filter((word) => expected.includes(word))
    )
    assert.deepStrictEqual(
      all.filter((word) => sent(profile, history, { model: "other" }).includes(word)),
      []
    )
    assert.deepStrictEqual(all.filter((word) => JSON.stringify(history).includes(word)).length >= 4, true)
  })
})

/** Ids, names, texts and arguments of every origin, good and bad. */
const Step = Schema.Struct({
  kind: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 4 })),
  id: Schema.String.check(Schema.isMaxLength(12)),
  odd: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 7 })),
  text: Schema.String.check(Schema.isMaxLength(8)),
  count: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 3 }))
})
const oddities = ["", "functions.read:0", "call_0", " ", "\ud83d", "a".repeat(80), '{"x":', "ü.ö"]
const at = <A>(list: ReadonlyArray<A>, index: number): A | undefined => list[index % list.length]

const messagesOf = (step: typeof Step.Type): ReadonlyArray<Message> => {
  const odd = at(oddities, step.odd) ?? ""
  switch (step.kind) {
    case 0:
      return [{ role: "user", content: step.text + odd }]
    case 1:
      return [{ role: "assistant", content: odd }]
    case 2:
      return [{ role: "user", content: [{ type: "text", text: odd }] }]
    default: {
      const calls = Array.from({ length: step.count }, (_, index) => ({
        id: `${step.id}${odd}${index === 0 ? "" : index}`,
        type: "function" as const,
        function: {
          name: `${step.text}${odd}` || "x",
          arguments: step.kind === 3 ? odd : `{"a":"${"x".repeat(index)}"}`
        },
        provider_meta: { model: step.odd > 3 ? "m" : "n", extra_content: { seal: "S" } }
      }))
      return [
        { role: "assistant", content: step.text, tool_calls: calls },
        ...calls.map((call): Message => ({ role: "tool", tool_call_id: call.id, content: odd }))
      ]
    }
  }
}

describe("a fallback into the middle of a tool loop", () => {
  const loop = (meta: object = {}): ReadonlyArray<Message> => [
    { role: "user", content: "go" },
    {
      role: "assistant",
      content: null,
      tool_calls: ["a", "b"].map((id, at) => ({
        id,
        type: "function" as const,
        function: { name: `read_${id}`, arguments: "{}" },
        ...(at === 0 ? meta : {})
      }))
    },
    result("a"),
    result("b")
  ]
  const dummy = '"extra_content":{"google":{"thought_signature":"skip_thought_signature_validator"}}'
  const signed = (model: string) => ({
    provider_meta: { model, extra_content: { google: { thought_signature: "own" } } }
  })

  it.each<readonly [string, string, object, number]>([
    ["that came without one", "gemini-3-pro-preview", {}, 1],
    ["of another model", "models/gemini-3.1-flash", signed("kimi-k2.5"), 1],
    ["of its own", "gemini-3-pro-preview", signed("gemini-3-pro-preview"), 0],
    ["that an older model never looks at", "gemini-2.5-pro", {}, 0]
  ])("gives Gemini one signature that stands for none, for calls %s", (_, model, meta, count) => {
    assert.strictEqual(sent(gemini, loop(meta), { model }).split(dummy).length - 1, count)
  })

  it.each([deepseek, moonshot])("gives $name words in place of thoughts, beside calls alone", (profile) => {
    const text = sent(profile, [...loop(), { role: "assistant", content: "done" }, { role: "user", content: "on" }])
    assert.strictEqual(text.split('"reasoning_content":"Next: read_a, read_b."').length - 1, 1)
    assert.strictEqual(text.split("reasoning_content").length - 1, 1)
  })

  it.each<readonly [string, object, string]>([
    ["thoughts of its own as they were", { provider_meta: { model: "m", reasoning_content: "hm" } }, "hm"],
    ["no thoughts of another model", { provider_meta: { model: "n", reasoning_content: "hm" } }, "Next: read."],
    ["no empty thoughts", { provider_meta: { model: "m", reasoning_content: "" } }, "Next: read."]
  ])("gives %s", (_, meta, thoughts) => {
    const history = [called("c", "read", "{}", meta), result("c")]
    assert.include(sent(deepseek, history), `"reasoning_content":"${thoughts}"`)
  })

  it.each([openai, generic, groq, mistral, openrouter])("adds nothing for $name", (profile) => {
    assert.notMatch(sent(profile, loop()), /reasoning_content|extra_content/)
  })
})

describe("a history on the responses wire", () => {
  const itemsOf = (messages: ReadonlyArray<Message>, more: Partial<WireRequest> = {}) =>
    responsesWire.toBody(requestOf(messages, more), openai, false)["input"] as ReadonlyArray<Record<string, string>>

  it.each<readonly [string, string, string]>([
    ["an id of another provider", "functions.read:0", "{}"],
    ["an id that is too long", "x".repeat(90), "{}"],
    ["no id", "", "{}"],
    ["arguments that are empty", "c", ""],
    ["arguments that are no JSON", "c", '{"a'],
    ["arguments that are a list", "c", "[1]"]
  ])("with %s is one this API takes", (_, id, args) => {
    const [call, answer] = itemsOf([called(id, "read", args), result(id)])
    assert.match(call?.["call_id"] ?? "", /^[\w-]{1,64}$/)
    assert.strictEqual(answer?.["call_id"], call?.["call_id"])
    assert.strictEqual(call?.["arguments"], "{}")
  })

  it("spells an invented name as a word, and reads it back", () => {
    const history = [called("c", "read file!"), result("c")]
    const wire = itemsOf(history)[0]?.["name"] ?? ""
    assert.match(wire, /^[\w-]+$/)
    assert.strictEqual(ownNames(requestOf(history), openai)(wire), "read file!")
  })

  it("chooses a tool by the name it has on the wire", () => {
    const tools = [{ type: "function", function: { name: "read.file" } }] as const
    const body = responsesWire.toBody(
      requestOf([{ role: "user", content: "go" }], {
        tools,
        params: { tool_choice: { type: "function", function: { name: "read.file" } } }
      }),
      { ...openai, toolNames: { alphabet: "word", minLength: 1, maxLength: 64 } },
      false
    )
    assert.deepStrictEqual(body["tool_choice"], { type: "function", name: "read_file" })
    assert.deepStrictEqual(body["tools"], [{ type: "function", name: "read_file" }])
  })

  it("leaves empty turns and white texts behind", () => {
    assert.deepStrictEqual(
      itemsOf([
        { role: "user", content: "go" },
        { role: "assistant", content: " \n" },
        { role: "user", content: "" },
        { role: "user", content: "on" }
      ]).map((item) => item["content"]),
      ["go", "on"]
    )
  })

  it("keeps a custom call's text as it is, whatever it says", () => {
    const custom: Message = {
      role: "assistant",
      content: null,
      tool_calls: [
        {
          id: "c",
          type: "function",
          function: { name: "patch", arguments: "*** Begin" },
          provider_meta: { model: "m", custom: true }
        }
      ]
    }
    assert.deepStrictEqual(itemsOf([custom, result("c")]), [
      { type: "custom_tool_call", call_id: "c", name: "patch", input: "*** Begin" },
      { type: "custom_tool_call_output", call_id: "c", output: "ok" }
    ])
    // A wire without such tools, and another model, get it as a field of a plain call.
    const asField = JSON.stringify({ arguments: JSON.stringify({ input: "*** Begin" }) }).slice(1, -1)
    assert.include(sent(openai, [custom, result("c")]), asField)
    const others = {
      ...custom,
      tool_calls: [{ ...custom.tool_calls![0]!, provider_meta: { model: "o", custom: true } }]
    }
    assert.include(sent(openai, [others, result("c")]), asField)
    assert.include(JSON.stringify(itemsOf([others, result("c")])), asField)
    assert.include(JSON.stringify(custom), '"arguments":"*** Begin"')
  })
})

it("thinking that one wire sealed stays behind on the chat wire, also for the same model", () => {
  const thought: Message = {
    role: "assistant",
    content: "so",
    reasoning_parts: [{ model: "m", text: "secret", item: { type: "reasoning", encrypted_content: "sealed" } }]
  }
  assert.notMatch(sent(openai, [thought]), /secret|sealed|reasoning_parts/)
})

describe("any history", () => {
  it.effect.prop(
    "goes out whole, paired and well-formed to every provider",
    {
      steps: Schema.Array(Step).check(Schema.isMaxLength(8)),
      at: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000 }))
    },
    ({ steps, at: chosen }) =>
      Effect.sync(() => {
        const request = requestOf([{ role: "user", content: "go" }, ...steps.flatMap(messagesOf)])
        const before = JSON.stringify(request)
        const profile = at(profiles, chosen) ?? generic
        const { messages } = fit(request, profile)
        assert.isNull(unpaired(messages))
        const text = JSON.stringify(toBody(request, profile, "max_tokens", false))
        const other = JSON.stringify(anthropicWire.toBody(request, anthropic, null, false))
        const items = JSON.stringify(responsesWire.toBody(request, openai, false))
        for (const body of [text, other, items]) assert.notMatch(body, /\\ud[89a-f][0-9a-f]{2}/i)
        const ids = messages.flatMap((message) => (message.role === "assistant" ? (message.tool_calls ?? []) : []))
        assert.strictEqual(new Set(ids.map((call) => call.id)).size, ids.length)
        for (const call of ids) {
          assert.strictEqual(typeof JSON.parse(call.function.arguments), "object")
          if (profile.toolNames !== null) assert.match(call.function.name, /^[\w-]{1,128}$/)
        }
        for (const block of JSON.parse(other).messages.flatMap(
          (turn: { content: ReadonlyArray<{ type: string; text?: string; id?: string }> }) => turn.content
        )) {
          if (block.type === "text") assert.notStrictEqual(block.text.trim(), "")
          if (block.type === "tool_use") assert.match(block.id, /^[\w-]+$/)
        }
        const idsOf = (type: RegExp) =>
          JSON.parse(items).input.flatMap((item: { type?: string; call_id?: string }) =>
            type.test(item.type ?? "") ? [item.call_id] : []
          )
        assert.deepStrictEqual(idsOf(/_call$/), idsOf(/_call_output$/))
        assert.strictEqual(JSON.stringify(request), before)
      }),
    { arbitrary: { runs: runs(20_000) } }
  )
})
