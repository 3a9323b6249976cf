import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Message } from "../../src/domain/chat/Message.ts"
import type { WireRequest } from "../../src/domain/chat/ModelRequest.ts"
import * as Usage from "../../src/domain/chat/Usage.ts"
import * as ModelSummarizer from "../../src/layers/ModelSummarizer.ts"
import * as ScriptedModel from "../../src/layers/ScriptedModel.ts"
import type { Book } from "../../src/services/Summarizer.ts"

const usage: Usage.Usage = { ...Usage.unknown, promptTokens: 100, completionTokens: 7 }
const limits = { maxInputTokens: 1_000, maxOutputTokens: 321 }
const tooLong: ScriptedModel.Step = { fail: { kind: "prompt_too_long", status: 400, code: "context_length_exceeded" } }

const inputOf = (request: WireRequest | undefined): string => {
  const content = request?.messages.at(-1)?.content
  return typeof content === "string" ? content : ""
}

const summarize = (
  steps: ReadonlyArray<ScriptedModel.Step>,
  messages: ReadonlyArray<Message>,
  input: Partial<typeof limits & { readonly book: Book }> = {}
) => {
  const model = ScriptedModel.make(steps)
  const summarizer = ModelSummarizer.make(model.client, { model: "small" })
  return { model, run: summarizer.summarize({ messages, ...limits, ...input }) }
}

/** A message of about `tokens` tokens that carries its name. */
const long = (name: string, tokens: number): Message => ({
  role: "user",
  content: `${name} ${"word".repeat(tokens)} ${name}`
})

describe("a summary", () => {
  it.effect("is one request of the summarizer's own role, model and output budget", () =>
    Effect.gen(function* () {
      const { model, run } = summarize(
        [{ reply: { text: "short", usage } }],
        [
          { role: "user", content: "read it" },
          {
            role: "assistant",
            content: "I will",
            tool_calls: [{ id: "c1", type: "function", function: { name: "read", arguments: '{"path":"a.txt"}' } }]
          },
          { role: "tool", tool_call_id: "c1", content: "what is in it" }
        ]
      )
      assert.deepStrictEqual(yield* run, { text: "short", usage })
      const [request] = model.requests
      assert.strictEqual(model.requests.length, 1)
      assert.deepStrictEqual([request?.role, request?.model, request?.maxOutputTokens], ["summarizer", "small", 321])
      // Calls and results become text: there is nothing left to pair, and no tool to call.
      assert.deepStrictEqual(
        request?.messages.map((message) => message.role),
        ["system", "user"]
      )
      assert.isUndefined(request?.tools)
      for (const word of ["read it", "I will", "read(", "a.txt", "c1: what is in it"])
        assert.include(inputOf(request), word)
    })
  )

  it.effect("folds what does not fit into one request, each with the summary so far, and adds the usage up", () =>
    Effect.gen(function* () {
      const { model, run } = summarize(
        ["first", "second", "third"].map((text) => ({ reply: { text, usage } })),
        [long("alpha", 600), long("beta", 600), long("gamma", 600)]
      )
      assert.deepStrictEqual(yield* run, {
        text: "third",
        usage: { ...Usage.unknown, promptTokens: 300, completionTokens: 21 }
      })
      const inputs = model.requests.map(inputOf)
      assert.deepStrictEqual(
        inputs.map((input) => ["alpha", "beta", "gamma", "first", "second"].filter((word) => input.includes(word))),
        [["alpha"], ["beta", "first"], ["gamma", "second"]]
      )
    })
  )

  it.effect("keeps a call and its result in one window", () =>
    Effect.gen(function* () {
      const { model, run } = summarize(
        ["first", "second"].map((text) => ({ reply: { text } })),
        [
          long("alpha", 900),
          {
            role: "assistant",
            content: null,
            tool_calls: [{ id: "c1", type: "function", function: { name: "look", arguments: "{}" } }]
          },
          { role: "tool", tool_call_id: "c1", content: "a view ".repeat(100) }
        ]
      )
      yield* run
      const [first, second] = model.requests.map(inputOf)
      assert.notInclude(first, "look(")
      assert.include(second, "look(")
      assert.include(second, "a view")
    })
  )

  it.effect("keeps beginning and end of a message that no window holds", () =>
    Effect.gen(function* () {
      const { model, run } = summarize([{ reply: { text: "short" } }], [long("alpha", 5_000)])
      yield* run
      const input = inputOf(model.requests[0])
      assert.isAtMost(input.length, 4_000)
      assert.match(input, /alpha .* \[\.\.\.\] .* alpha$/)
    })
  )

  it.effect("halves its windows when the provider finds them too long, three times at most", () =>
    Effect.gen(function* () {
      const messages = [long("alpha", 300), long("beta", 300)]
      const halved = summarize([tooLong, { reply: { text: "first" } }, { reply: { text: "second" } }], messages)
      assert.strictEqual((yield* halved.run).text, "second")
      assert.isBelow(inputOf(halved.model.requests[1]).length, inputOf(halved.model.requests[0]).length)

      const never = summarize(
        Array.from({ length: 9 }, () => tooLong),
        messages
      )
      const failure = yield* Effect.flip(never.run)
      assert.strictEqual(failure._tag, "ModelPromptTooLongError")
      assert.strictEqual(never.model.requests.length, 4)
    })
  )

  it.effect.each([
    { flaw: "summary_truncated", reply: { text: "half a", finishReason: "length" } },
    { flaw: "summary_truncated", reply: { text: "half a", finishReason: "window_full" } },
    { flaw: "summary_refused", reply: { text: null, refusal: "no" } },
    { flaw: "summary_filtered", reply: { text: "some", finishReason: "content_filter" } },
    { flaw: "summary_empty", reply: { text: " \n" } },
    { flaw: "summary_empty", reply: { text: null } }
  ] as const)("that is flawed fails as $flaw", ({ flaw, reply }) =>
    Effect.gen(function* () {
      const failure = yield* Effect.flip(summarize([{ reply }], [long("alpha", 10)]).run)
      assert.isTrue(failure._tag === "OpenAIResponseError" && failure.code === flaw)
    })
  )

  it.effect("never retries by itself", () =>
    Effect.gen(function* () {
      const { model, run } = summarize([{ fail: { kind: "overloaded", status: 529 } }], [long("alpha", 10)])
      assert.strictEqual((yield* Effect.flip(run))._tag, "ModelOverloadedError")
      assert.strictEqual(model.requests.length, 1)
    })
  )

  it.effect("has every request booked", () =>
    Effect.gen(function* () {
      const roles: Array<string> = []
      const book: Book = (request, call) => {
        roles.push(request.role)
        return call
      }
      const { run } = summarize(
        ["first", "second"].map((text) => ({ reply: { text } })),
        [long("alpha", 600), long("beta", 600)],
        { book }
      )
      yield* run
      assert.deepStrictEqual(roles, ["summarizer", "summarizer"])
    })
  )
})
