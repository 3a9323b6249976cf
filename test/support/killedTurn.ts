/**
 * A life of a durable turn, as a process that may be killed at any moment: arguments are the journal, the provider's address
 * and a file that counts the runs of each tool. It says `done` when the turn has ended.
 */
import { appendFileSync } from "node:fs"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { RecoveryPolicy } from "../../src/domain/recovery/RecoveryPolicy.ts"
import * as ModelSummarizer from "../../src/layers/ModelSummarizer.ts"
import * as OpenAi from "../../src/layers/provider/OpenAiModelClient.ts"
import * as RecoveryLive from "../../src/layers/RecoveryLive.ts"
import * as JournalSqlite from "../../src/layers/stores/JournalSqlite.ts"
import * as ToolboxLive from "../../src/layers/ToolboxLive.ts"
import { durableTurn } from "../../src/programs/agent/durableTurn.ts"
import { Recovery } from "../../src/services/Recovery.ts"
import { Toolbox } from "../../src/services/Toolbox.ts"

const [path = "", baseUrl = "", counts = ""] = process.argv.slice(2)

const toolOf = (name: string, repeat: "safe" | "never") =>
  ToolboxLive.tool({
    name,
    description: name,
    parameters: Schema.Struct({ n: Schema.Int }),
    run: ({ n }, { key }) => Effect.sync(() => (appendFileSync(counts, `${name} ${key ?? ""}\n`), `${name} ${n}`)),
    repeat,
    parallel: repeat === "safe"
  })

const recovery = RecoveryLive.layer(new RecoveryPolicy({ ...RecoveryPolicy.broad, routes: [{ model: "m" }] })).pipe(
  Layer.provide(ModelSummarizer.layer({ model: "m" })),
  Layer.provide(OpenAi.layer({ baseUrl, apiKey: "k" }))
)

const life = Effect.gen(function* () {
  const store = yield* JournalSqlite.make({ path })
  const executor = yield* Recovery
  const toolbox = yield* ToolboxLive.make([toolOf("look", "safe"), toolOf("pay", "never")])
  const turn = durableTurn({ id: "t", store, executor, prompt: "go", stream: true })
  return yield* Effect.provideService(turn, Toolbox, Toolbox.of(toolbox))
})

const { reply } = await Effect.runPromise(Effect.provide(Effect.scoped(life), recovery))
process.stdout.write(`${reply.text}\n`)
