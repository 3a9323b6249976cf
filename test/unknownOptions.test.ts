import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ModelClient, ModelSummarizer, Recovery, RecoveryLive, RecoveryPolicy } from "../src/index.ts"
import { ConversationMemory, rawExecutor, runAgent, subAgent, ToolboxLive } from "../src/agent.ts"
import { createRecovery } from "../src/promise.ts"
import { ScriptedModel } from "../src/testing.ts"

const policy = new RecoveryPolicy({ routes: [{ model: "m" }] })
const { client, requests } = ScriptedModel.make([])
const model = Layer.succeed(ModelClient, client)

/** What each door says to options with one name too many. */
const doors: Readonly<Record<string, (more: object) => unknown>> = {
  createRecovery: (more) => createRecovery({ policy, client, ...more }),
  "createRecovery, policy": (more) => createRecovery({ policy: { routes: [{ model: "m" }], ...more }, client }),
  "RecoveryLive.layer": (more) =>
    Effect.runPromise(
      Effect.asVoid(Recovery).pipe(
        Effect.provide(
          RecoveryLive.layer(policy, more).pipe(
            Layer.provide(ModelSummarizer.layer({ model: "m" })),
            Layer.provide(model)
          )
        )
      )
    ),
  "ModelSummarizer.make": (more) => ModelSummarizer.make(client, { model: "m", ...more }),
  "ModelSummarizer.layer": (more) => ModelSummarizer.layer({ model: "m", ...more }),
  rawExecutor: (more) => rawExecutor(client, { model: "m", maxOutputTokens: 1, ...more }),
  subAgent: (more) =>
    subAgent({
      name: "n",
      description: "d",
      executor: rawExecutor(client, { model: "m", maxOutputTokens: 1 }),
      toolbox: Effect.runSync(ToolboxLive.make([])),
      ...more
    }),
  runAgent: (more) =>
    runAgent(
      {
        executor: rawExecutor(client, { model: "m", maxOutputTokens: 1 }),
        conversation: Effect.runSync(ConversationMemory.make()),
        ...more
      },
      "go"
    )
}

describe.each(Object.keys(doors))("%s", (door) => {
  it.each(["maxRetries", "modelName", "__proto__x", "Clients", "toString"])("refuses %s", async (name) => {
    const said = await Promise.resolve()
      .then(() => doors[door]?.({ [name]: "SECRET" }))
      .then(
        () => "taken",
        (cause: unknown) => (cause instanceof Error ? cause.message : String(cause))
      )
    assert.match(said, new RegExp(`^${name} is not a(n option| field)`))
    assert.notInclude(said, "SECRET")
    assert.strictEqual(requests.length, 0)
  })
})
