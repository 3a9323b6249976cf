import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { AgentEvent } from "../../../src/domain/agent/AgentEvent.ts"
import { makeModelError } from "../../../src/domain/failure/ModelError.ts"
import { makeReply } from "../../../src/layers/ScriptedModel.ts"
import * as ToolboxLive from "../../../src/layers/ToolboxLive.ts"
import { subAgent, type SubAgentOptions } from "../../../src/programs/agent/subAgent.ts"
import { asks, call, echo, executorOf, runWith, says } from "../../support/agentRuns.ts"

const agentOver = (answers: Parameters<typeof executorOf>[0], more: Partial<SubAgentOptions> = {}) =>
  Effect.gen(function* () {
    const toolbox = yield* Effect.orDie(ToolboxLive.make([echo().one]))
    const inner = executorOf(answers)
    return { inner, agent: subAgent({ name: "ask", description: "asks", executor: inner.executor, toolbox, ...more }) }
  })

/** What the outer model reads of it. */
const resultOf = (answers: Parameters<typeof executorOf>[0], more: Partial<SubAgentOptions> = {}) =>
  Effect.gen(function* () {
    const { agent, inner } = yield* agentOver(answers, more)
    const outer = executorOf([asks(call("a", "ask", { task: "look" })), says("done")])
    const ran = yield* runWith(outer.executor, [agent])
    return { content: String(ran.history.find(({ role }) => role === "tool")?.content), inner }
  })

describe("a nested agent", () => {
  it.effect("is run as its options say, and by its key where they say nothing", () =>
    Effect.gen(function* () {
      const traits = Effect.map(agentOver([]), ({ agent }) => [agent.traits, agent.timeoutMillis])
      assert.deepStrictEqual(yield* traits, [{ parallel: false, polling: false, repeat: "keyed" }, null])
      const options = { parallel: true, polling: true, repeat: "never", approval: true, timeout: 500 } as const
      const { agent } = yield* agentOver([], { ...options, settle: () => null })
      assert.deepStrictEqual(agent.traits, { parallel: true, polling: true, repeat: "never", approval: true })
      assert.strictEqual(agent.timeoutMillis, 500)
      assert.isDefined(agent.settle)
    })
  )

  it.effect("needs a task", () =>
    Effect.gen(function* () {
      const { agent, inner } = yield* agentOver([says("never")])
      const outer = executorOf([asks(call("a", "ask", { task: "" })), says("done")])
      const ran = yield* runWith(outer.executor, [agent])
      assert.match(String(ran.history.find(({ role }) => role === "tool")?.content), /ask was not run/)
      assert.strictEqual(inner.requests.length, 0)
    })
  )

  it.effect("has rules of its own, or none", () =>
    Effect.gen(function* () {
      const first = (more: Partial<SubAgentOptions>) =>
        Effect.map(resultOf([says("found")], more), ({ inner }) => inner.requests[0]?.messages.map(({ role }) => role))
      assert.deepStrictEqual(yield* first({ system: "rules" }), ["system", "user"])
      assert.deepStrictEqual(yield* first({}), ["user"])
    })
  )

  it.effect("makes as many steps as it may, and tells what happens to whoever asked", () =>
    Effect.gen(function* () {
      const events: Array<AgentEvent["_tag"]> = []
      const spinning = Array.from({ length: 20 }, (_, i) => asks(call(`c${i}`, "echo", { n: i })))
      const emit: SubAgentOptions["emit"] = ({ _tag }) => Effect.sync(() => void events.push(_tag))
      const { inner } = yield* resultOf(spinning, { maxSteps: 2, emit })
      assert.strictEqual(inner.requests.length, 2)
      assert.strictEqual(events.filter((tag) => tag === "StepStarted").length, 2)
      assert.strictEqual((yield* resultOf(spinning)).inner.requests.length, 15)
    })
  )

  it.effect("hands back its text, its refusal, or nothing at all", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* resultOf([says("found")])).content, "found")
      assert.strictEqual((yield* resultOf([makeReply({ text: null, refusal: "I will not" })])).content, "I will not")
      assert.strictEqual((yield* resultOf([makeReply({ text: null })])).content, "")
    })
  )

  it.effect("hands back what ended it, what to do, and its work where there is some", () =>
    Effect.gen(function* () {
      const said = makeReply({ text: "half", toolCalls: [call("i", "echo")], finishReason: "tool_calls" })
      const capped = (yield* resultOf([said], { maxSteps: 1 })).content
      assert.match(capped, /^The tool failed: StepLimitReached: The step cap is reached\..*\nIts work so far:\nhalf$/s)
      const silent = (yield* resultOf([asks(call("i", "echo"))], { maxSteps: 1 })).content
      assert.match(silent, /^The tool failed: StepLimitReached: /)
      assert.notInclude(silent, "work so far")
      const refused = (yield* resultOf([makeModelError({ kind: "auth", status: 401 })])).content
      assert.match(refused, /^The tool failed: ModelAuthenticationError: [^\n]+$/)
    })
  )
})
