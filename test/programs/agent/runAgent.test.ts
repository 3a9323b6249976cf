import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { isAgentError } from "../../../src/domain/failure/AgentError.ts"
import type { Message } from "../../../src/domain/chat/Message.ts"
import { unpaired } from "../../../src/domain/chat/MessageGroups.ts"
import { makeModelError, type ModelError } from "../../../src/domain/failure/ModelError.ts"
import type { ModelReply, ToolCall } from "../../../src/domain/chat/ModelReply.ts"
import type { ReplyPart } from "../../../src/domain/chat/ReplyPart.ts"
import * as Usage from "../../../src/domain/chat/Usage.ts"
import * as BudgetMemory from "../../../src/layers/stores/BudgetMemory.ts"
import * as ConversationMemory from "../../../src/programs/agent/ConversationMemory.ts"
import * as ModelSelection from "../../../src/layers/ModelSelection.ts"
import * as ModelSummarizer from "../../../src/layers/ModelSummarizer.ts"
import { makeReply } from "../../../src/layers/ScriptedModel.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import * as ToolboxLive from "../../../src/layers/ToolboxLive.ts"
import { makePreparation } from "../../../src/programs/agent/prepareHistory.ts"
import { rawExecutor } from "../../../src/programs/agent/rawExecutor.ts"
import { subAgent } from "../../../src/programs/agent/subAgent.ts"
import { AgentHooks, AgentMemory, HistoryPreparation, SystemPrompt } from "../../../src/services/AgentHooks.ts"
import { BudgetLedger } from "../../../src/services/BudgetLedger.ts"
import { PolicyOverride } from "../../../src/services/Overrides.ts"
import type { ModelRequestExecutor } from "../../../src/services/Recovery.ts"
import { asks, call, drive, echo, errorOf, executorOf, kindsOf, roles, runWith, says } from "../../support/agentRuns.ts"

describe("the loop", () => {
  it.effect("runs tools, appends one reply and its results, and ends with the model", () =>
    Effect.gen(function* () {
      const { executor, requests } = executorOf([asks(call("a", "echo", { text: "x" })), says("done")])
      const { one, seen } = echo()
      const ran = yield* runWith(executor, [one], { prompt: "please" })
      assert.isTrue(Exit.isSuccess(ran.exit))
      assert.strictEqual(roles(ran.history), "uuata")
      assert.deepStrictEqual(seen, [{ text: "x" }])
      assert.strictEqual(requests.length, 2)
      assert.strictEqual(requests[1]?.messages.at(-1)?.content, "echo x")
    })
  )
  it.effect("stops at the step cap after the tools of the last step", () =>
    Effect.gen(function* () {
      const { executor, requests } = executorOf(
        Array.from({ length: 9 }, (_, i) => asks(call(`c${i}`, "echo", { n: i })))
      )
      const { one, seen } = echo()
      const ran = yield* runWith(executor, [one], { maxSteps: 3 })
      assert.strictEqual((errorOf(ran.exit) as { _tag: string })._tag, "StepLimitReached")
      assert.strictEqual(requests.length, 3)
      assert.strictEqual(seen.length, 3)
      assert.isNull(unpaired(ran.history))
    })
  )
  it.effect("keeps a content-filter stop and a truncated reply out of the history", () =>
    Effect.gen(function* () {
      const before: ReadonlyArray<Message> = [{ role: "user", content: "go" }]
      for (const [finishReason, tag] of [
        ["content_filter", "ContentFilteredError"],
        ["length", "TruncatedReplyError"],
        ["window_full", "TruncatedReplyError"]
      ] as const) {
        const { executor } = executorOf([makeReply({ text: "half", finishReason })])
        const ran = yield* runWith(executor, [], { history: before })
        const error = errorOf(ran.exit)
        assert.isTrue(isAgentError(error) && error._tag === tag && error.partial === "half")
        assert.deepStrictEqual(ran.history, before)
      }
    })
  )
  it.effect("takes a refusal as the end, and keeps it", () =>
    Effect.gen(function* () {
      const { executor } = executorOf([makeReply({ text: null, refusal: "no", finishReason: "refusal" })])
      const ran = yield* runWith(executor, [])
      assert.isTrue(Exit.isSuccess(ran.exit))
      assert.strictEqual((ran.history.at(-1) as { refusal?: string }).refusal, "no")
    })
  )
  it.effect("passes a failure of the request on and leaves the history", () =>
    Effect.gen(function* () {
      const { executor } = executorOf([makeModelError({ kind: "auth", status: 401 })])
      const ran = yield* runWith(executor, [])
      assert.strictEqual((errorOf(ran.exit) as ModelError)._tag, "ModelAuthenticationError")
      assert.strictEqual(roles(ran.history), "u")
    })
  )
})

describe("tools", () => {
  it.effect("turns every ending of a tool into a result", () =>
    Effect.gen(function* () {
      const make = (name: string, run: Effect.Effect<string, unknown>, options: ToolboxLive.RunOptions = {}) =>
        ToolboxLive.tool({ name, description: "", parameters: Schema.Struct({}), run: () => run, ...options })
      const { executor } = executorOf([
        asks(
          call("1", "ok"),
          call("2", "fails"),
          call("3", "dies"),
          call("4", "slow"),
          call("5", "nope"),
          call("6", "ok", "{cut")
        ),
        says("done")
      ])
      const fiber = yield* Effect.forkChild(
        runWith(executor, [
          make("ok", Effect.succeed("fine")),
          make("fails", Effect.fail(new Error("no match"))),
          make("dies", Effect.die("boom")),
          make("slow", Effect.never, { timeout: "5 seconds" })
        ])
      )
      const ran = yield* drive(fiber)
      assert.isTrue(Exit.isSuccess(ran.exit))
      assert.deepStrictEqual(kindsOf(ran.events), [
        "ok",
        "failed",
        "failed",
        "timed_out",
        "unknown_tool",
        "invalid_arguments"
      ])
      assert.isNull(unpaired(ran.history))
    })
  )
  it.effect("runs parallel tools at once with a bound, others alone, and keeps call order", () =>
    Effect.gen(function* () {
      let running = 0
      let most = 0
      const slow = (name: string, parallel: boolean) =>
        ToolboxLive.tool({
          name,
          description: "",
          parameters: Schema.Struct({ ms: Schema.Int }),
          parallel,
          run: ({ ms }) =>
            Effect.gen(function* () {
              running += 1
              most = Math.max(most, running)
              if (!parallel) assert.strictEqual(running, 1)
              yield* Effect.sleep(ms)
              running -= 1
              return `${name} ${ms}`
            })
        })
      const calls = [
        ...[5, 4, 3, 2, 1].map((ms) => call(`p${ms}`, "side", { ms })),
        call("alone", "alone", { ms: 7 }),
        call("p9", "side", { ms: 9 })
      ]
      const { executor } = executorOf([asks(...calls), says("done")])
      const fiber = yield* Effect.forkChild(
        runWith(executor, [slow("side", true), slow("alone", false)], { concurrency: 3 })
      )
      const ran = yield* drive(fiber)
      assert.strictEqual(most, 3)
      assert.deepStrictEqual(
        ran.history.flatMap((message) => (message.role === "tool" ? [message.content] : [])),
        ["side 5", "side 4", "side 3", "side 2", "side 1", "alone 7", "side 9"]
      )
    })
  )
  it.effect("gives calls of a resumed history without a result one that says they may have run", () =>
    Effect.gen(function* () {
      const history: ReadonlyArray<Message> = [
        { role: "user", content: "go" },
        {
          role: "assistant",
          content: null,
          tool_calls: ["a", "b", "c"].map((id) => ({
            id,
            type: "function",
            function: { name: "echo", arguments: "{}" }
          }))
        },
        { role: "tool", tool_call_id: "b", content: "done" }
      ]
      const { executor } = executorOf([says("resumed")])
      const { one, seen } = echo()
      const ran = yield* runWith(executor, [one], { history })
      assert.isNull(unpaired(ran.history))
      assert.deepStrictEqual(seen, [])
      assert.deepStrictEqual(
        ran.history.flatMap((message) => (message.role === "tool" ? [message.tool_call_id] : [])),
        ["a", "b", "c"]
      )
      assert.include(String(ran.history[2]?.content), "may have run")
      assert.strictEqual(history.length, 3)
    })
  )
  it.effect("leaves a valid history when it is interrupted in the middle of its tools", () =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      const hang = ToolboxLive.tool({
        name: "hang",
        description: "",
        parameters: Schema.Struct({}),
        run: () => Effect.andThen(Deferred.succeed(gate, undefined), Effect.never)
      })
      const conversation = yield* ConversationMemory.make([{ role: "user", content: "go" }])
      const { executor } = executorOf([asks(call("a", "echo"), call("b", "hang"), call("c", "echo"))])
      const fiber = yield* Effect.forkChild(runWith(executor, [echo().one, hang], { conversation }))
      yield* Deferred.await(gate)
      yield* Fiber.interrupt(fiber)
      const history = yield* conversation.messages
      assert.isNull(unpaired(history))
      const results = history.flatMap((message) => (message.role === "tool" ? [String(message.content)] : []))
      assert.strictEqual(results[0], "echo ")
      assert.include(results[1], "may have run")
      assert.include(results[2], "Not run")
    })
  )
  it.effect("puts what the user says while tools run behind their results, and the model reads it next", () =>
    Effect.gen(function* () {
      const conversation = yield* ConversationMemory.make([{ role: "user", content: "go" }])
      const steer = ToolboxLive.tool({
        name: "steer",
        description: "",
        parameters: Schema.Struct({}),
        run: () => Effect.as(conversation.append([{ role: "user", content: "rather this" }]), "ran")
      })
      const { executor, requests } = executorOf([asks(call("a", "steer"), call("b", "echo")), says("done")])
      const ran = yield* runWith(executor, [steer, echo().one], { conversation })
      assert.isTrue(Exit.isSuccess(ran.exit))
      assert.strictEqual(roles(requests[1]?.messages ?? []), "uattu")
      assert.strictEqual(requests[1]?.messages.at(-1)?.content, "rather this")
      assert.isNull(unpaired(ran.history))
    })
  )
  it.effect("reads what the user says while the model answers in the next step", () =>
    Effect.gen(function* () {
      const conversation = yield* ConversationMemory.make([{ role: "user", content: "go" }])
      const steered = Effect.as(
        conversation.append([{ role: "user", content: "rather this" }]),
        asks(call("a", "echo"))
      )
      const { executor, requests } = executorOf([steered, says("done")])
      yield* runWith(executor, [echo().one], { conversation })
      assert.strictEqual(roles(requests[1]?.messages ?? []), "uuat")
      assert.strictEqual(requests[1]?.messages[1]?.content, "rather this")
    })
  )
  it.effect("sees fiber-local values of the call and services of the layer", () =>
    Effect.gen(function* () {
      class Store extends Context.Service<Store, { readonly name: string }>()("test/Store") {}
      const one = ToolboxLive.tool({
        name: "who",
        description: "",
        parameters: Schema.Struct({}),
        run: () =>
          Effect.gen(function* () {
            const store = yield* Store
            return `${store.name} ${(yield* PolicyOverride) === null ? "plain" : "override"}`
          })
      })
      const toolbox = yield* Effect.provideService(Effect.orDie(ToolboxLive.make([one])), Store, { name: "disk" })
      const plain = yield* toolbox.run(call("a", "who"))
      const local = yield* Effect.provideService(toolbox.run(call("b", "who")), PolicyOverride, { maxAttempts: 1 })
      assert.deepStrictEqual([plain.content, local.content], ["disk plain", "disk override"])
    })
  )
})

describe("the loop guard in the loop", () => {
  it.effect("warns with one user message, then does not run the breaking call", () =>
    Effect.gen(function* () {
      const { executor, requests } = executorOf(Array.from({ length: 20 }, (_, i) => asks(call(`c${i}`, "echo", {}))))
      const { one, seen } = echo()
      const ran = yield* runWith(executor, [one])
      const error = errorOf(ran.exit)
      assert.isTrue(isAgentError(error) && error._tag === "LoopBroken" && error.atCall === 8)
      assert.strictEqual(seen.length, 7)
      assert.strictEqual(requests.length, 8)
      assert.strictEqual(ran.history.filter((message) => message.role === "user").length, 2)
      assert.strictEqual(kindsOf(ran.events).at(-1), "not_run")
      assert.isNull(unpaired(ran.history))
    })
  )
  it.effect("counts the calls of one reply one by one", () =>
    Effect.gen(function* () {
      const { executor, requests } = executorOf([
        asks(...Array.from({ length: 10 }, (_, i) => call(`c${i}`, "echo", {})))
      ])
      const { one, seen } = echo({ parallel: true })
      const ran = yield* runWith(executor, [one])
      assert.isTrue(Exit.isFailure(ran.exit))
      assert.strictEqual(seen.length, 7)
      assert.strictEqual(requests.length, 1)
      assert.deepStrictEqual(kindsOf(ran.events).slice(-3), ["not_run", "not_run", "not_run"])
    })
  )
})

describe("budgets", () => {
  it.effect("stops after the reply that used the budget up: its tools do not run and the work is kept", () =>
    Effect.gen(function* () {
      const ledger = yield* BudgetMemory.make({ maxTokens: 100, maxCostUsd: null })
      const spend = (reply: ModelReply) =>
        Effect.flatMap(ledger.admit({ tokens: 10, costUsd: 0 }), (reservation) =>
          Effect.as(ledger.settle(reservation, { tokens: 150, costUsd: 0 }), reply)
        )
      const { executor, requests } = executorOf([
        spend(makeReply({ text: "finding", toolCalls: [call("a", "echo")], finishReason: "tool_calls" }))
      ])
      const { one, seen } = echo()
      const ran = yield* Effect.provideService(runWith(executor, [one]), BudgetLedger, ledger)
      const error = errorOf(ran.exit)
      assert.isTrue(isAgentError(error) && error._tag === "BudgetExceeded" && error.partial === "finding")
      assert.deepStrictEqual([requests.length, seen.length, kindsOf(ran.events)], [1, 0, ["not_run"]])
      assert.isNull(unpaired(ran.history))
    })
  )
  it.effect("lets a final reply end well even when it used the budget up", () =>
    Effect.gen(function* () {
      const ledger = yield* BudgetMemory.make({ maxTokens: 1, maxCostUsd: null }, { tokens: 5, costUsd: 0 })
      const { executor } = executorOf([says("done")])
      const ran = yield* Effect.provideService(runWith(executor, []), BudgetLedger, ledger)
      assert.isTrue(Exit.isSuccess(ran.exit))
    })
  )
})

describe("what a user may replace", () => {
  it.effect("asks the hooks, the system prompt and the memory, once each where they belong", () =>
    Effect.gen(function* () {
      const { executor, requests } = executorOf([says("first"), says("second")])
      const learned: Array<string> = []
      let stops = 0
      const ran = yield* runWith(executor, [], {
        history: [{ role: "system", content: "old rules" }],
        prompt: "hello"
      }).pipe(
        Effect.provideService(AgentHooks, {
          onUserPrompt: (text) => Effect.succeed(`${text}!`),
          onStop: () => Effect.sync(() => ((stops += 1) === 1 ? "not yet" : null))
        }),
        Effect.provideService(SystemPrompt, Effect.succeed("new rules")),
        Effect.provideService(AgentMemory, {
          recall: () => Effect.succeed("likes tea"),
          learn: (messages) => Effect.sync(() => learned.push(roles(messages)))
        })
      )
      assert.isTrue(Exit.isSuccess(ran.exit))
      assert.deepStrictEqual(
        requests[0]?.messages.map((message) => message.content),
        ["new rules", "likes tea", "hello!"]
      )
      assert.deepStrictEqual(learned, ["suaua"])
      assert.strictEqual(ran.history[0]?.content, "old rules")
    })
  )
  it.effect(
    "asks the selector for the model of a planning step, and stays with the ordinary one above 200k tokens",
    () =>
      Effect.gen(function* () {
        const models: Array<unknown> = []
        const note = Effect.gen(function* () {
          const override = yield* PolicyOverride
          models.push(override?.routes?.[0]?.model)
          return says("ok")
        })
        const { executor } = executorOf([note, note])
        const select = ModelSelection.layer({ user: null, environment: "env", fallback: "std", plan: "strong" })
        const options = { phase: "plan", routesFor: (model: string) => [{ model }] } as const
        yield* Effect.provide(runWith(executor, [], options), select)
        const long: ReadonlyArray<Message> = [{ role: "user", content: "x ".repeat(500_000) }]
        yield* Effect.provide(runWith(executor, [], { ...options, history: long }), select)
        assert.deepStrictEqual(models, ["strong", "env"])
      })
  )
  it.effect("sends a summary instead of old messages near the window, and leaves the history", () =>
    Effect.gen(function* () {
      const history: ReadonlyArray<Message> = [
        { role: "system", content: "rules" },
        ...Array.from({ length: 30 }, (_, i): Message =>
          i % 2 === 0 ? { role: "user", content: `q${i} ${"x".repeat(400)}` } : { role: "assistant", content: `a${i}` }
        ),
        { role: "user", content: "now" }
      ]
      let summaries = 0
      const prepare = yield* makePreparation({
        summarizer: {
          summarize: () => Effect.sync(() => ({ text: `summary ${(summaries += 1)}`, usage: Usage.unknown }))
        },
        contextWindow: 1_000,
        keepRecentMessages: 4
      })
      const { executor, requests } = executorOf([asks(call("a", "echo")), says("done")])
      const ran = yield* Effect.provideService(
        runWith(executor, [echo().one], { history }),
        HistoryPreparation,
        prepare
      )
      assert.strictEqual(roles(requests[0]?.messages ?? []), "suauau")
      assert.include(String(requests[0]?.messages[1]?.content), "summary 1")
      // The prefix stays the same in the next step.
      assert.deepStrictEqual(requests[1]?.messages.slice(0, 3), requests[0]?.messages.slice(0, 3))
      assert.strictEqual(summaries, 1)
      assert.deepStrictEqual(ran.history.slice(0, history.length), history)
    })
  )
  it.effect("books its summaries in the session's budget", () =>
    Effect.gen(function* () {
      const model = ScriptedModel.make([
        { reply: { text: "short", usage: { ...Usage.unknown, promptTokens: 60, completionTokens: 2 } } }
      ])
      const prepare = yield* makePreparation({
        summarizer: ModelSummarizer.make(model.client, { model: "small" }),
        contextWindow: 10,
        keepRecentMessages: 1
      })
      const history: ReadonlyArray<Message> = [
        { role: "user", content: "a".repeat(200) },
        { role: "user", content: "c" }
      ]
      const ledger = yield* BudgetMemory.make({ maxTokens: 10_000, maxCostUsd: null })
      const prepared = yield* Effect.provideService(prepare(history), BudgetLedger, ledger)
      assert.include(String(prepared[0]?.content), "short")
      assert.strictEqual((yield* ledger.balance).spent.tokens, 62)
    })
  )
  it.effect("keeps everything when the summary fails", () =>
    Effect.gen(function* () {
      const prepare = yield* makePreparation({
        summarizer: { summarize: () => Effect.fail(makeModelError({ kind: "server_error", status: 500 })) },
        contextWindow: 10,
        keepRecentMessages: 1
      })
      const history: ReadonlyArray<Message> = [
        { role: "user", content: "a".repeat(200) },
        { role: "assistant", content: "b" },
        { role: "user", content: "c" }
      ]
      assert.strictEqual(yield* prepare(history), history)
    })
  )
})

describe("sub-agents", () => {
  it.effect("work with a history of their own and hand back their reply; their failure is a result with the work", () =>
    Effect.gen(function* () {
      const inner = executorOf([
        asks(call("i", "echo", { text: "inner" })),
        says("found it"),
        makeReply({ text: "half", toolCalls: [call("j", "echo")], finishReason: "tool_calls" })
      ])
      const { one, seen } = echo()
      const toolbox = yield* Effect.orDie(ToolboxLive.make([one]))
      const agent = subAgent({
        name: "ask",
        description: "",
        executor: inner.executor,
        toolbox,
        system: "inner rules",
        maxSteps: 2
      })
      const outer = executorOf([
        asks(call("a", "ask", { task: "look" })),
        asks(call("b", "ask", { task: "again" })),
        says("done")
      ])
      const ran = yield* runWith(outer.executor, [agent])
      assert.deepStrictEqual(
        inner.requests[0]?.messages.map((message) => message.content),
        ["inner rules", "look"]
      )
      assert.deepStrictEqual(seen[0], { text: "inner" })
      assert.strictEqual(ran.history[2]?.content, "found it")
      // The third inner request brings work and the fourth, "end", finishes within two steps.
      assert.strictEqual(ran.history[4]?.content, "end")
      assert.strictEqual(roles(ran.history), "uatata")
    })
  )
  it.effect(
    "share the session's budget: 64 at once pass it by less than one worst case and end at what was spent",
    () =>
      Effect.gen(function* () {
        const limit = 20_000
        const cap = 100
        const ledger = yield* BudgetMemory.make({ maxTokens: limit, maxCostUsd: null })
        let highest = 0
        let sent = 0
        const model = ScriptedModel.make(
          Array.from({ length: 2_000 }, (_, i) => ({
            run: () =>
              Effect.gen(function* () {
                const { spent, reserved } = yield* ledger.balance
                highest = Math.max(highest, spent.tokens + reserved.tokens)
                yield* Effect.sleep(1 + (i % 7))
                sent += 60
                return makeReply({
                  text: null,
                  toolCalls: [call(`c${i}`, "echo", { n: i })],
                  finishReason: "tool_calls",
                  usage: { ...Usage.unknown, promptTokens: 20, completionTokens: 40 }
                })
              })
          }))
        )
        const executor = rawExecutor(model.client, { model: "m", maxOutputTokens: cap })
        const toolbox = yield* Effect.orDie(ToolboxLive.make([echo().one]))
        const agent = subAgent({ name: "ask", description: "", executor, toolbox, parallel: true, maxSteps: 12 })
        const outer = executorOf([
          asks(...Array.from({ length: 64 }, (_, i) => call(`s${i}`, "ask", { task: `task ${i}` }))),
          says("done")
        ])
        const fiber = yield* Effect.forkChild(
          Effect.provideService(runWith(outer.executor, [agent], { concurrency: 64 }), BudgetLedger, ledger)
        )
        const ran = yield* drive(fiber)
        const end = yield* ledger.balance
        assert.strictEqual(end.spent.tokens, sent)
        assert.strictEqual(end.reserved.tokens, 0)
        // One worst case: the cap and the estimated prompt of a short task.
        assert.isAtMost(highest, limit + cap + 1_000)
        assert.isAbove(sent, limit / 2)
        assert.isNull(unpaired(ran.history))
      })
  )
})

describe("early tools", () => {
  const streaming = (parts: ReadonlyArray<ReplyPart | number>): ModelRequestExecutor => ({
    complete: () => Effect.die("not used"),
    stream: () =>
      parts.reduce<Stream.Stream<ReplyPart>>(
        (before, part) =>
          Stream.concat(
            before,
            typeof part === "number" ? Stream.drain(Stream.fromEffect(Effect.sleep(part))) : Stream.make(part)
          ),
        Stream.empty
      ),
    turn: (body) => body
  })
  const ready = (one: ToolCall): ReplyPart => ({
    _tag: "ToolCallReady",
    id: one.id,
    name: one.name,
    arguments: one.arguments
  })
  const runEarly = Effect.fnUntraced(function* (
    parts: ReadonlyArray<ReplyPart | number>,
    tools: ReadonlyArray<ToolboxLive.Tool>
  ) {
    const fiber = yield* Effect.forkChild(
      runWith(streaming(parts), tools, { stream: true, earlyTools: true, maxSteps: 1 })
    )
    return yield* drive(fiber)
  })

  it.effect("starts a safe tool while the reply streams and uses its result once, also after a Reset", () =>
    Effect.gen(function* () {
      const { one, seen } = echo({ repeat: "safe", parallel: true })
      const first = call("a", "echo", { text: "x", n: 1 })
      const again = call("b", "echo", '{"n":1.0, "text":"x"}')
      const ran = yield* runEarly(
        [ready(first), 500, { _tag: "Reset" }, ready(again), 500, { _tag: "Finish", reply: asks(again) }],
        [one]
      )
      assert.strictEqual(seen.length, 1)
      assert.strictEqual(ran.history.at(-1)?.content, "echo x")
    })
  )
  it.effect("never starts a tool early that must not run twice, nor what comes behind it", () =>
    Effect.gen(function* () {
      const never = echo({}, "once")
      const safe = echo({ repeat: "safe", parallel: true })
      yield* runEarly(
        [
          ready(call("a", "once", { text: "x" })),
          ready(call("b", "echo", { text: "y" })),
          500,
          { _tag: "Reset" },
          { _tag: "Finish", reply: says("changed my mind") }
        ],
        [never.one, safe.one]
      )
      assert.deepStrictEqual([never.seen, safe.seen], [[], []])
    })
  )
  it.effect("runs a call anew whose arguments changed, and stops what was started", () =>
    Effect.gen(function* () {
      let stopped = 0
      const slow = ToolboxLive.tool({
        name: "slow",
        description: "",
        parameters: Schema.Struct({ n: Schema.Int }),
        repeat: "safe",
        parallel: true,
        run: ({ n }) =>
          n === 1
            ? Effect.onInterrupt(Effect.never, () => Effect.sync(() => void (stopped += 1)))
            : Effect.succeed(`got ${n}`)
      })
      const final = call("b", "slow", { n: 2 })
      const ran = yield* runEarly(
        [
          ready(call("a", "slow", { n: 1 })),
          500,
          500,
          { _tag: "Reset" },
          ready(final),
          500,
          { _tag: "Finish", reply: asks(final) }
        ],
        [slow]
      )
      assert.strictEqual(stopped, 1)
      assert.strictEqual(ran.history.at(-1)?.content, "got 2")
    })
  )
})
