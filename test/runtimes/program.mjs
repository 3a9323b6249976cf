/** What every runtime must do: ask, meet an overload, stream, run an agent's tool, and close. Bundled, or run as it is. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ConversationMemory, runAgent, ToolboxLive } from "../../dist/agent.js"
import * as anthropic from "../../dist/anthropic.js"
import { ModelClient, ModelSummarizer, Recovery, RecoveryLive, RecoveryPolicy } from "../../dist/index.js"
import * as openai from "../../dist/openai.js"
import { createRecovery } from "../../dist/promise.js"

const ask = { messages: [{ role: "user", content: "go" }] }
const policy = new RecoveryPolicy({
  ...RecoveryPolicy.broad,
  routes: [{ model: "m" }],
  backoff: { base: 10, cap: 20 },
  deadline: 20_000
})

const spoken = async (client) => {
  const recovery = createRecovery({ policy, client, health: "own" })
  const whole = (await recovery.complete(ask)).text
  let streamed = ""
  for await (const part of recovery.stream(ask)) if (part._tag === "TextDelta") streamed += part.text
  await recovery.close()
  return `${whole}/${streamed}`
}

/** A step of an agent with a tool, through the same adapter. */
const acted = (client) => {
  const toolbox = ToolboxLive.layer([
    ToolboxLive.fromJsonSchema({ type: "function", function: { name: "add" } }, () => ({ sum: 5 }))
  ])
  const recovery = RecoveryLive.layer(policy, { clients: {} }).pipe(
    Layer.provide(ModelSummarizer.layer({ model: "m" })),
    Layer.provide(Layer.succeed(ModelClient, client))
  )
  return Effect.runPromise(
    Effect.gen(function* () {
      const conversation = yield* ConversationMemory.make()
      yield* runAgent({ executor: yield* Recovery, conversation }, "use the tool")
      return (yield* conversation.messages).map((message) => message.role).join()
    }).pipe(Effect.provide(Layer.mergeAll(recovery, toolbox)))
  )
}

/** One line that says what was done. */
export const perform = async (origin) => {
  const chat = openai.make({ apiKey: () => "sk-test-12345678", baseUrl: `${origin}/v1` })
  const messages = anthropic.make({ apiKey: "sk-test-12345678", baseUrl: origin })
  return [await spoken(chat), await spoken(messages), await acted(chat)].join(" ")
}
