import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import type { AgentEvent } from "../../../src/domain/agent/AgentEvent.ts"
import { isAssistant, type Message } from "../../../src/domain/chat/Message.ts"
import { unpaired } from "../../../src/domain/chat/MessageGroups.ts"
import { makeModelError } from "../../../src/domain/failure/ModelError.ts"
import type { ToolCall } from "../../../src/domain/chat/ModelReply.ts"
import type { WireRequest } from "../../../src/domain/chat/ModelRequest.ts"
import { defaultContinuationPrompt, RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as Usage from "../../../src/domain/chat/Usage.ts"
import * as BudgetMemory from "../../../src/layers/stores/BudgetMemory.ts"
import * as ConversationMemory from "../../../src/programs/agent/ConversationMemory.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import * as ToolboxLive from "../../../src/layers/ToolboxLive.ts"
import { runAgent } from "../../../src/programs/agent/runAgent.ts"
import { BudgetLedger } from "../../../src/services/BudgetLedger.ts"
import { ModelClient } from "../../../src/services/ModelClient.ts"
import { Recovery } from "../../../src/services/Recovery.ts"
import { Toolbox } from "../../../src/services/Toolbox.ts"
import { runs } from "../../support/runs.ts"
import { worldOver } from "../../support/world.ts"

/** What the model and the network do next. */
const Move = Schema.Literals([
  "text",
  "tool",
  "twoTools",
  "sameTool",
  "brokenArguments",
  "unknownTool",
  "slowTool",
  "failingTool",
  "filtered",
  "refusal",
  "truncatedText",
  "truncatedCall",
  "overloaded",
  "rateLimited",
  "serverError",
  "badRequest",
  "tooLong"
])
type Move = typeof Move.Type

const Plan = Schema.Struct({
  moves: Schema.Array(Move).check(Schema.isMinLength(1), Schema.isMaxLength(30)),
  maxSteps: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 12 })),
  stream: Schema.Boolean,
  early: Schema.Boolean,
  /** Instant of an interruption; 0 = none. */
  interruptAt: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 9_000 })),
  /** 0 = no budget. */
  budget: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 40_000 }))
})

const secret = "fragment-that-must-not-stay"

const stepFor = (move: Move, index: number): ScriptedModel.Step => {
  const usage = { ...Usage.unknown, promptTokens: 100, completionTokens: 50 }
  const call = (name: string, args: unknown, at = 0): ToolCall => ({
    id: `c${index}-${at}`,
    name,
    arguments: typeof args === "string" ? args : JSON.stringify(args)
  })
  const asks = (...toolCalls: ReadonlyArray<ToolCall>): ScriptedModel.Step => ({
    reply: { text: index % 2 === 0 ? null : `thought ${index}`, toolCalls, finishReason: "tool_calls", usage }
  })
  switch (move) {
    case "text":
      return { reply: { text: `answer ${index}`, usage } }
    case "tool":
      return asks(call("once", { n: index }))
    case "twoTools":
      return asks(call("safe", { n: index }), call("once", { n: index }, 1), call("safe", { n: index }, 2))
    case "sameTool":
      return asks(call("safe", { n: 0 }))
    case "brokenArguments":
      return asks(call("safe", '{"n":'))
    case "unknownTool":
      return asks(call("nothing", {}))
    case "slowTool":
      return asks(call("slow", {}), call("once", { n: index }, 1))
    case "failingTool":
      return asks(call("fails", {}))
    case "filtered":
      return { reply: { text: secret, finishReason: "content_filter", usage } }
    case "refusal":
      return { reply: { text: null, refusal: "no", finishReason: "refusal", usage } }
    case "truncatedText":
      return { reply: { text: `piece ${index} `, finishReason: "length", usage } }
    case "truncatedCall":
      return { reply: { text: null, toolCalls: [call("once", '{"n":')], finishReason: "length", usage } }
    case "overloaded":
      return { fail: { kind: "overloaded", status: 529 } }
    case "rateLimited":
      return { fail: { kind: "rate_limited", status: 429 } }
    case "serverError":
      return { fail: { kind: "server_error", status: 500 } }
    case "badRequest":
      return { fail: { kind: "invalid_request", status: 400 } }
    case "tooLong":
      return { fail: { kind: "prompt_too_long", status: 400, code: "context_length_exceeded" } }
  }
}

/** Answers by the plan; what comes after it is text, and summaries are always given. */
const clientOf = (moves: ReadonlyArray<Move>) => {
  let main = 0
  const requests: Array<WireRequest> = []
  const answer = (request: WireRequest) =>
    Effect.suspend(() => {
      if (request.role === "summarizer") return Effect.succeed(ScriptedModel.makeReply({ text: "summary" }))
      requests.push(request)
      const step = stepFor(moves[main] ?? "text", main)
      main += 1
      if ("fail" in step) return Effect.fail(makeModelError({ model: request.model, ...step.fail }))
      if ("run" in step) return step.run(request)
      if (!("reply" in step)) return Effect.die(new Error("no move is cut or silent"))
      const reply = ScriptedModel.makeReply({ model: request.model, ...step.reply })
      return Effect.as(Effect.sleep(20), reply)
    })
  const streamed = ScriptedModel.make(Array.from({ length: 400 }, () => ({ run: answer })))
  return { client: ModelClient.of({ generate: answer, stream: streamed.client.stream }), requests }
}

const policy = new RecoveryPolicy({
  ...RecoveryPolicy.broad,
  routes: [{ model: "primary" }, { model: "second" }],
  routeHealth: null,
  maxAttempts: 6
})

const faultsOf = (messages: ReadonlyArray<Message>): ReadonlyArray<string> => {
  const text = JSON.stringify(messages)
  return [
    ...(unpaired(messages) === null ? [] : [String(unpaired(messages))]),
    ...(messages[0]?.role === "system" ? [] : ["the system prompt is not first"]),
    ...(messages.slice(1).some((message) => message.role === "system") ? ["a second system prompt"] : []),
    ...(text.includes(defaultContinuationPrompt) ? ["a continuation prompt"] : []),
    ...(text.includes(secret) ? ["half a reply"] : []),
    ...(messages.some((message, at) => isAssistant(message) && at > 0 && messages[at - 1]?.role === "assistant")
      ? ["two replies in a row"]
      : [])
  ]
}

it.effect.prop(
  "any model, any fault, any interruption: the loop ends within its cap, and the history is valid and clean",
  { plan: Plan },
  ({ plan }) =>
    Effect.gen(function* () {
      const started = new Map<string, number>()
      const begin = (id: string) => Effect.sync(() => void started.set(id, (started.get(id) ?? 0) + 1))
      const numbered = Schema.Struct({ n: Schema.Int })
      const toolbox = yield* Effect.orDie(
        ToolboxLive.make([
          ToolboxLive.tool({
            name: "once",
            description: "",
            parameters: numbered,
            run: ({ n }, call) => Effect.as(Effect.andThen(begin(call.id), Effect.sleep(30)), `did ${n}`)
          }),
          ToolboxLive.tool({
            name: "safe",
            description: "",
            parameters: numbered,
            parallel: true,
            repeat: "safe",
            run: ({ n }) => Effect.as(Effect.sleep(10), `read ${n}`)
          }),
          ToolboxLive.tool({
            name: "slow",
            description: "",
            parameters: Schema.Struct({}),
            timeout: "2 seconds",
            run: () => Effect.never
          }),
          ToolboxLive.tool({
            name: "fails",
            description: "",
            parameters: Schema.Struct({}),
            run: () => Effect.fail(new Error("no"))
          })
        ])
      )
      const conversation = yield* ConversationMemory.make([
        { role: "system", content: "rules" },
        { role: "user", content: "go" }
      ])
      const ledger = plan.budget === 0 ? null : yield* BudgetMemory.make({ maxTokens: plan.budget, maxCostUsd: null })
      const { client, requests } = clientOf(plan.moves)
      const events: Array<AgentEvent> = []
      const { layer } = worldOver(policy, client)
      const fiber = yield* Effect.forkChild(
        Effect.flatMap(Recovery, (executor) =>
          runAgent(
            {
              executor,
              conversation,
              maxSteps: plan.maxSteps,
              stream: plan.stream,
              earlyTools: plan.early,
              emit: (event) => Effect.sync(() => events.push(event))
            },
            null
          )
        ).pipe(
          Effect.provide(layer),
          Effect.provideService(Toolbox, Toolbox.of(toolbox)),
          Effect.provideService(BudgetLedger, ledger)
        )
      )
      if (plan.interruptAt > 0) {
        yield* TestClock.adjust(plan.interruptAt)
        yield* Fiber.interrupt(fiber)
      }
      for (let round = 0; round < 400 && fiber.pollUnsafe() === undefined; round += 1)
        yield* TestClock.adjust("5 seconds")
      assert.isDefined(fiber.pollUnsafe(), "the loop did not end")
      const exit = yield* Fiber.await(fiber)
      const before = requests.length
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(requests.length, before, "a request after the end")

      const history = yield* conversation.messages
      assert.deepStrictEqual(faultsOf(history), [])
      const replies = history.filter(isAssistant).length
      assert.isAtMost(replies, plan.maxSteps)
      if (Exit.isSuccess(exit)) assert.strictEqual(replies, exit.value.steps)
      for (const [id, times] of started) assert.strictEqual(times, 1, `${id} ran ${times} times`)
      if (ledger !== null) {
        const balance = yield* ledger.balance
        assert.strictEqual(balance.reserved.tokens, 0)
      }
    }),
  { arbitrary: { runs: runs(500) } }
)
