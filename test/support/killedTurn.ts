/**
 * A life of many durable turns at once, as a process that kills itself with SIGKILL at a moment of its journals, or is killed
 * from outside. Its one argument is JSON (`Life`). It says `done` when every turn has come to its end.
 */
import { appendFileSync } from "node:fs"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { RecoveryPolicy } from "../../src/domain/recovery/RecoveryPolicy.ts"
import * as ModelSummarizer from "../../src/layers/ModelSummarizer.ts"
import * as OpenAi from "../../src/layers/provider/OpenAiModelClient.ts"
import * as RecoveryLive from "../../src/layers/RecoveryLive.ts"
import * as BudgetMemory from "../../src/layers/stores/BudgetMemory.ts"
import * as JournalSqlite from "../../src/layers/stores/JournalSqlite.ts"
import * as ToolboxLive from "../../src/layers/ToolboxLive.ts"
import { durableTurn } from "../../src/programs/agent/durableTurn.ts"
import type { JournalShape } from "../../src/services/Journal.ts"
import type { JournalStoreShape } from "../../src/services/JournalStore.ts"
import { DeadlineOverride } from "../../src/services/Overrides.ts"
import { Recovery } from "../../src/services/Recovery.ts"
import { Toolbox } from "../../src/services/Toolbox.ts"

export interface Life {
  readonly path: string
  readonly baseUrl: string
  /** One line per run of a tool: its name, and the key of the call. */
  readonly ran: string
  /** One JSON line per turn that has ended: its name, how, and what is booked. */
  readonly ended: string
  readonly turns: ReadonlyArray<{
    readonly id: string
    readonly maxTokens: number | null
    readonly deadlineMillis: number | null
  }>
  /** Dies at this moment of its journals, counted over all turns; null = it is killed from outside, or not at all. */
  readonly diesAt: number | null
}

const life = JSON.parse(process.argv[2] ?? "") as Life

let moments = 0
/** One of them is the last: what is on the disk then is all that is left. */
const moment = Effect.sync(() => {
  moments += 1
  if (moments !== life.diesAt) return
  process.kill(process.pid, "SIGKILL")
  // Nothing more is done, however long the signal takes.
  while (true);
})

const around = <A, E, R>(body: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.andThen(moment, Effect.tap(body, moment))

/** Before and behind everything that is kept, and between a step's work and its end. */
const mortal = (journal: JournalShape): JournalShape => ({
  ...journal,
  step: (key, options, run) => around(journal.step(key, options, around(run))),
  open: (key, value) => around(journal.open(key, value)),
  tell: (key, text) => around(journal.tell(key, text))
})

const mortalStore = (store: JournalStoreShape): JournalStoreShape => ({
  ...store,
  own: (turn) => Effect.map(around(store.own(turn)), mortal),
  setStatus: (turn, status) => around(store.setStatus(turn, status))
})

const toolOf = (name: string, repeat: "safe" | "keyed" | "never") =>
  ToolboxLive.tool({
    name,
    description: name,
    parameters: Schema.Struct({ n: Schema.Int }),
    run: ({ n }, { key }) =>
      around(Effect.sync(() => (appendFileSync(life.ran, `${name} ${key ?? ""}\n`), `${name} ${n}`))),
    repeat,
    parallel: repeat === "safe"
  })

const prices = { inputPerM: 1, outputPerM: 1 }
const policy = new RecoveryPolicy({
  ...RecoveryPolicy.broad,
  routes: [{ model: "m", prices }],
  initialMaxTokens: 100,
  escalatedMaxTokens: 200,
  maxAttempts: null,
  hardCap: null,
  fallbackAfter: {},
  backoff: { base: 20, factor: 1.5, cap: 60, jitter: 0.25 }
})

const recovery = RecoveryLive.layer(policy).pipe(
  Layer.provide(ModelSummarizer.layer({ model: "m" })),
  Layer.provide(OpenAi.layer({ baseUrl: life.baseUrl, apiKey: "k" }))
)

const one = Effect.fnUntraced(function* (
  store: JournalStoreShape,
  { id, maxTokens, deadlineMillis }: Life["turns"][number]
) {
  const executor = yield* Recovery
  const toolbox = yield* ToolboxLive.make([toolOf("look", "safe"), toolOf("send", "keyed"), toolOf("pay", "never")])
  const ledger = yield* BudgetMemory.make({ maxTokens, maxCostUsd: null })
  const exit = yield* Effect.exit(
    durableTurn({ id, store, executor, ledger, prompt: id, stream: true }).pipe(
      Effect.provideService(Toolbox, Toolbox.of(toolbox)),
      Effect.provideService(DeadlineOverride, deadlineMillis)
    )
  )
  const { spent } = yield* ledger.balance
  const failure = Exit.isFailure(exit) ? exit.cause.reasons.find(({ _tag }) => _tag === "Fail") : undefined
  const how = Exit.isSuccess(exit)
    ? exit.value.reply.text
    : failure === undefined
      ? "?"
      : (failure as { readonly error: { readonly _tag: string } }).error._tag
  appendFileSync(life.ended, `${JSON.stringify({ id, how, tokens: spent.tokens })}\n`)
})

const all = Effect.gen(function* () {
  const store = mortalStore(yield* JournalSqlite.make({ path: life.path }))
  yield* Effect.forEach(life.turns, (turn) => one(store, turn), { concurrency: "unbounded", discard: true })
})

await Effect.runPromise(Effect.provide(Effect.scoped(all), recovery))
process.stdout.write("done\n")
