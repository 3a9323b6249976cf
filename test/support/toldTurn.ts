/**
 * A life of a durable turn that streams, as a process of its own: arguments are the journal, the provider's address and the
 * API. Every part its reader is told goes to stdout, one JSON line each.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { ConfigurationError } from "../../src/domain/failure/ConfigurationError.ts"
import { RecoveryPolicy } from "../../src/domain/recovery/RecoveryPolicy.ts"
import * as ModelSummarizer from "../../src/layers/ModelSummarizer.ts"
import * as Anthropic from "../../src/layers/provider/AnthropicModelClient.ts"
import * as OpenAi from "../../src/layers/provider/OpenAiModelClient.ts"
import * as RecoveryLive from "../../src/layers/RecoveryLive.ts"
import * as BudgetMemory from "../../src/layers/stores/BudgetMemory.ts"
import * as JournalSqlite from "../../src/layers/stores/JournalSqlite.ts"
import * as ToolboxLive from "../../src/layers/ToolboxLive.ts"
import { durableTurn } from "../../src/programs/agent/durableTurn.ts"
import type { ModelClient } from "../../src/services/ModelClient.ts"
import { Recovery } from "../../src/services/Recovery.ts"
import { Toolbox } from "../../src/services/Toolbox.ts"

const [path = "", baseUrl = "", api = ""] = process.argv.slice(2)

const tell = (line: unknown): void => void process.stdout.write(`${JSON.stringify(line)}\n`)

const client: Layer.Layer<ModelClient, ConfigurationError> =
  api === "messages"
    ? Anthropic.layer({ baseUrl: baseUrl.replace(/\/v1$/, ""), apiKey: "k" })
    : OpenAi.layer({ baseUrl, apiKey: "k", api: api === "responses" ? "responses" : "chat" })

const recovery = RecoveryLive.layer(
  new RecoveryPolicy({ ...RecoveryPolicy.broad, routes: [{ model: "m", prices: { inputPerM: 1, outputPerM: 1 } }] })
).pipe(Layer.provide(ModelSummarizer.layer({ model: "m" })), Layer.provide(client))

const life = Effect.gen(function* () {
  const store = yield* JournalSqlite.make({ path })
  const executor = yield* Recovery
  const ledger = yield* BudgetMemory.make({ maxTokens: null, maxCostUsd: 100 })
  const none: ReadonlyArray<ToolboxLive.Tool> = []
  const toolbox = yield* ToolboxLive.make(none)
  yield* durableTurn({
    id: "t",
    store,
    executor,
    ledger,
    prompt: "go",
    stream: true,
    ...(api === "responses" ? { params: { background: true } } : {}),
    emit: (event) => Effect.sync(() => event._tag === "PartSeen" && tell(event.part))
  }).pipe(Effect.provideService(Toolbox, Toolbox.of(toolbox)))
  return yield* ledger.balance
})

tell({ _tag: "Ended", balance: await Effect.runPromise(Effect.provide(Effect.scoped(life), recovery)) })
