/** What is measured: holdfast over a client, and the request that every row sends. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Message } from "../src/domain/chat/Message.ts"
import { RecoveryPolicy, type RecoveryPolicyInput } from "../src/domain/recovery/RecoveryPolicy.ts"
import * as ModelSummarizer from "../src/layers/ModelSummarizer.ts"
import * as OpenAiModelClient from "../src/layers/provider/OpenAiModelClient.ts"
import * as RecoveryLive from "../src/layers/RecoveryLive.ts"
import { ModelClient } from "../src/services/ModelClient.ts"
import { Recovery, type ModelRequestExecutor } from "../src/services/Recovery.ts"

export const model = "bench-1"

export const messages: ReadonlyArray<Message> = [
  { role: "system", content: "You are a terse harbour master." },
  { role: "user", content: "When does the tide turn, and what must I do with the rope before it does? ".repeat(3) }
]

/** Recovery over a client, built once as an application does. */
export const recoveryOver = (
  client: (typeof ModelClient)["Service"],
  preset: Omit<RecoveryPolicyInput, "routes">
): Promise<ModelRequestExecutor> =>
  Effect.runPromise(
    Effect.provide(
      Recovery,
      RecoveryLive.layer(new RecoveryPolicy({ ...preset, routes: [{ model }] })).pipe(
        Layer.provide(ModelSummarizer.layer({ model })),
        Layer.provide(Layer.succeed(ModelClient, client))
      )
    )
  )

export const clientOf = (
  baseUrl: string,
  options: Omit<OpenAiModelClient.OpenAiOptions, "apiKey" | "baseUrl"> = {}
): (typeof ModelClient)["Service"] => OpenAiModelClient.make({ apiKey: "bench-key", baseUrl, ...options })
