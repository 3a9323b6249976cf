import { assert, describe, it } from "@effect/vitest"
import type { ContentPart, Message } from "../../../src/domain/chat/Message.ts"
import { given, toMessage } from "../../../src/domain/agent/ToolResult.ts"
import { toolContent } from "../../../src/domain/agent/ToolContent.ts"
import { anthropic } from "../../../src/domain/provider/profiles/anthropic.ts"
import { generic } from "../../../src/domain/provider/profiles/generic.ts"
import * as anthropicWire from "../../../src/domain/wires/anthropicWire.ts"
import * as openAiWire from "../../../src/domain/wires/openAiWire.ts"
import * as responsesWire from "../../../src/domain/wires/responsesWire.ts"

const url = "data:image/png;base64,iVBORw0KGgo="
const picture: ContentPart = { type: "image_url", image_url: { url } }
const words: ContentPart = { type: "text", text: "a chart" }

const calls = (...ids: ReadonlyArray<string>): Message => ({
  role: "assistant",
  content: null,
  tool_calls: ids.map((id) => ({ id, type: "function", function: { name: "look", arguments: "{}" } }))
})

const result = (id: string, value: unknown): Message => toMessage({ id }, given(value))

const request = (messages: ReadonlyArray<Message>) => ({
  messages,
  model: "m",
  maxOutputTokens: 8,
  role: "main" as const
})

const chat = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> =>
  openAiWire.toBody(request(messages), generic, "max_tokens", false)["messages"] as ReadonlyArray<Message>

describe("a tool result with a picture", () => {
  const asked: Message = { role: "user", content: "look" }
  const history: ReadonlyArray<Message> = [
    asked,
    calls("a", "b"),
    result("a", toolContent([words, picture])),
    result("b", "plain")
  ]

  it("goes as text and a user message behind all results on the chat wire", () => {
    const sent = chat(history)
    assert.deepStrictEqual(
      sent.map((message) => message.role),
      ["user", "assistant", "tool", "tool", "user"]
    )
    assert.deepStrictEqual(sent[2]?.content, [words])
    assert.strictEqual(sent[3]?.content, "plain")
    assert.deepStrictEqual(sent[4]?.content, [{ type: "text", text: "From the result of a:" }, picture])
  })
  it("stands behind the results of its own reply, also in mid history", () => {
    const sent = chat([...history, calls("c"), result("c", toolContent([picture])), { role: "user", content: "and?" }])
    assert.deepStrictEqual(
      sent.map((message) => message.role),
      ["user", "assistant", "tool", "tool", "user", "assistant", "tool", "user", "user"]
    )
    assert.strictEqual(sent[6]?.content, "The result follows below.")
  })
  it("changes neither the history nor results of text parts", () => {
    const frozen = Object.freeze([asked, calls("a"), result("a", toolContent([words, words]))])
    assert.deepStrictEqual(chat(frozen)[2]?.content, [words, words])
    assert.lengthOf(chat(frozen), 3)
  })
  it("is one block list in the result on the messages wire", () => {
    const body = anthropicWire.toBody(request(history), anthropic, null, false)
    assert.deepInclude(JSON.parse(JSON.stringify(body["messages"]))[2].content[0], {
      type: "tool_result",
      tool_use_id: "a",
      content: [words, { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0KGgo=" } }]
    })
  })
  it("is the output of its call on the responses wire", () => {
    const body = responsesWire.toBody(request(history), generic, false)
    const output = (body["input"] as ReadonlyArray<{ readonly output?: unknown }>)[3]?.output
    assert.deepStrictEqual(output, [
      { type: "input_text", text: "a chart" },
      { type: "input_image", detail: "auto", image_url: url }
    ])
  })
})

describe("the content of a tool", () => {
  it("is told in words, two pictures in two words", () => {
    const other = { ...picture, image_url: { url: `${url}A` } }
    const [one, two] = [given(toolContent([words, picture])), given(toolContent([words, other]))]
    assert.match(one.content, /^a chart\n\[image_url [0-9a-f]+\]$/)
    assert.notStrictEqual(one.content, two.content)
    assert.deepStrictEqual(one.parts, [words, picture])
  })
  it.each([
    ["no part", []],
    ["no list", "a text"],
    ["a part without type", [{ text: "a" }]],
    ["a cycle", [Object.assign({ type: "text" }, { self: null })].map((part) => Object.assign(part, { self: part }))],
    ["too much", [{ type: "image_url", image_url: { url: "x".repeat(20_000_001) } }]]
  ])("is a failure the model reads when it is %s", (_name, parts) => {
    const found = given(toolContent(parts as ReadonlyArray<ContentPart>))
    assert.strictEqual(found.kind, "failed")
    assert.strictEqual(found.errorTag, "NoText")
    assert.isUndefined(found.parts)
  })
})

describe("an answer by a schema on the messages wire", () => {
  const schema = { type: "object", properties: { a: { type: "number" } }, required: ["a"] }
  const formOf = (params: Readonly<Record<string, unknown>>) =>
    anthropicWire.toBody({ ...request([{ role: "user", content: "x" }]), params }, anthropic, null, false)

  it("is asked for in that wire's words, beside what stands there", () => {
    const body = formOf({
      response_format: { type: "json_schema", json_schema: { name: "n", schema, strict: true } },
      output_config: { effort: "low" }
    })
    assert.deepStrictEqual(body["output_config"], { effort: "low", format: { type: "json_schema", schema } })
    assert.notProperty(body, "response_format")
  })
  it("is not asked for by a form of plain text", () => {
    const body = formOf({ response_format: { type: "text" } })
    assert.notProperty(body, "response_format")
    assert.notProperty(body, "output_config")
  })
  it("goes as it is in a form that wire has no word for", () => {
    assert.deepStrictEqual(formOf({ response_format: { type: "json_object" } })["response_format"], {
      type: "json_object"
    })
  })
})
