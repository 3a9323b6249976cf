/**
 * A chat of effect/ai with the tools of an MCP server, over a recovered model. The provider here is a script that fails
 * before the tool call, in it and after it; put `layer()` of holdfast/openai or holdfast/anthropic in its place.
 */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Effect, Layer } from "effect"
import { Chat, McpClient, McpProtocol } from "effect/ai"
import { ChildProcess } from "effect/process"
import { ModelClient, ModelSummarizer, RecoveryLive, RecoveryPolicy } from "holdfast"
import * as HoldfastAi from "holdfast/ai"
import { ScriptedModel } from "holdfast/testing"
import { fileURLToPath } from "node:url"

const [counter = "/dev/null"] = process.argv.slice(2)

const busy = { fail: { kind: "overloaded", status: 529 } } as const
const provider = ScriptedModel.make([
  busy,
  { cut: "Let me " },
  {
    reply: {
      text: "look.",
      toolCalls: [{ id: "c1", name: "in_stock", arguments: '{"article":"lamp"}' }],
      finishReason: "tool_calls"
    }
  },
  busy,
  { reply: { text: "Seven lamps are in stock." } }
])

const policy = new RecoveryPolicy({
  ...RecoveryPolicy.broad,
  routes: [{ model: "large" }],
  backoff: { base: 1, cap: 1 }
})

const model = HoldfastAi.layer().pipe(
  Layer.provide(RecoveryLive.layer(policy)),
  Layer.provide(ModelSummarizer.layer({ model: "large" })),
  Layer.provide(Layer.succeed(ModelClient, provider.client))
)

const server = McpClient.layerStdio({
  name: "agent",
  version: "1.0.0",
  protocol: McpProtocol.v2026_07_28,
  command: ChildProcess.make(process.execPath, [fileURLToPath(new URL("./stock.ts", import.meta.url)), counter])
}).pipe(Layer.provide(NodeServices.layer))

const program = Effect.gen(function* () {
  const toolkit = yield* McpClient.toolkit(yield* McpClient.McpClient)
  const chat = yield* Chat.empty
  let answer = yield* chat.generateText({ prompt: "How many lamps are in stock?", toolkit })
  // A turn ends when the model asks for nothing more.
  while (answer.finishReason === "tool-calls") answer = yield* chat.generateText({ prompt: [], toolkit })
  console.log(answer.text)
})

program.pipe(Effect.provide([model, server]), NodeRuntime.runMain)
