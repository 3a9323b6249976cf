/** holdfast as it is measured: four policies, each with a memory of its own as a process has. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { RecoveryPolicy, type RecoveryPolicyInput } from "../../src/domain/recovery/RecoveryPolicy.ts"
import * as HealthMemory from "../../src/layers/stores/HealthMemory.ts"
import * as ModelSummarizer from "../../src/layers/ModelSummarizer.ts"
import * as OpenAiModelClient from "../../src/layers/provider/OpenAiModelClient.ts"
import * as RecoveryLive from "../../src/layers/RecoveryLive.ts"
import { Recovery } from "../../src/services/Recovery.ts"
import { fallback, primary } from "./cases.ts"
import type { Subject } from "./peers.ts"

const policies = {
  "holdfast strict": { ...RecoveryPolicy.strict, routes: [{ model: primary }] },
  "holdfast strict, 5xx too": {
    ...RecoveryPolicy.strict,
    retry: [...RecoveryPolicy.strict.retry, "serverError"],
    routes: [{ model: primary }]
  },
  "holdfast broad": { ...RecoveryPolicy.broad, routes: [{ model: primary }] },
  "holdfast broad, with a fallback": { ...RecoveryPolicy.broad, routes: [{ model: primary }, { model: fallback }] }
} satisfies Readonly<Record<string, RecoveryPolicyInput>>

export const holdfastNames = Object.keys(policies)

const isPolicy = (name: string): name is keyof typeof policies => Object.hasOwn(policies, name)

/** null = no policy has the name. */
export const makeHoldfast = (name: string, baseUrl: string, deadlineMillis?: number): Subject | null => {
  if (!isPolicy(name)) return null
  const { runPromise } = ManagedRuntime.make(
    RecoveryLive.layer(
      new RecoveryPolicy({ ...policies[name], ...(deadlineMillis === undefined ? {} : { deadline: deadlineMillis }) })
    ).pipe(
      Layer.provide(ModelSummarizer.layer({ model: primary })),
      Layer.provide(OpenAiModelClient.layer({ apiKey: "bench-key", baseUrl: `${baseUrl}/v1` })),
      Layer.provideMerge(HealthMemory.layer())
    )
  )
  return {
    name,
    ask: (prompt) =>
      runPromise(
        Effect.gen(function* () {
          const { complete } = yield* Recovery
          const reply = yield* complete({ messages: [{ role: "user", content: prompt }] })
          return reply.text ?? ""
        })
      )
  }
}
