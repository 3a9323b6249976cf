/**
 * One run of a tool inside a span of its own, by the conventions' name for it: never its arguments, never its result. What
 * a toolbox of the caller's own returns is made a result here.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { isFailure, sound, type ToolResult } from "../../domain/agent/ToolResult.ts"
import type { ToolCall } from "../../domain/chat/ModelReply.ts"
import type { ToolboxShape } from "../../services/Toolbox.ts"
import { errorTypeOf, inSpan, known } from "../request/spans.ts"

export const runTool = (toolbox: ToolboxShape, call: ToolCall): Effect.Effect<ToolResult> =>
  inSpan(Effect.map(toolbox.run(call), sound), () => ({
    name: `execute_tool ${call.name}`,
    begin: () => ({
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": call.name,
      "gen_ai.tool.call.id": call.id,
      "gen_ai.tool.type": "function"
    }),
    end: (exit) =>
      known({
        "error.type": !Exit.isSuccess(exit)
          ? errorTypeOf(exit)
          : isFailure(exit.value)
            ? (exit.value.errorTag ?? exit.value.kind)
            : null
      })
  }))
