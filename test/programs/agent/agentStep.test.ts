import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import type { AgentEvent } from "../../../src/domain/agent/AgentEvent.ts"
import { isAgentError, type AgentError } from "../../../src/domain/failure/AgentError.ts"
import type { ContentPart, Message } from "../../../src/domain/chat/Message.ts"
import type { ReplyPart } from "../../../src/domain/chat/ReplyPart.ts"
import { notBegun, type Standing } from "../../../src/domain/failure/RecoveryError.ts"
import type { Trail } from "../../../src/domain/failure/Trail.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import * as ModelSummarizer from "../../../src/layers/ModelSummarizer.ts"
import * as BudgetMemory from "../../../src/layers/stores/BudgetMemory.ts"
import * as ToolboxLive from "../../../src/layers/ToolboxLive.ts"
import * as ConversationMemory from "../../../src/programs/agent/ConversationMemory.ts"
import { makePreparation } from "../../../src/programs/agent/prepareHistory.ts"
import { rawExecutor } from "../../../src/programs/agent/rawExecutor.ts"
import { AgentHooks, HistoryPreparation } from "../../../src/services/AgentHooks.ts"
import { BudgetLedger } from "../../../src/services/BudgetLedger.ts"
import type { Conversation } from "../../../src/services/Conversation.ts"
import type { ModelRequestExecutor } from "../../../src/services/Recovery.ts"
import { RequestWatch } from "../../../src/services/RequestWatch.ts"
import { asks, call, drive, echo, errorOf, executorOf, runWith, says } from "../../support/agentRuns.ts"

const tool = (name: string, run: Effect.Effect<string, unknown>, options: ToolboxLive.RunOptions = {}) =>
  ToolboxLive.tool({ name, description: "", parameters: Schema.Struct({}), run: () => run, ...options })

const contentsOf = (messages: ReadonlyArray<Message>): ReadonlyArray<unknown> => messages.map(({ content }) => content)

describe("the user's prompt", () => {
  const picture: ContentPart = { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } }
  const parts: ReadonlyArray<ContentPart> = [{ type: "text", text: "what is" }, picture, { type: "text", text: "this" }]
  const entered = (prompt: string | ReadonlyArray<ContentPart> | null, onUserPrompt?: (text: string) => string) =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const hooks =
        onUserPrompt === undefined
          ? {}
          : {
              onUserPrompt: (text: string) => Effect.sync(() => (seen.push(text), onUserPrompt(text)))
            }
      const ran = yield* runWith(executorOf([says("ok")]).executor, [], {
        history: [],
        prompt: prompt as string
      }).pipe(Effect.provideService(AgentHooks, hooks))
      return { seen, first: ran.history[0]?.content }
    })

  it.effect("of parts enters the history as it is where no hook looks at it", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* entered(parts), { seen: [], first: parts })
    })
  )

  it.effect("of parts is shown to the hook as its text, and stays as it is when the hook leaves it", () =>
    Effect.gen(function* () {
      const { seen, first } = yield* entered(parts, (text) => text)
      assert.strictEqual(seen.length, 1)
      assert.match(seen[0] ?? "", /what is[\s\S]*this/)
      assert.deepStrictEqual(first, parts)
    })
  )

  it.effect("of parts has the hook's text in the place of its own, and every other part", () =>
    Effect.gen(function* () {
      const { first } = yield* entered(parts, () => "look")
      assert.deepStrictEqual(first, [{ type: "text", text: "look" }, picture])
    })
  )

  it.effect("that there is none of is shown to no hook and adds nothing", () =>
    Effect.gen(function* () {
      const { seen, first } = yield* entered(null, () => "never")
      assert.deepStrictEqual([seen, first], [[], "ok"])
    })
  )
})

describe("what enters the history", () => {
  /** A conversation that says how it is written. */
  const recorded = Effect.gen(function* () {
    const written: Array<string> = []
    const inner = yield* ConversationMemory.make([{ role: "user", content: "go" }])
    const note = (how: string, messages: ReadonlyArray<Message>) =>
      Effect.sync(() => void written.push(`${how} ${messages.map(({ role }) => role).join(" ")}`))
    const conversation: Conversation = {
      messages: inner.messages,
      append: (more) => Effect.andThen(note("append", more), inner.append(more)),
      replace: (all) => Effect.andThen(note("replace", all), inner.replace(all))
    }
    return { conversation, written }
  })

  it.effect("is appended: nothing is written again that stands there", () =>
    Effect.gen(function* () {
      const { conversation, written } = yield* recorded
      const { executor } = executorOf([asks(call("a", "echo"), call("b", "echo", { n: 1 })), says("done")])
      yield* runWith(executor, [echo().one], { conversation })
      assert.deepStrictEqual(written, ["append assistant", "append tool tool", "append assistant"])
    })
  )

  it.effect("is put in its place when somebody wrote while the tools ran", () =>
    Effect.gen(function* () {
      const { conversation, written } = yield* recorded
      const { executor } = executorOf([asks(call("a", "talk")), says("done")])
      const talk = tool("talk", Effect.as(conversation.append([{ role: "user", content: "wait" }]), "ran"))
      yield* runWith(executor, [talk], { conversation })
      assert.deepStrictEqual(written[2], "replace user assistant tool user")
      assert.deepStrictEqual(contentsOf(yield* conversation.messages), ["go", null, "ran", "wait", "done"])
    })
  )
})

describe("calls that are not run", () => {
  const notRunIn = (history: ReadonlyArray<Message>): ReadonlyArray<unknown> =>
    contentsOf(history).filter((content) => String(content).startsWith("Not run"))
  const many = (count: number) => asks(...Array.from({ length: count }, (_, i) => call(`c${i}`, "echo")))

  it.effect("say that the run goes in circles", () =>
    Effect.gen(function* () {
      const ran = yield* runWith(executorOf([many(9)]).executor, [echo().one])
      assert.deepStrictEqual(notRunIn(ran.history), [
        "Not run: the run was stopped because it goes in circles.",
        "Not run: the run was stopped because it goes in circles."
      ])
    })
  )

  it.effect("say that it makes no progress", () =>
    Effect.gen(function* () {
      const poll = tool("poll", Effect.succeed("waiting"), { polling: true })
      const { executor } = executorOf([asks(...Array.from({ length: 11 }, (_, i) => call(`c${i}`, "poll")))])
      const ran = yield* runWith(executor, [poll])
      assert.deepStrictEqual(notRunIn(ran.history), ["Not run: the run was stopped because it makes no progress."])
    })
  )

  it.effect("say that the budget is used up", () =>
    Effect.gen(function* () {
      const ledger = yield* BudgetMemory.make({ maxTokens: 10, maxCostUsd: null })
      const spend = tool("spend", Effect.as(ledger.book?.("k", { tokens: 10, costUsd: null }) ?? Effect.void, "spent"))
      const { executor } = executorOf([asks(call("a", "spend"), call("b", "spend"))])
      const ran = yield* Effect.provideService(runWith(executor, [spend]), BudgetLedger, ledger)
      assert.deepStrictEqual(notRunIn(ran.history), ["Not run: the session's budget is used up."])
    })
  )

  it.effect("say that the run ended before them, when it was interrupted; the one that ran says that it may have", () =>
    Effect.gen(function* () {
      const conversation = yield* ConversationMemory.make([{ role: "user", content: "go" }])
      const { executor } = executorOf([asks(call("a", "hang"), call("b", "hang"))])
      const fiber = yield* Effect.forkChild(runWith(executor, [tool("hang", Effect.never)], { conversation }))
      yield* TestClock.adjust(100)
      yield* Fiber.interrupt(fiber)
      const [, , first, second] = contentsOf(yield* conversation.messages)
      assert.match(String(first), /interrupted/)
      assert.strictEqual(second, "Not run: the run ended before it.")
    })
  )

  it.effect("need an approval that nobody can give", () =>
    Effect.gen(function* () {
      const { one, seen } = echo({ approval: true })
      const ran = yield* runWith(executorOf([asks(call("a", "echo")), says("done")]).executor, [one])
      assert.deepStrictEqual([seen, notRunIn(ran.history)], [[], ["Not run: it was not approved."]])
    })
  )
})

describe("an approval", () => {
  it.effect("is asked for every call that needs one before any runs, and for no other", () =>
    Effect.gen(function* () {
      const order: Array<string> = []
      const noting = (name: string, options: ToolboxLive.RunOptions = {}) =>
        tool(
          name,
          Effect.sync(() => (order.push(`ran ${name}`), "ran")),
          options
        )
      const tools = [noting("look"), noting("pay", { approval: true })]
      const { executor } = executorOf([asks(call("a", "look"), call("b", "pay"), call("c", "pay")), says("done")])
      yield* runWith(executor, tools).pipe(
        Effect.provideService(AgentHooks, {
          onApproval: ({ id }) => Effect.sync(() => (order.push(`asked ${id}`), id === "c"))
        })
      )
      assert.deepStrictEqual(order, ["asked b", "asked c", "ran look", "ran pay"])
    })
  )
})

describe("warnings", () => {
  it.effect("of one step are one message, a line each, and an event each", () =>
    Effect.gen(function* () {
      const five = (name: string) => Array.from({ length: 5 }, (_, i) => call(`${name}${i}`, name))
      const { executor } = executorOf([asks(...five("one"), ...five("two")), says("done")])
      const ran = yield* runWith(executor, [echo({}, "one").one, echo({}, "two").one])
      const told = ran.events.filter(
        (event): event is Extract<AgentEvent, { _tag: "LoopWarned" }> => event._tag === "LoopWarned"
      )
      assert.deepStrictEqual(
        told.map(({ finding }) => [finding.tool, finding.count]),
        [
          ["one", 5],
          ["two", 5]
        ]
      )
      const lines = String(ran.history.findLast(({ role }) => role === "user")?.content).split("\n")
      assert.deepStrictEqual(
        lines.map((line) => line.slice(0, 30)),
        ["You have called one 5 times wi", "You have called two 5 times wi"]
      )
    })
  )
})

describe("how a turn ends", () => {
  const half = (finishReason: "content_filter" | "length") => ScriptedModel.makeReply({ text: "half", finishReason })
  const spinning = Array.from({ length: 20 }, (_, i) => asks(call(`c${i}`, "echo")))
  it.effect.each<readonly [string, Parameters<typeof executorOf>[0], number, Partial<AgentError>, RegExp]>([
    ["a content filter", [half("content_filter")], 9, { lastOutcome: "content_filter" }, /content filter stopped/],
    ["a truncated reply", [half("length")], 9, { lastOutcome: "length" }, /Allow more output tokens/],
    ["a loop", spinning, 99, { lastOutcome: "loop", steps: 8 }, /goes in circles/],
    ["the step cap", spinning, 2, { lastOutcome: "steps", steps: 2 }, /go on with another turn/]
  ])("is told in one word and one sentence, with the time it took: %s", ([, answers, maxSteps, fields, guidance]) =>
    Effect.gen(function* () {
      const slow = answers.map((answer) => Effect.delay(Effect.succeed(answer as never), 250))
      const fiber = yield* Effect.forkChild(runWith(executorOf(slow).executor, [echo().one], { maxSteps }))
      const error = errorOf((yield* drive(fiber)).exit)
      assert.isTrue(isAgentError(error))
      if (!isAgentError(error)) return
      assert.deepInclude(error, fields)
      assert.match(error.guidance, guidance)
      const rounds = "steps" in error && error.steps > 0 ? error.steps : 1
      assert.strictEqual(error.elapsedMs, rounds * 250)
    })
  )

  it.effect("with the text of the steps that said something, and none where nothing was said", () =>
    Effect.gen(function* () {
      const said = (text: string | null, id: string) =>
        ScriptedModel.makeReply({ text, toolCalls: [call(id, "echo", { text: id })], finishReason: "tool_calls" })
      const partial = (answers: Parameters<typeof executorOf>[0]) =>
        Effect.map(runWith(executorOf(answers).executor, [echo().one], { maxSteps: answers.length }), ({ exit }) => {
          const error = errorOf(exit)
          return isAgentError(error) ? error.partial : "another failure"
        })
      assert.strictEqual(
        yield* partial([said("", "a"), said("one", "b"), said(null, "c"), said("two", "d")]),
        "one\n\ntwo"
      )
      assert.isNull(yield* partial([said("", "a"), said(null, "b")]))
    })
  )

  it.effect("as a defect, when a stream of the executor stops without its end", () =>
    Effect.gen(function* () {
      const parts: ReadonlyArray<ReadonlyArray<ReplyPart>> = [[], [{ _tag: "TextDelta", text: "half" }]]
      for (const some of parts) {
        const executor: ModelRequestExecutor = { ...executorOf([]).executor, stream: () => Stream.fromIterable(some) }
        const { exit } = yield* runWith(executor, [], { stream: true })
        assert.isTrue(Exit.isFailure(exit) && exit.cause.reasons.some((reason) => reason._tag === "Die"))
        assert.include(Exit.isFailure(exit) ? String(exit.cause) : "", "without Finish")
      }
    })
  )
})

describe("who watches a turn from outside", () => {
  /** An executor that tells what recovery tells. */
  const watched: ModelRequestExecutor = {
    ...executorOf([]).executor,
    complete: () =>
      Effect.map(RequestWatch, (watcher) => {
        watcher?.began?.(() => ({ ...notBegun, requestId: "r-7" }))
        watcher?.ended?.([], 0)
        return says("done")
      })
  }

  it.effect("is told where its request stands; the trail is the turn's own", () =>
    Effect.gen(function* () {
      const standings: Array<() => Standing> = []
      const trails: Array<Trail> = []
      yield* runWith(watched, []).pipe(
        Effect.provideService(RequestWatch, {
          began: (standing) => void standings.push(standing),
          ended: (trail) => void trails.push(trail)
        })
      )
      assert.deepStrictEqual([standings.map((standing) => standing().requestId), trails], [["r-7"], []])
    })
  )

  it.effect("need not want to know", () =>
    Effect.gen(function* () {
      for (const watcher of [null, {}]) {
        const { exit } = yield* Effect.provideService(runWith(watched, []), RequestWatch, watcher)
        assert.isTrue(Exit.isSuccess(exit))
      }
    })
  )

  it.effect("the requests of summaries are in the trail of the turn", () =>
    Effect.gen(function* () {
      const summaries = ScriptedModel.make([{ reply: { text: "short" } }])
      const prepare = yield* makePreparation({
        summarizer: ModelSummarizer.make(summaries.client, { model: "small" }),
        contextWindow: 10,
        keepRecentMessages: 1
      })
      const main = ScriptedModel.make([{ reply: { text: "half", finishReason: "length" } }])
      const history: ReadonlyArray<Message> = [
        { role: "user", content: "a".repeat(200) },
        { role: "user", content: "c" }
      ]
      const executor = rawExecutor(main.client, { model: "large", maxOutputTokens: 50 })
      const { exit } = yield* Effect.provideService(runWith(executor, [], { history }), HistoryPreparation, prepare)
      const error = errorOf(exit)
      assert.isTrue(isAgentError(error))
      assert.deepStrictEqual(isAgentError(error) ? error.trail.map(({ model }) => model) : [], ["small", "large"])
    })
  )
})

describe("early tools", () => {
  const streaming = (parts: ReadonlyArray<ReplyPart>): ModelRequestExecutor => ({
    ...executorOf([]).executor,
    stream: () =>
      Stream.concat(
        Stream.fromIterable(parts),
        Stream.fromEffect(
          Effect.delay(Effect.succeed<ReplyPart>({ _tag: "Finish", reply: says("changed my mind") }), 500)
        )
      )
  })
  const ready = (id: string, name: string, args: unknown = {}): ReplyPart => ({
    _tag: "ToolCallReady",
    ...call(id, name, args)
  })
  const ranEarly = (
    parts: ReadonlyArray<ReplyPart>,
    earlyTools: boolean | undefined,
    tools: ReadonlyArray<ToolboxLive.Tool>
  ) =>
    Effect.gen(function* () {
      const options = { stream: true, ...(earlyTools === undefined ? {} : { earlyTools }) }
      yield* drive(yield* Effect.forkChild(runWith(streaming(parts), tools, options)))
    })

  it.effect("start only where they are asked for", () =>
    Effect.gen(function* () {
      const { one, seen } = echo({ repeat: "safe", parallel: true })
      for (const asked of [undefined, false]) yield* ranEarly([ready("a", "echo")], asked, [one])
      assert.deepStrictEqual(seen, [])
      yield* ranEarly([ready("a", "echo")], true, [one])
      assert.strictEqual(seen.length, 1)
    })
  )

  it.effect(
    "that may run beside each other all start; one that needs an approval does not, nor what is behind it",
    () =>
      Effect.gen(function* () {
        const [safe, asking] = [
          echo({ repeat: "safe", parallel: true }),
          echo({ repeat: "safe", parallel: true, approval: true }, "pay")
        ]
        const parts = [
          ready("a", "echo", { n: 1 }),
          ready("b", "echo", { n: 2 }),
          ready("c", "pay"),
          ready("d", "echo", { n: 3 })
        ]
        yield* ranEarly(parts, true, [safe.one, asking.one])
        assert.deepStrictEqual([safe.seen, asking.seen], [[{ n: 1 }, { n: 2 }], []])
      })
  )

  it.effect("give no result to another tool with the same arguments at the same place", () =>
    Effect.gen(function* () {
      const [one, two] = [
        echo({ repeat: "safe", parallel: true }, "one"),
        echo({ repeat: "safe", parallel: true }, "two")
      ]
      const executor: ModelRequestExecutor = {
        ...executorOf([]).executor,
        stream: () =>
          Stream.make<Array<ReplyPart>>(ready("a", "one"), { _tag: "Finish", reply: asks(call("a", "two")) })
      }
      yield* runWith(executor, [one.one, two.one], { stream: true, earlyTools: true, maxSteps: 1 })
      assert.strictEqual(two.seen.length, 1)
    })
  )
})
