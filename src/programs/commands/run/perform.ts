/** One run: the parts it is made of, the turn, and how it ends. */
import { realpath } from "node:fs/promises"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import { spentIn, type Amount } from "../../../domain/budget/Budget.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { exitCodeOf, exitCodes } from "../../../domain/failure/exitCode.ts"
import { renderFailure } from "../../../domain/failure/renderFailure.ts"
import * as ModelSummarizer from "../../../layers/ModelSummarizer.ts"
import * as RecoveryLive from "../../../layers/RecoveryLive.ts"
import * as BudgetMemory from "../../../layers/stores/BudgetMemory.ts"
import * as EventsMemory from "../../../layers/stores/EventsMemory.ts"
import * as ToolboxLive from "../../../layers/ToolboxLive.ts"
import { SystemPrompt } from "../../../services/AgentHooks.ts"
import { BudgetLedger, type LedgerShape } from "../../../services/BudgetLedger.ts"
import { ModelClient } from "../../../services/ModelClient.ts"
import { Recovery } from "../../../services/Recovery.ts"
import { Toolbox } from "../../../services/Toolbox.ts"
import type { AgentResult } from "../../agent/runAgent.ts"
import { exitWith } from "../exit.ts"
import { journalName, loadJournal, withoutSqlite } from "../journalFile.ts"
import { childGroups } from "./childGroups.ts"
import { folderTools } from "./folderTools.ts"
import { inJournal } from "./inJournal.ts"
import type { Input } from "./input.ts"
import { inSessionFile } from "./inSessionFile.ts"
import type { KeptTurn, RunFailure } from "./keeping.ts"
import { makeOutput, type Ending, type Output } from "./output.ts"
import { makeSummary } from "./summary.ts"
import { targetOf, type Target } from "./target.ts"

const systemPrompt = (dir: string, allow: boolean): string =>
  [
    `You work in the folder ${dir}. Paths are relative to it; nothing outside it can be reached.`,
    allow
      ? "You may read and change files and run shell commands."
      : "You may look at files; you cannot change anything.",
    "Use the tools to find out; do not guess. When the task is done, say briefly what you did."
  ].join("\n")

const exitCodeOfFailure = (failure: RunFailure): number =>
  exitCodeOf({
    tag: failure._tag,
    lastCause: "lastCause" in failure ? failure.lastCause : null,
    reason: "reason" in failure ? failure.reason : null,
    resetAt: "resetAt" in failure ? failure.resetAt : null
  })

/** The second Ctrl-C ends the process at once; the first one is the runtime's. */
const killOnSecond = Effect.acquireRelease(
  Effect.sync(() => {
    let count = 0
    const onSignal = (): void => {
      count += 1
      if (count > 1) process.exit(exitCodes.interrupted)
    }
    process.on("SIGINT", onSignal)
    return onSignal
  }),
  (onSignal) => Effect.sync(() => process.removeListener("SIGINT", onSignal))
)

const folderOf = (path: string): Effect.Effect<string, ConfigurationError> =>
  Effect.tryPromise({
    try: () => realpath(path),
    catch: () => new ConfigurationError({ field: "--dir", reason: `(${path}) does not exist` })
  })

interface Parts {
  readonly input: Input
  readonly dir: string
  readonly target: Target
  readonly output: Output
  readonly turn: KeptTurn
  readonly toolbox: (typeof Toolbox)["Service"]
  readonly ledger: LedgerShape
}

/** The turn of the agent with all it needs. */
const turnOf = ({ input, dir, target, output, turn, toolbox, ledger }: Parts) =>
  Effect.gen(function* () {
    const recovery = RecoveryLive.layer(target.policy).pipe(
      Layer.provide(ModelSummarizer.layer({ model: target.policy.routes[0].model })),
      Layer.provide(Layer.succeed(ModelClient, target.client)),
      Layer.provide(EventsMemory.layerTo(output.onRecovery))
    )
    return yield* Effect.flatMap(Recovery, (executor) =>
      turn.run({ executor, maxSteps: input.maxSteps, stream: true, emit: output.onAgent })
    ).pipe(
      Effect.provide(recovery),
      Effect.provideService(Toolbox, Toolbox.of(toolbox)),
      Effect.provideService(BudgetLedger, ledger),
      Effect.provideService(SystemPrompt, Effect.succeed(systemPrompt(dir, input.allow)))
    )
  })

type TurnFailure = RunFailure | ConfigurationError

const endingOf = ({ reply }: AgentResult): Ending => ({
  ok: true,
  words: null,
  fields: { reply: reply.text, refusal: reply.refusal, model: reply.model }
})

const failedEnding = (failure: RunFailure, exitCode: number): Ending => ({
  ok: false,
  words: renderFailure(failure, { providerMessage: true }),
  fields: { error: failure._tag, guidance: failure.guidance, exitCode }
})

const interruptedEnding: Ending = {
  ok: false,
  words: "interrupted: what was finished is saved",
  fields: { interrupted: true }
}

/** An ending whose history is not on disk says so, whatever else it says. */
const withFault = (ending: Ending, fault: string | null): Ending =>
  fault === null
    ? ending
    : {
        ...ending,
        words: [ending === interruptedEnding ? "interrupted" : ending.words, `holdfast: ${fault}`]
          .filter((line) => line !== null)
          .join("\n"),
        fields: { ...ending.fields, sessionFault: fault }
      }

/** Says how the turn ended, and ends the command with its code. */
const conclude = Effect.fnUntraced(function* (
  exit: Exit.Exit<AgentResult, TurnFailure>,
  output: Output,
  fault: string | null
) {
  if (Exit.isSuccess(exit)) {
    yield* output.conclude(withFault(endingOf(exit.value), fault))
    return yield* fault === null ? Effect.void : exitWith(exitCodes.failed)
  }
  const found = exit.cause.reasons.find((reason) => reason._tag === "Fail")
  if (found === undefined) return yield* Effect.failCause(exit.cause)
  const failure = found.error
  if (failure instanceof ConfigurationError) return yield* failure
  const code = exitCodeOfFailure(failure)
  yield* output.conclude(withFault(failedEnding(failure, code), fault))
  return yield* exitWith(code)
})

/** The limits of a run count what its session has spent before. */
const ledgerOf = Effect.fnUntraced(function* (input: Input, target: Target, before: Amount) {
  const { maxTokens, maxUsd: maxCostUsd } = input
  if (maxCostUsd !== null && before.costUsd === null)
    return yield* new ConfigurationError({
      field: "--max-usd",
      reason: "cannot be held: this session has asked a model without a price. Use --max-tokens, or begin a new session"
    })
  const ledger = yield* BudgetMemory.make({ maxTokens, maxCostUsd }, before)
  const isPriced = target.hasPrices && before.costUsd !== null
  const spent = Effect.map(ledger.balance, (balance): Amount => {
    const { tokens, costUsd } = spentIn(balance)
    return { tokens, costUsd: isPriced ? costUsd : null }
  })
  return { ledger, spent }
})

/** The journal of the folder, unless a session file is asked for, or there is no SQLite to keep a journal with. */
const keepingOf = Effect.fnUntraced(function* (input: Input, dir: string) {
  if (input.session !== null) return yield* inSessionFile(input.session, input, [])
  const JournalSqlite = yield* Effect.promise(loadJournal)
  const folder = join(dir, ".holdfast")
  if (JournalSqlite !== null)
    return yield* inJournal(JournalSqlite, input.journal ?? join(folder, journalName), dir, input)
  if (input.journal !== null || input.turn !== null)
    return yield* new ConfigurationError({
      field: input.journal === null ? "--turn" : "--journal",
      reason: `cannot be used: ${withoutSqlite}`
    })
  const session = join(folder, "session.json")
  return yield* inSessionFile(session, input, [
    `${withoutSqlite}: no journal is kept, the history is saved in ${session}`
  ])
})

export const perform = Effect.fnUntraced(function* (input: Input) {
  yield* killOnSecond
  const dir = yield* folderOf(input.dir)
  const target = yield* targetOf(input)
  const keeping = yield* keepingOf(input, dir)
  const summary = makeSummary({ maxCostUsd: input.maxUsd, hasPrices: target.hasPrices })
  const output = makeOutput(input.json, summary)
  yield* Effect.forEach(keeping.news, output.tell, { discard: true })
  const { ledger, spent } = yield* ledgerOf(input, target, keeping.spentBefore)
  const turn = yield* keeping.begin(spent)
  const toolbox = yield* ToolboxLive.make(
    folderTools({
      dir,
      allow: input.allow,
      onChange: (path) => summary.filesChanged.add(path),
      groups: yield* childGroups
    })
  )
  const exit = yield* Effect.exit(turnOf({ input, dir, target, output, turn, toolbox, ledger })).pipe(
    Effect.onInterrupt(() =>
      Effect.flatMap(Effect.andThen(turn.save, turn.fault), (fault) =>
        output.conclude(withFault(interruptedEnding, fault))
      )
    )
  )
  yield* turn.save
  return yield* conclude(exit, output, yield* turn.fault)
})
