import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ToolResult } from "../../../src/domain/agent/ToolResult.ts"
import * as ToolboxLive from "../../../src/layers/ToolboxLive.ts"
import { runTool } from "../../../src/programs/agent/toolSpan.ts"
import { asks, call, echo, executorOf, runWith, says } from "../../support/agentRuns.ts"
import { attributesOf, recorder } from "../../support/spans.ts"

describe("whoever traces an agent", () => {
  it.effect("sees its turn with counts, and a span for each tool, by the conventions' names", () =>
    Effect.gen(function* () {
      const { spans, tracer } = recorder()
      const { executor } = executorOf([asks(call("a", "echo"), call("b", "echo", { n: 1 })), says("done")])
      yield* Effect.withTracer(runWith(executor, [echo().one]), tracer)
      assert.deepStrictEqual(
        spans.map(({ name }) => name),
        ["invoke_agent", "execute_tool echo", "execute_tool echo"]
      )
      assert.deepStrictEqual(attributesOf(spans[0]), {
        "gen_ai.operation.name": "invoke_agent",
        "holdfast.agent.steps": 2,
        "holdfast.agent.tool_calls": 2
      })
    })
  )

  it.effect("sees what a turn failed with, and no counts of it", () =>
    Effect.gen(function* () {
      const { spans, tracer } = recorder()
      const { executor } = executorOf([asks(call("a", "echo"))])
      yield* Effect.withTracer(runWith(executor, [echo().one], { maxSteps: 1 }), tracer)
      assert.deepStrictEqual(attributesOf(spans[0]), {
        "gen_ai.operation.name": "invoke_agent",
        "error.type": "StepLimitReached"
      })
    })
  )

  it.effect.each<readonly [string, Effect.Effect<unknown, unknown>, string]>([
    ["the tag of its error", Effect.fail({ _tag: "NotFound" }), "NotFound"],
    ["what became of it where it has none", Effect.never, "timed_out"]
  ])("sees of a tool that failed %s", ([, run, type]) =>
    Effect.gen(function* () {
      const { spans, tracer } = recorder()
      const one = ToolboxLive.tool({
        name: "read",
        description: "",
        parameters: Schema.Struct({}),
        run: () => run,
        timeout: 0
      })
      const toolbox = yield* ToolboxLive.make([one])
      yield* Effect.withTracer(runTool(toolbox, call("c", "read")), tracer)
      assert.strictEqual(attributesOf(spans[0])["error.type"], type)
    })
  )

  it.effect("sees what a toolbox died of", () =>
    Effect.gen(function* () {
      const { spans, tracer } = recorder()
      const toolbox = {
        specs: Effect.succeed([]),
        traits: () => ({ polling: false, parallel: true, repeat: "safe" as const }),
        run: (): Effect.Effect<ToolResult> => Effect.die(new TypeError("a bug")),
        interrupt: () => Effect.succeed(false)
      }
      yield* Effect.exit(Effect.withTracer(runTool(toolbox, call("c", "read")), tracer))
      assert.isString(attributesOf(spans[0])["error.type"])
    })
  )
})
