/**
 * A runner of turns, as a process that may be killed at any moment: `turnRunner.ts DATABASE PORT PROVIDER FILE`. The file counts
 * the runs of each tool.
 */
import { appendFileSync } from "node:fs"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { RecoveryPolicy } from "../../src/domain/recovery/RecoveryPolicy.ts"
import * as ModelSummarizer from "../../src/layers/ModelSummarizer.ts"
import * as OpenAi from "../../src/layers/provider/OpenAiModelClient.ts"
import * as RecoveryLive from "../../src/layers/RecoveryLive.ts"
import * as TurnsPostgres from "../../src/layers/stores/shared/TurnsPostgres.ts"
import * as ToolboxLive from "../../src/layers/ToolboxLive.ts"
import { durableTurn } from "../../src/programs/agent/durableTurn.ts"
import { Recovery } from "../../src/services/Recovery.ts"
import { Toolbox } from "../../src/services/Toolbox.ts"

const [database = "", port = "", baseUrl = "", ran = ""] = process.argv.slice(2)

const toolOf = (name: string, approval: boolean) =>
  ToolboxLive.tool({
    name,
    description: name,
    parameters: Schema.Struct({ n: Schema.Int }),
    run: ({ n }, { key }) => Effect.sync(() => (appendFileSync(ran, `${name} ${key ?? ""}\n`), `${name} ${n}`)),
    repeat: "never",
    approval
  })

const recovery = RecoveryLive.layer(new RecoveryPolicy({ ...RecoveryPolicy.broad, routes: [{ model: "m" }] })).pipe(
  Layer.provide(ModelSummarizer.layer({ model: "m" })),
  Layer.provide(OpenAi.layer({ baseUrl, apiKey: "k" }))
)

const program = Effect.gen(function* () {
  const executor = yield* Recovery
  const toolbox = Toolbox.of(yield* ToolboxLive.make([toolOf("pay", false), toolOf("ask", true)]))
  const runner = TurnsPostgres.runner({
    database: Redacted.make(database),
    host: "127.0.0.1",
    port: Number(port),
    run: (order) => Effect.provideService(durableTurn({ ...order, executor }), Toolbox, toolbox)
  })
  yield* Layer.build(runner)
  process.stdout.write("ready\n")
  return yield* Effect.never
})

const toStderr = Logger.layer([Logger.make(({ message }) => void process.stderr.write(`${String(message)}\n`))])
await Effect.runPromise(Effect.scoped(program).pipe(Effect.provide(recovery), Effect.provide(toStderr)))
