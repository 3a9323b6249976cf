/** One run: the parts it is made of, the turn, and how it ends. */
import { realpath } from "node:fs/promises"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import { spentIn } from "../../../domain/budget/Budget.ts"
import type { Message } from "../../../domain/chat/Message.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { exitCodeOf, exitCodes } from "../../../domain/failure/exitCode.ts"
import { renderFailure } from "../../../domain/failure/renderFailure.ts"
import * as ModelSummarizer from "../../../layers/ModelSummarizer.ts"
import * as RecoveryLive from "../../../layers/RecoveryLive.ts"
import * as BudgetMemory from "../../../layers/stores/BudgetMemory.ts"
import * as EventsMemory from "../../../layers/stores/EventsMemory.ts"
import * as SessionFile from "../../../layers/stores/SessionFile.ts"
import * as ToolboxLive from "../../../layers/ToolboxLive.ts"
import { SystemPrompt } from "../../../services/AgentHooks.ts"
import { BudgetLedger, type LedgerShape } from "../../../services/BudgetLedger.ts"
import type { Conversation } from "../../../services/Conversation.ts"
import { ModelClient } from "../../../services/ModelClient.ts"
import { Recovery } from "../../../services/Recovery.ts"
import { Toolbox } from "../../../services/Toolbox.ts"
import * as ConversationMemory from "../../agent/ConversationMemory.ts"
import { runAgent, type AgentFailure, type AgentResult } from "../../agent/runAgent.ts"
import { exitWith } from "../exit.ts"
import { childGroups } from "./childGroups.ts"
import { folderTools } from "./folderTools.ts"
import type { Input } from "./input.ts"
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

const exitCodeOfFailure = (failure: AgentFailure): number =>
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
  readonly conversation: Conversation
  readonly toolbox: (typeof Toolbox)["Service"]
  readonly ledger: LedgerShape
}

/** The turn of the agent with all it needs. */
const turnOf = ({ input, dir, target, output, conversation, toolbox, ledger }: Parts) =>
  Effect.gen(function* () {
    const recovery = RecoveryLive.layer(target.policy).pipe(
      Layer.provide(ModelSummarizer.layer({ model: target.policy.routes[0].model })),
      Layer.provide(Layer.succeed(ModelClient, target.client)),
      Layer.provide(EventsMemory.layerTo(output.onRecovery))
    )
    return yield* Effect.flatMap(Recovery, (executor) =>
      runAgent({ executor, conversation, maxSteps: input.maxSteps, stream: true, emit: output.onAgent }, input.prompt)
    ).pipe(
      Effect.provide(recovery),
      Effect.provideService(Toolbox, Toolbox.of(toolbox)),
      Effect.provideService(BudgetLedger, ledger),
      Effect.provideService(SystemPrompt, Effect.succeed(systemPrompt(dir, input.allow)))
    )
  })

type TurnFailure = AgentFailure | ConfigurationError

const endingOf = ({ reply }: AgentResult): Ending => ({
  ok: true,
  words: null,
  fields: { reply: reply.text, refusal: reply.refusal, model: reply.model }
})

const failedEnding = (failure: AgentFailure, exitCode: number): Ending => ({
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

/** The limits of a run count what its session has spent before, and what it spends is saved with the session. */
const ledgerOf = Effect.fnUntraced(function* (input: Input, target: Target, before: SessionFile.Spent) {
  const { maxTokens, maxUsd: maxCostUsd } = input
  if (maxCostUsd !== null && before.costUsd === null)
    return yield* new ConfigurationError({
      field: "--max-usd",
      reason: "cannot be held: this session has asked a model without a price. Use --max-tokens, or begin a new session"
    })
  const ledger = yield* BudgetMemory.make({ maxTokens, maxCostUsd }, before)
  const isPriced = target.hasPrices && before.costUsd !== null
  const spent = Effect.map(ledger.balance, (balance): SessionFile.Spent => {
    const { tokens, costUsd } = spentIn(balance)
    return { tokens, costUsd: isPriced ? costUsd : null }
  })
  return { ledger, spent }
})

export const perform = Effect.fnUntraced(function* (input: Input) {
  yield* killOnSecond
  const dir = yield* folderOf(input.dir)
  const target = yield* targetOf(input)
  const session = yield* SessionFile.open(input.session ?? join(dir, ".holdfast", "session.json"), input.resume)
  const summary = makeSummary({ maxCostUsd: input.maxUsd, hasPrices: target.hasPrices })
  const output = makeOutput(input.json, summary)
  if (session.keptAs !== null)
    yield* output.tell(
      `an unfinished session stood there and is kept: go on with it by --resume --session ${session.keptAs}`
    )
  const { ledger, spent } = yield* ledgerOf(input, target, session.spentBefore)
  const save = (messages: ReadonlyArray<Message>): Effect.Effect<void> =>
    Effect.flatMap(spent, (amount) => session.save(messages, amount))
  const conversation = yield* ConversationMemory.make(session.before, save)
  // The last requests may have brought nothing for the history, and have cost something.
  const saveAll = Effect.flatMap(conversation.messages, save)
  const toolbox = yield* ToolboxLive.make(
    folderTools({
      dir,
      allow: input.allow,
      onChange: (path) => summary.filesChanged.add(path),
      groups: yield* childGroups
    })
  )
  const exit = yield* Effect.exit(turnOf({ input, dir, target, output, conversation, toolbox, ledger })).pipe(
    Effect.onInterrupt(() =>
      Effect.flatMap(Effect.andThen(saveAll, session.fault), (fault) =>
        output.conclude(withFault(interruptedEnding, fault))
      )
    )
  )
  yield* saveAll
  return yield* conclude(exit, output, yield* session.fault)
})
