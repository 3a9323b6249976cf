import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { isAgentError } from "../../../src/domain/failure/AgentError.ts"
import type { Message } from "../../../src/domain/chat/Message.ts"
import { unpaired } from "../../../src/domain/chat/MessageGroups.ts"
import { makeModelError } from "../../../src/domain/failure/ModelError.ts"
import type { ToolCall } from "../../../src/domain/chat/ModelReply.ts"
import type { ReplyPart } from "../../../src/domain/chat/ReplyPart.ts"
import * as Usage from "../../../src/domain/chat/Usage.ts"
import * as BudgetMemory from "../../../src/layers/stores/BudgetMemory.ts"
import * as ModelSelection from "../../../src/layers/ModelSelection.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import * as ToolboxLive from "../../../src/layers/ToolboxLive.ts"
import { makePreparation } from "../../../src/programs/agent/prepareHistory.ts"
import { rawExecutor } from "../../../src/programs/agent/rawExecutor.ts"
import { subAgent } from "../../../src/programs/agent/subAgent.ts"
import { AgentHooks, AgentMemory, HistoryPreparation, SystemPrompt } from "../../../src/services/AgentHooks.ts"
import { BudgetLedger } from "../../../src/services/BudgetLedger.ts"
import { PolicyOverride, TokenEstimate } from "../../../src/services/Overrides.ts"
import { PromptCacheTtl } from "../../../src/services/PromptCacheTtl.ts"
import type { ModelRequestExecutor } from "../../../src/services/Recovery.ts"
import { asks, call, drive, echo, errorOf, executorOf, kindsOf, runWith, says } from "../../support/agentRuns.ts"

/** Rules of the loop that nothing else would miss: each of these fails when its rule is taken out. */

const tool = (name: string, run: Effect.Effect<string, unknown>, options: ToolboxLive.RunOptions = {}) =>
  ToolboxLive.tool({ name, description: "", parameters: Schema.Struct({}), run: () => run, ...options })

describe("the loop", () => {
  it.effect("makes fifteen steps where nothing is said", () =>
    Effect.gen(function* () {
      const { executor, requests } = executorOf(
        Array.from({ length: 20 }, (_, i) => asks(call(`c${i}`, "echo", { n: i })))
      )
      const ran = yield* runWith(executor, [echo().one])
      assert.isTrue(Exit.isFailure(ran.exit))
      assert.strictEqual(requests.length, 15)
    })
  )

  it.effect("counts only the steps that brought a reply", () =>
    Effect.gen(function* () {
      const { executor } = executorOf([
        asks(call("a", "echo")),
        ScriptedModel.makeReply({ text: "half", finishReason: "content_filter" })
      ])
      const error = errorOf((yield* runWith(executor, [echo().one])).exit)
      assert.isTrue(isAgentError(error) && error._tag === "ContentFilteredError" && error.steps === 1)
    })
  )

  it.effect("carries the text of every step in its failure", () =>
    Effect.gen(function* () {
      const said = (text: string, id: string) =>
        ScriptedModel.makeReply({ text, toolCalls: [call(id, "echo", { text: id })], finishReason: "tool_calls" })
      const { executor } = executorOf([said("first", "a"), said("second", "b")])
      const error = errorOf((yield* runWith(executor, [echo().one], { maxSteps: 2 })).exit)
      assert.isTrue(isAgentError(error) && error.partial === "first\n\nsecond")
    })
  )

  it.effect("hands on what the caller asked for with every request", () =>
    Effect.gen(function* () {
      const { executor, requests } = executorOf([asks(call("a", "echo")), says("done")])
      yield* runWith(executor, [echo().one], {
        maxOutputTokens: 77,
        priority: "background",
        params: { temperature: 0.5 }
      })
      const asked = { maxOutputTokens: 77, priority: "background" as const, params: { temperature: 0.5 } }
      assert.strictEqual(requests.length, 2)
      for (const request of requests) assert.deepInclude(request, asked)
    })
  )

  it.effect("puts the system prompt of the step in place of the one in the history", () =>
    Effect.gen(function* () {
      const { executor, requests } = executorOf([says("done")])
      const history: ReadonlyArray<Message> = [
        { role: "system", content: "old" },
        { role: "user", content: "go" }
      ]
      yield* Effect.provideService(runWith(executor, [], { history }), SystemPrompt, Effect.succeed("new"))
      assert.deepStrictEqual(
        requests[0]?.messages.map((message) => message.content),
        ["new", "go"]
      )
    })
  )

  it.effect("settles the lifetime of the prompt cache at five minutes unless told otherwise", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      const note = Effect.flatMap(PromptCacheTtl, (ttl) => Effect.sync(() => (seen.push(ttl), says("ok"))))
      yield* runWith(executorOf([note]).executor, [])
      yield* runWith(executorOf([note]).executor, [], { cacheTtl: "1h" })
      yield* runWith(executorOf([note]).executor, [], { cacheTtl: null })
      assert.deepStrictEqual(seen, ["5m", "1h", null])
    })
  )

  it.effect("is one turn of its executor, unless it is part of one", () =>
    Effect.gen(function* () {
      let turns = 0
      const { executor } = executorOf([])
      const counting: ModelRequestExecutor = {
        ...executor,
        turn: (body) => Effect.suspend(() => ((turns += 1), body))
      }
      yield* runWith(counting, [])
      yield* runWith(counting, [], { nested: true })
      assert.strictEqual(turns, 1)
    })
  )

  it.effect("tells the results it gave to calls of a resumed history", () =>
    Effect.gen(function* () {
      const history: ReadonlyArray<Message> = [
        { role: "user", content: "go" },
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "a", type: "function", function: { name: "echo", arguments: "{}" } }]
        }
      ]
      const ran = yield* runWith(executorOf([says("resumed")]).executor, [echo().one], { history })
      assert.deepStrictEqual(kindsOf(ran.events), ["interrupted"])
    })
  )

  it.effect("changes the routes of a step and nothing else of an override", () =>
    Effect.gen(function* () {
      const seen: Array<unknown> = []
      const note = Effect.flatMap(PolicyOverride, (override) => Effect.sync(() => (seen.push(override), says("ok"))))
      const select = ModelSelection.layer({ user: null, environment: null, fallback: "std", plan: null })
      yield* runWith(executorOf([note]).executor, [], { routesFor: (model) => [{ model }] }).pipe(
        Effect.provideService(PolicyOverride, { maxAttempts: 3 }),
        Effect.provide(select)
      )
      assert.deepStrictEqual(seen, [{ maxAttempts: 3, routes: [{ model: "std" }] }])
    })
  )

  it.effect("asks the memory once per turn, before it and after it", () =>
    Effect.gen(function* () {
      const asked: Array<string> = []
      yield* runWith(executorOf([asks(call("a", "echo")), says("done")]).executor, [echo().one]).pipe(
        Effect.provideService(AgentMemory, {
          recall: () => Effect.sync(() => (asked.push("recall"), "likes tea")),
          learn: () => Effect.sync(() => void asked.push("learn"))
        })
      )
      assert.deepStrictEqual(asked, ["recall", "learn"])
    })
  )

  it.effect("runs four parallel tools at once where nothing is said", () =>
    Effect.gen(function* () {
      let running = 0
      let most = 0
      const slow = tool(
        "slow",
        Effect.gen(function* () {
          running += 1
          most = Math.max(most, running)
          yield* Effect.sleep(10)
          running -= 1
          return "ran"
        }),
        { parallel: true }
      )
      const { executor } = executorOf([asks(...Array.from({ length: 6 }, (_, i) => call(`c${i}`, "slow")))])
      yield* drive(yield* Effect.forkChild(runWith(executor, [slow])))
      assert.strictEqual(most, 4)
    })
  )

  it.effect("can be interrupted in the middle of a tool, at once", () =>
    Effect.gen(function* () {
      const hang = tool("hang", Effect.never)
      const { executor } = executorOf([asks(call("a", "hang"))])
      const fiber = yield* Effect.forkChild(runWith(executor, [hang]))
      yield* TestClock.adjust("1 second")
      const stopping = yield* Effect.forkChild(Fiber.interrupt(fiber))
      yield* TestClock.adjust("1 second")
      assert.isDefined(stopping.pollUnsafe(), "the tool held the interruption up")
    })
  )
})

describe("the loop guard in the loop", () => {
  const poll = (options: ToolboxLive.RunOptions = {}) =>
    tool("poll", Effect.succeed("still waiting"), { polling: true, ...options })

  it.effect("lets a polling tool repeat, and breaks with its tenth equal result, which is in the history", () =>
    Effect.gen(function* () {
      const { executor, requests } = executorOf(Array.from({ length: 20 }, (_, i) => asks(call(`c${i}`, "poll"))))
      const ran = yield* runWith(executor, [poll()])
      const error = errorOf(ran.exit)
      assert.isTrue(isAgentError(error) && error._tag === "LoopBroken" && error.detector === "no_progress")
      assert.strictEqual(requests.length, 10)
      assert.strictEqual(ran.history.at(-1)?.content, "still waiting")
      assert.deepStrictEqual(
        kindsOf(ran.events),
        Array.from({ length: 10 }, () => "ok")
      )
    })
  )

  it.effect("runs the call that may break alone, and nothing behind it", () =>
    Effect.gen(function* () {
      const { one, seen } = echo({ parallel: true })
      const { executor } = executorOf([
        ...Array.from({ length: 9 }, (_, i) => asks(call(`c${i}`, "poll"))),
        asks(call("last", "poll"), call("behind", "echo"))
      ])
      const ran = yield* runWith(executor, [poll({ parallel: true }), one])
      assert.deepStrictEqual(seen, [])
      assert.deepStrictEqual(kindsOf(ran.events).slice(-2), ["ok", "not_run"])
      assert.isNull(unpaired(ran.history))
    })
  )
})

describe("budgets", () => {
  it.effect("are asked before every tool: what one of them spends stops the next", () =>
    Effect.gen(function* () {
      const ledger = yield* BudgetMemory.make({ maxTokens: 100, maxCostUsd: null })
      const spend = tool(
        "spend",
        Effect.flatMap(Effect.orDie(ledger.admit({ tokens: 10, costUsd: 0 })), (reservation) =>
          Effect.as(ledger.settle(reservation, { tokens: 150, costUsd: 0 }), "spent")
        )
      )
      const { one, seen } = echo()
      const { executor } = executorOf([asks(call("a", "spend"), call("b", "echo"))])
      const ran = yield* Effect.provideService(runWith(executor, [spend, one]), BudgetLedger, ledger)
      assert.deepStrictEqual([seen, kindsOf(ran.events)], [[], ["ok", "not_run"]])
      const error = errorOf(ran.exit)
      assert.isTrue(isAgentError(error) && error._tag === "BudgetExceeded")
    })
  )

  const request = { messages: [{ role: "user", content: "x" }] } as const
  const usage = { ...Usage.unknown, promptTokens: 3, completionTokens: 4 }

  it.effect.each<readonly [string, ScriptedModel.Step, number]>([
    ["what a reply says", { reply: { text: "a", usage } }, 7],
    ["the worst where a reply does not say", { reply: { text: "a" } }, 60],
    ["nothing for a request that was refused", { fail: { kind: "overloaded", status: 529 } }, 0],
    ["nothing for one that never came", { fail: { kind: "connection", status: null, code: "ECONNREFUSED" } }, 0],
    ["the worst for an answer that broke", { fail: { kind: "malformed_response", status: 200 } }, 60]
  ])("of the raw executor are charged %s", ([, step, tokens]) =>
    Effect.gen(function* () {
      for (const how of ["complete", "stream"] as const) {
        // Whole replies only: a stream tells its usage with its end.
        if (how === "stream" && "fail" in step) continue
        const ledger = yield* BudgetMemory.make({ maxTokens: 1_000, maxCostUsd: null })
        const executor = rawExecutor(ScriptedModel.make([step]).client, { model: "m", maxOutputTokens: 50 })
        const sent = how === "complete" ? executor.complete(request) : Stream.runDrain(executor.stream(request))
        yield* Effect.exit(sent).pipe(
          Effect.provideService(BudgetLedger, ledger),
          Effect.provideService(TokenEstimate, () => 10)
        )
        const { reserved, spent } = yield* ledger.balance
        assert.deepStrictEqual([how, spent.tokens, reserved.tokens], [how, tokens, 0])
      }
    })
  )
})

describe("sub-agents", () => {
  const agentOver = Effect.fnUntraced(function* (
    executor: ModelRequestExecutor,
    more: {
      readonly maxSteps?: number
      readonly limits?: { readonly maxTokens: number; readonly maxCostUsd: null }
    } = {}
  ) {
    const toolbox = yield* Effect.orDie(ToolboxLive.make([echo().one]))
    return subAgent({ name: "ask", description: "", executor, toolbox, ...more })
  })

  it.effect("inherit nothing of the outer agent's prompt, hooks, memory and preparation", () =>
    Effect.gen(function* () {
      const inner = executorOf([says("found")])
      const touched: Array<string> = []
      const outer = executorOf([asks(call("a", "ask", { task: "look" })), says("done")])
      const ran = yield* runWith(outer.executor, [yield* agentOver(inner.executor)], {
        history: [],
        prompt: "go"
      }).pipe(
        Effect.provideService(SystemPrompt, Effect.succeed("outer rules")),
        Effect.provideService(AgentHooks, {
          onUserPrompt: (text) => Effect.sync(() => (touched.push(`prompt ${text}`), text)),
          onStop: () => Effect.sync(() => (touched.push("stop"), null))
        }),
        Effect.provideService(AgentMemory, {
          recall: () => Effect.sync(() => (touched.push("recall"), "memory")),
          learn: () => Effect.sync(() => void touched.push("learn"))
        }),
        Effect.provideService(HistoryPreparation, (messages) =>
          Effect.sync(() => (touched.push(`prepare ${messages.length}`), messages))
        )
      )
      assert.isTrue(Exit.isSuccess(ran.exit))
      assert.deepStrictEqual(
        inner.requests[0]?.messages.map((message) => message.content),
        ["look"]
      )
      assert.deepStrictEqual(touched, ["prompt go", "recall", "prepare 1", "prepare 3", "stop", "learn"])
    })
  )

  it.effect("hand back as a failed result what ended them and their work", () =>
    Effect.gen(function* () {
      const inner = executorOf([
        ScriptedModel.makeReply({ text: "half", toolCalls: [call("i", "echo")], finishReason: "tool_calls" })
      ])
      const outer = executorOf([asks(call("a", "ask", { task: "look" })), says("done")])
      const ran = yield* runWith(outer.executor, [yield* agentOver(inner.executor, { maxSteps: 1 })])
      assert.deepStrictEqual(kindsOf(ran.events), ["failed"])
      const result = String(ran.history.find((message) => message.role === "tool")?.content)
      assert.include(result, "StepLimitReached")
      assert.include(result, "half")
    })
  )

  it.effect("belong to the turn that runs them", () =>
    Effect.gen(function* () {
      let turns = 0
      const inner = executorOf([says("found")])
      const counting: ModelRequestExecutor = {
        ...inner.executor,
        turn: (body) => Effect.suspend(() => ((turns += 1), body))
      }
      yield* runWith(executorOf([asks(call("a", "ask", { task: "look" }))]).executor, [yield* agentOver(counting)])
      assert.deepStrictEqual([turns, inner.requests.length], [0, 1])
    })
  )

  it.effect("may have a smaller budget inside the session's, and the session goes on", () =>
    Effect.gen(function* () {
      const usage = { ...Usage.unknown, promptTokens: 20, completionTokens: 40 }
      const model = ScriptedModel.make(
        Array.from({ length: 9 }, (_, i) => ({
          reply: {
            text: null,
            finishReason: "tool_calls" as const,
            usage,
            toolCalls: [call(`c${i}`, "echo", { n: i })]
          }
        }))
      )
      const ledger = yield* BudgetMemory.make({ maxTokens: 10_000, maxCostUsd: null })
      const raw = rawExecutor(model.client, { model: "m", maxOutputTokens: 50 })
      const agent = yield* agentOver(raw, { limits: { maxTokens: 100, maxCostUsd: null } })
      const outer = executorOf([asks(call("a", "ask", { task: "look" })), says("done")])
      const ran = yield* runWith(outer.executor, [agent]).pipe(
        Effect.provideService(BudgetLedger, ledger),
        Effect.provideService(TokenEstimate, () => 10)
      )
      assert.isTrue(Exit.isSuccess(ran.exit))
      // The second answer may be as long as the limit still pays for.
      assert.deepStrictEqual(
        model.requests.map((request) => request.maxOutputTokens),
        [50, 30]
      )
      assert.strictEqual((yield* ledger.balance).spent.tokens, 120)
      assert.include(String(ran.history.find((message) => message.role === "tool")?.content), "BudgetExceeded")
    })
  )
})

describe("early tools", () => {
  it.effect("that no reply asks for end with their step", () =>
    Effect.gen(function* () {
      let stopped = 0
      const slow = tool(
        "slow",
        Effect.onInterrupt(Effect.never, () => Effect.sync(() => void (stopped += 1))),
        { repeat: "safe", parallel: true }
      )
      const executor: ModelRequestExecutor = {
        complete: () => Effect.die("not used"),
        stream: () =>
          Stream.make<[ReplyPart]>({ _tag: "ToolCallReady", id: "a", name: "slow", arguments: "{}" }).pipe(
            Stream.concat(Stream.drain(Stream.fromEffect(Effect.sleep(500)))),
            Stream.concat(Stream.make<[ReplyPart]>({ _tag: "Reset" })),
            Stream.concat(Stream.make<[ReplyPart]>({ _tag: "Finish", reply: says("changed my mind") }))
          ),
        turn: (body) => body
      }
      const ran = yield* drive(yield* Effect.forkChild(runWith(executor, [slow], { stream: true, earlyTools: true })))
      assert.isTrue(Exit.isSuccess(ran.exit))
      assert.strictEqual(stopped, 1)
    })
  )

  /** Streams what each round brings; a number is a pause. */
  const streaming = (rounds: ReadonlyArray<ReadonlyArray<ReplyPart | number>>): ModelRequestExecutor => {
    let round = 0
    return {
      complete: () => Effect.die("not used"),
      stream: () =>
        Stream.suspend(() => {
          const parts = rounds[round] ?? []
          round += 1
          return parts.reduce<Stream.Stream<ReplyPart>>(
            (before, part) =>
              Stream.concat(
                before,
                typeof part === "number" ? Stream.drain(Stream.fromEffect(Effect.sleep(part))) : Stream.make(part)
              ),
            Stream.empty
          )
        }),
      turn: (body) => body
    }
  }
  const ready = (one: ToolCall): ReplyPart => ({ _tag: "ToolCallReady", ...one })
  const runEarly = Effect.fnUntraced(function* (
    rounds: ReadonlyArray<ReadonlyArray<ReplyPart | number>>,
    tools: ReadonlyArray<ToolboxLive.Tool>
  ) {
    const options = { stream: true, earlyTools: true, maxSteps: rounds.length }
    return yield* drive(yield* Effect.forkChild(runWith(streaming(rounds), tools, options)))
  })

  it.effect("ask the guard: a call that would break the run does not start", () =>
    Effect.gen(function* () {
      const { one, seen } = echo({ repeat: "safe", parallel: true })
      const rounds = Array.from({ length: 8 }, (_, i): ReadonlyArray<ReplyPart | number> => {
        const next = call(`c${i}`, "echo")
        return [ready(next), 500, { _tag: "Finish", reply: asks(next) }]
      })
      const ran = yield* runEarly(rounds, [one])
      assert.isTrue(Exit.isFailure(ran.exit))
      assert.strictEqual(seen.length, 7)
    })
  )

  it.effect("that run alone hold back the calls behind them", () =>
    Effect.gen(function* () {
      const order: Array<string> = []
      const noting = (name: string, options: ToolboxLive.RunOptions) =>
        tool(
          name,
          Effect.sync(() => (order.push(name), "ran")),
          { repeat: "safe", ...options }
        )
      const calls = [call("a", "alone"), call("b", "beside")]
      yield* runEarly(
        [[...calls.map(ready), 500, { _tag: "Reset" }, { _tag: "Finish", reply: says("changed my mind") }]],
        [noting("alone", {}), noting("beside", { parallel: true })]
      )
      assert.deepStrictEqual(order, ["alone"])
    })
  )

  it.effect("give no result to a call with other arguments, and are stopped before another takes their place", () =>
    Effect.gen(function* () {
      const order: Array<string> = []
      const slow = ToolboxLive.tool({
        name: "slow",
        description: "",
        parameters: Schema.Struct({ n: Schema.Int }),
        repeat: "safe",
        parallel: true,
        run: ({ n }) =>
          n === 1
            ? Effect.onInterrupt(Effect.never, () => Effect.sync(() => void order.push("stopped 1")))
            : Effect.sync(() => (order.push(`ran ${n}`), `got ${n}`))
      })
      const [first, second, third] = [1, 2, 3].map((n) => call("a", "slow", { n }))
      const ran = yield* runEarly(
        [
          [
            ready(first!),
            500,
            { _tag: "Reset" },
            ready(second!),
            500,
            // What is ready is not what the reply asks for in the end.
            { _tag: "Finish", reply: asks(third!) }
          ]
        ],
        [slow]
      )
      assert.strictEqual(ran.history.at(-1)?.content, "got 3")
      assert.deepStrictEqual(order, ["stopped 1", "ran 2", "ran 3"])
    })
  )
})

describe("the preparation of a history", () => {
  const long = (count: number): ReadonlyArray<Message> => [
    { role: "system", content: "rules" },
    ...Array.from({ length: count }, (_, i): Message =>
      i % 2 === 0 ? { role: "user", content: `q${i} ${"x".repeat(400)}` } : { role: "assistant", content: `a${i}` }
    ),
    { role: "user", content: "now" }
  ]

  const preparing = (summarize: (messages: ReadonlyArray<Message>) => string) =>
    makePreparation({
      summarizer: {
        summarize: ({ messages }) => Effect.sync(() => ({ text: summarize(messages), usage: Usage.unknown }))
      },
      contextWindow: 1_000,
      keepRecentMessages: 4
    })

  it.effect("keeps every message once when it summarises a second time", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const prepare = yield* preparing((messages) => {
        for (const message of messages) seen.push(String(message.content).split(" ")[0] ?? "")
        return `summary ${messages.length}`
      })
      const contents = (messages: ReadonlyArray<Message>) =>
        messages.map((message) => String(message.content).split(" ")[0] ?? "")
      yield* prepare(long(16))
      const twice = yield* prepare(long(40))
      // What no summary was made of is still there, and nothing is there that a summary stands for.
      const told = seen.filter((word) => word !== "Summary")
      const left = contents(twice).filter((word) => /^[qa]\d/.test(word))
      const all = contents(long(40)).filter((word) => /^[qa]\d/.test(word))
      assert.deepStrictEqual([...told, ...left], all)
    })
  )

  it.effect("leaves the history when a summary is larger, empty or fails", () =>
    Effect.gen(function* () {
      const history = long(30)
      assert.strictEqual(yield* (yield* preparing(() => "y".repeat(50_000)))(history), history)
      assert.strictEqual(yield* (yield* preparing(() => "  "))(history), history)
      const failing = yield* makePreparation({
        summarizer: { summarize: () => Effect.fail(makeModelError({ kind: "server_error", status: 500 })) },
        contextWindow: 1_000,
        keepRecentMessages: 4
      })
      assert.strictEqual(yield* failing(history), history)
    })
  )

  it.effect("does not count by a usage that was measured with the old messages", () =>
    Effect.gen(function* () {
      const usage = { ...Usage.unknown, promptTokens: 900_000, completionTokens: 1 }
      const [system, ...rest] = long(30)
      const history: ReadonlyArray<Message> = [
        system!,
        ...rest.map((message): Message => (message.role === "assistant" ? { ...message, usage } : message))
      ]
      const sent = yield* (yield* preparing(() => "short"))(history)
      assert.isFalse(sent.some((message) => "usage" in message))
      assert.isBelow(sent.length, history.length)
    })
  )

  it.effect("sends the history as it is while the window has room, and asks nobody", () =>
    Effect.gen(function* () {
      let asked = 0
      const prepare = yield* preparing(() => {
        asked += 1
        return "short"
      })
      const short = long(2)
      assert.strictEqual(yield* prepare(short), short)
      assert.strictEqual(asked, 0)
    })
  )

  it.effect.each([
    [1_000, undefined, 799, false],
    [1_000, undefined, 800, true],
    [1_000, 0.5, 499, false],
    [1_000, 0.5, 500, true]
  ] as const)(
    "begins where the window of %d tokens is full to its share (%s): with %d tokens it is %s",
    ([contextWindow, share, tokens, isAsked]) =>
      Effect.gen(function* () {
        let asked = 0
        const prepare = yield* makePreparation({
          summarizer: {
            summarize: () => Effect.sync(() => ((asked += 1), { text: "short", usage: Usage.unknown }))
          },
          contextWindow,
          keepRecentMessages: 1,
          ...(share === undefined ? {} : { share })
        })
        yield* Effect.provideService(prepare(long(6)), TokenEstimate, () => tokens)
        assert.strictEqual(asked, isAsked ? 1 : 0)
      })
  )

  it.effect("leaves half of the window for what is summarised, one token at least, and keeps eight messages", () =>
    Effect.gen(function* () {
      const asked: Array<object> = []
      for (const contextWindow of [1_001, 1]) {
        const prepare = yield* makePreparation({
          summarizer: {
            summarize: ({ messages, maxInputTokens, maxOutputTokens }) =>
              Effect.sync(() => {
                asked.push({ messages: messages.length, maxInputTokens, maxOutputTokens })
                return { text: "short", usage: Usage.unknown }
              })
          },
          contextWindow
        })
        yield* prepare(long(20))
      }
      // 20 messages and the last one, of which eight stay.
      assert.deepStrictEqual(asked, [
        { messages: 13, maxInputTokens: 500, maxOutputTokens: 4_000 },
        { messages: 13, maxInputTokens: 1, maxOutputTokens: 4_000 }
      ])
    })
  )

  it.effect("asks nobody where every message is to stay", () =>
    Effect.gen(function* () {
      let asked = 0
      const prepare = yield* preparing(() => {
        asked += 1
        return "short"
      })
      const history: ReadonlyArray<Message> = [{ role: "user", content: "x".repeat(9_000) }]
      assert.strictEqual(yield* prepare(history), history)
      assert.strictEqual(asked, 0)
    })
  )
})
