import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import { isAgentError, type AgentError } from "../../../src/domain/failure/AgentError.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as Usage from "../../../src/domain/chat/Usage.ts"
import * as BudgetMemory from "../../../src/layers/stores/BudgetMemory.ts"
import * as ConversationMemory from "../../../src/programs/agent/ConversationMemory.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import * as ToolboxLive from "../../../src/layers/ToolboxLive.ts"
import { rawExecutor } from "../../../src/programs/agent/rawExecutor.ts"
import { runAgent, type AgentOptions } from "../../../src/programs/agent/runAgent.ts"
import { subAgent } from "../../../src/programs/agent/subAgent.ts"
import { BudgetLedger, type LedgerShape } from "../../../src/services/BudgetLedger.ts"
import { Recovery, type ModelRequestExecutor } from "../../../src/services/Recovery.ts"
import { Toolbox } from "../../../src/services/Toolbox.ts"
import { worldOver } from "../../support/world.ts"

const usage = { ...Usage.unknown, promptTokens: 20, completionTokens: 40 }

const asks = (name: string, args: unknown = {}): ScriptedModel.Step => ({
  reply: {
    text: null,
    finishReason: "tool_calls",
    usage,
    toolCalls: [{ id: "c", name, arguments: JSON.stringify(args) }]
  }
})
const stopped = (finishReason: "content_filter" | "length"): ScriptedModel.Step => ({
  reply: { text: "half", finishReason, usage }
})
const overloaded: ScriptedModel.Step = { fail: { kind: "overloaded", status: 529 } }

const look = ToolboxLive.tool({
  name: "look",
  description: "looks",
  parameters: Schema.Struct({ n: Schema.optionalKey(Schema.Int) }),
  run: () => Effect.as(Effect.sleep(1_000), "seen")
})

/** The executor of a script: through recovery, or the client as it is. */
const executorOf = (steps: ReadonlyArray<ScriptedModel.Step>, how: "recovery" | "raw") => {
  const model = ScriptedModel.make(steps)
  if (how === "raw") return Effect.succeed(rawExecutor(model.client, { model: "large", maxOutputTokens: 50 }))
  const policy = new RecoveryPolicy({
    ...RecoveryPolicy.broad,
    backoff: { base: 100, cap: 100, jitter: 0 },
    routes: [{ model: "large" }]
  })
  return Effect.provide(Recovery, worldOver(policy, model.client).layer)
}

const failureOf = Effect.fnUntraced(function* (
  executor: ModelRequestExecutor,
  options: Partial<AgentOptions> & { readonly ledger?: LedgerShape; readonly tools?: ReadonlyArray<ToolboxLive.Tool> }
) {
  const { ledger = null, tools = [look], ...rest } = options
  const conversation = yield* ConversationMemory.make()
  const toolbox = yield* Effect.orDie(ToolboxLive.make(tools))
  const fiber = yield* runAgent({ executor, conversation, ...rest }, "go").pipe(
    Effect.provideService(Toolbox, Toolbox.of(toolbox)),
    Effect.provideService(BudgetLedger, ledger),
    Effect.exit,
    Effect.forkChild
  )
  yield* TestClock.adjust("5 minutes")
  const exit = yield* Fiber.join(fiber)
  const reason = Exit.isFailure(exit) ? exit.cause.reasons[0] : undefined
  if (reason?._tag !== "Fail" || !isAgentError(reason.error)) throw new Error("no failure of the agent")
  return reason.error
})

const shown = (error: AgentError) => ({
  tag: error._tag,
  attempts: error.attempts,
  trail: error.trail.map((entry) => `${entry.outcome} ${entry.status}`),
  started: error.trail.map((entry) => entry.startedMs)
})

describe("the failure of an agent carries every request of its turn", () => {
  it.effect.each([
    {
      tag: "StepLimitReached",
      steps: [asks("look", { n: 1 }), overloaded, asks("look", { n: 2 })],
      options: { maxSteps: 2 },
      trail: ["ok 200", "overloaded 529", "ok 200"],
      // The tool takes a second, the wait a tenth of one.
      started: [0, 1_000, 1_100]
    },
    {
      tag: "LoopBroken",
      steps: Array.from({ length: 8 }, () => asks("look")),
      options: {},
      trail: Array.from({ length: 8 }, () => "ok 200"),
      started: Array.from({ length: 8 }, (_, at) => at * 1_000)
    },
    {
      tag: "ContentFilteredError",
      steps: [asks("look"), stopped("content_filter")],
      options: {},
      trail: ["ok 200", "ok 200"],
      started: [0, 1_000]
    }
  ])("$tag", ({ tag, steps, options, trail, started }) =>
    Effect.gen(function* () {
      for (const stream of [false, true]) {
        const error = yield* failureOf(yield* executorOf(steps, "recovery"), { ...options, stream })
        assert.deepStrictEqual(shown(error), { tag, attempts: trail.length, trail, started })
      }
    })
  )

  it.effect("TruncatedReplyError, without recovery", () =>
    Effect.gen(function* () {
      for (const stream of [false, true]) {
        const executor = yield* executorOf([asks("look"), stopped("length")], "raw")
        const error = yield* failureOf(executor, { stream })
        assert.deepStrictEqual(shown(error), {
          tag: "TruncatedReplyError",
          attempts: 2,
          trail: ["ok 200", "ok 200"],
          started: [0, 1_000]
        })
        assert.deepStrictEqual(
          error.trail.map((entry) => [entry.model, entry.maxOutputTokens, entry.usage.completionTokens]),
          [
            ["large", 50, 40],
            ["large", 50, 40]
          ]
        )
      }
    })
  )

  it.effect("BudgetExceeded, whether a reply used the budget up or a request is not admitted", () =>
    Effect.gen(function* () {
      for (const [maxTokens, sent] of [
        [60, 1],
        [100, 2]
      ] as const) {
        const ledger = yield* BudgetMemory.make({ maxTokens, maxCostUsd: null })
        // The second reply is cut, and there is nothing left for a raise.
        const executor = yield* executorOf([asks("look"), stopped("length")], "recovery")
        const error = yield* failureOf(executor, { ledger })
        assert.deepStrictEqual([error._tag, error.attempts, error.trail.length], ["BudgetExceeded", sent, sent])
      }
    })
  )

  it.effect("but none of the requests of a sub-agent, which has a turn of its own", () =>
    Effect.gen(function* () {
      const inner = yield* executorOf([{ reply: { text: "found", usage } }], "recovery")
      const toolbox = yield* Effect.orDie(ToolboxLive.make([look]))
      const ask = subAgent({ name: "ask", description: "", executor: inner, toolbox })
      const executor = yield* executorOf([asks("ask", { task: "find" })], "recovery")
      const error = yield* failureOf(executor, { maxSteps: 1, tools: [ask] })
      assert.deepStrictEqual([error.attempts, error.trail.length], [1, 1])
    })
  )
})
