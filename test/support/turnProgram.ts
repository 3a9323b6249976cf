/** A program of turns for `holdfast turns serve`: its provider is at TURN_PROVIDER, and the file TURN_RAN counts the runs of each tool. */
import { appendFileSync } from "node:fs"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { RecoveryPolicy } from "../../src/domain/recovery/RecoveryPolicy.ts"
import * as ModelSummarizer from "../../src/layers/ModelSummarizer.ts"
import * as OpenAi from "../../src/layers/provider/OpenAiModelClient.ts"
import * as RecoveryLive from "../../src/layers/RecoveryLive.ts"
import type * as TurnsPostgres from "../../src/layers/stores/shared/TurnsPostgres.ts"
import * as ToolboxLive from "../../src/layers/ToolboxLive.ts"
import { durableTurn } from "../../src/programs/agent/durableTurn.ts"
import { Recovery } from "../../src/services/Recovery.ts"
import { Toolbox } from "../../src/services/Toolbox.ts"

const { TURN_PROVIDER: baseUrl = "", TURN_RAN: ran = "" } = process.env

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

/** The program of a turn, as `holdfast turns serve --program` takes it. */
const run: TurnsPostgres.TurnProgram = (order) =>
  Effect.gen(function* () {
    const executor = yield* Recovery
    const toolbox = Toolbox.of(yield* ToolboxLive.make([toolOf("pay", false), toolOf("ask", true)]))
    return yield* Effect.provideService(durableTurn({ ...order, executor }), Toolbox, toolbox)
  }).pipe(Effect.provide(recovery))

export default run
