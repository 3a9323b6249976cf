/** What is sent of a native request, and how it is measured. */
import { assert, describe, it } from "@effect/vitest"
import type { Message, ToolSpec } from "../../../src/domain/chat/Message.ts"
import { planOf } from "../../../src/domain/recovery/AttemptPlan.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import { initial } from "../../../src/domain/recovery/RecoveryState.ts"
import { chatNative } from "../../../src/domain/wires/native/chatNative.ts"
import { makeReply } from "../../../src/layers/ScriptedModel.ts"
import { NativeWindow } from "../../../src/programs/request/NativeWindow.ts"

const tools = [{ type: "function", function: { name: "look", parameters: { type: "object" } } }]
const messages = [
  { role: "system", content: "rules" },
  { role: "user", content: "a" },
  { role: "assistant", content: "b" },
  { role: "user", content: "c" },
  { role: "assistant", content: "d" },
  { role: "user", content: "e" }
]

const policy = new RecoveryPolicy({ ...RecoveryPolicy.broad, routes: [{ model: "m" }] })
const start = { now: 0, deadline: null, route: 0, callerCap: null, streaming: false, background: false }
const plan = (maxOutputTokens: number | null) => ({
  ...planOf(policy, initial(policy, start), 1, null),
  maxOutputTokens
})

const windowOf = (
  fields: object = {},
  estimate?: (all: ReadonlyArray<Message>, of: ReadonlyArray<ToolSpec>) => number
) => {
  const body = { model: "m", messages, ...fields }
  const text = JSON.stringify(body)
  const view = chatNative.view(body, text)
  if (view === null) return assert.fail("is a request of chat")
  const measured: Array<ReadonlyArray<Message>> = []
  const window = new NativeWindow({
    wire: chatNative,
    view,
    text,
    continuationPrompt: "go on",
    isHome: () => true,
    estimate: (all, of) => {
      measured.push(all)
      return estimate === undefined ? all.length * 10 + of.length : estimate(all, of)
    }
  })
  return { window, text, measured }
}

const contents = (all: ReadonlyArray<Message> | undefined) => (all ?? []).map(({ content }) => content)

describe("the window of a native request", () => {
  it("is the caller's own text as long as nothing has to be different", () => {
    const { window, text } = windowOf({ max_tokens: 50 })
    assert.strictEqual(window.textFor(plan(50), false), text)
    assert.strictEqual(window.textFor(plan(null), false), text)
    assert.strictEqual(window.textFor(plan(900), false), text)
  })

  it("sends another budget when it was raised, or when the route takes less than the caller's", () => {
    const sent = (budget: number | null, isRaised: boolean, fields: object = { max_tokens: 50 }) =>
      (JSON.parse(windowOf(fields).window.textFor(plan(budget), isRaised)) as { max_tokens?: number }).max_tokens
    assert.strictEqual(sent(900, true), 900)
    assert.strictEqual(sent(49, false), 49)
    assert.isUndefined(sent(49, false, {}))
  })

  it("is measured with its tools, once as long as it stays the same", () => {
    const { window, measured } = windowOf({ tools })
    assert.deepStrictEqual([window.promptTokens(), window.promptTokens(), measured.length], [61, 61, 1])
    window.keep("half", null)
    assert.strictEqual(window.promptTokens(), 81)
    assert.deepStrictEqual(contents(measured.at(-1)).slice(-2), ["half", "go on"])
    assert.strictEqual(window.messageCount, 8)
  })

  it("has whole tokens, and never less than none", () => {
    assert.strictEqual(windowOf({}, () => 1.2).window.promptTokens(), 2)
    assert.strictEqual(windowOf({}, () => -5).window.promptTokens(), 0)
  })

  it("has an old part between its rules and what is recent, which a summary takes the place of", () => {
    const { window, measured } = windowOf()
    const old = window.old(2)
    assert.deepStrictEqual(contents(old?.messages), ["a", "b", "c"])
    window.promptTokens()
    window.compact("in short", old?.until ?? 0)
    assert.strictEqual(window.promptTokens(), 40)
    const now = contents(measured.at(-1))
    assert.deepStrictEqual([now[0], now[2], now[3]], ["rules", "d", "e"])
    assert.include(String(now[1]), "in short")
    assert.isNull(window.old(9))
  })

  it("has no usage to repair before an attempt has gone on from a fragment", () => {
    assert.isNull(windowOf().window.usage)
  })

  it("counts what the fragments have cost by what was reported, and by an estimate where nothing was", () => {
    const { window, measured } = windowOf({ tools })
    const reply = makeReply({ text: "half" })
    window.keep("half", { ...reply, usage: { ...reply.usage, promptTokens: 7, completionTokens: 3 } })
    assert.deepStrictEqual(window.usage, {
      promptTokens: 7,
      addedPromptTokens: 20,
      estimatedPromptTokens: 61,
      earlierOutputTokens: 3
    })
    window.keep("more", null)
    assert.deepStrictEqual(measured.at(-1), [{ role: "assistant", content: "more" }])
    assert.deepStrictEqual(window.usage, {
      promptTokens: 7,
      addedPromptTokens: 40,
      estimatedPromptTokens: 61,
      earlierOutputTokens: 13
    })
  })

  it("knows the caller's prompt from the first fragment alone", () => {
    const { window } = windowOf()
    const reply = makeReply({ text: "half" })
    window.keep("half", null)
    window.keep("more", { ...reply, usage: { ...reply.usage, promptTokens: 99, completionTokens: 3 } })
    assert.isNull(window.usage?.promptTokens)
  })
})
