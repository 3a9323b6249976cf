/**
 * A tool that hands a task to a nested agent loop with a history and a loop guard of its own. It inherits the deadline of
 * the turn, the session's budget and cancellation, and it may get a smaller budget inside the session's.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { AgentEvent } from "../../domain/agent/AgentEvent.ts"
import type { BudgetLimits } from "../../domain/budget/Budget.ts"
import { given } from "../../domain/chat/given.ts"
import * as ConversationMemory from "./ConversationMemory.ts"
import { runOptionsOf, tool, type RunOptions, type Tool } from "./tool.ts"
import { AgentHooks, AgentMemory, HistoryPreparation, SystemPrompt } from "../../services/AgentHooks.ts"
import { BudgetLedger } from "../../services/BudgetLedger.ts"
import { Journal } from "../../services/Journal.ts"
import type { ModelRequestExecutor } from "../../services/Recovery.ts"
import { Toolbox, type ToolboxShape } from "../../services/Toolbox.ts"
import { CallJournal } from "./journaled.ts"
import { runAgent, type AgentFailure } from "./runAgent.ts"
import { refuseUnknown } from "../../domain/failure/unknownOptions.ts"

export interface SubAgentOptions extends RunOptions {
  readonly name: string
  readonly description: string
  readonly executor: ModelRequestExecutor
  readonly toolbox: ToolboxShape
  /** Rules of the nested agent. Default: none. */
  readonly system?: string
  readonly maxSteps?: number
  /** A budget of its own inside the session's. */
  readonly limits?: BudgetLimits
  readonly emit?: (event: AgentEvent) => Effect.Effect<void>
}

/** A nested agent that did not finish: what ended it, and its finished work as the text the outer model reads. */
export class SubAgentFailed extends Schema.TaggedError<SubAgentFailed>()("SubAgentFailed", {
  reason: Schema.String,
  text: Schema.String
}) {
  override get message(): string {
    return this.text
  }
}

const failedWith = (failure: AgentFailure): SubAgentFailed => {
  const partial = "partial" in failure ? failure.partial : null
  const work = partial === null ? "" : `\nIts work so far:\n${partial}`
  return new SubAgentFailed({ reason: failure._tag, text: `${failure._tag}: ${failure.guidance}${work}` })
}

const subAgentNames: ReadonlyArray<string> = [
  "name",
  "description",
  "executor",
  "toolbox",
  "system",
  "maxSteps",
  "limits",
  "emit",
  "timeout",
  "parallel",
  "polling",
  "repeat",
  "approval",
  "settle"
] satisfies ReadonlyArray<keyof SubAgentOptions>

export const subAgent = (options: SubAgentOptions): Tool => {
  refuseUnknown(options, subAgentNames)
  return tool({
    name: options.name,
    description: options.description,
    // Its own steps are kept where there is a journal: it goes on from them.
    ...runOptionsOf({ repeat: "keyed", ...options }),
    parameters: Schema.Struct({ task: Schema.NonEmptyString }),
    run: Effect.fnUntraced(function* ({ task }) {
      const outer = yield* BudgetLedger
      const { limits } = options
      const ledger = outer === null || limits === undefined ? outer : yield* outer.child(limits)
      const { system } = options
      const conversation = yield* ConversationMemory.make()
      const result = yield* runAgent(
        {
          executor: options.executor,
          conversation,
          nested: true,
          ...given({ maxSteps: options.maxSteps, emit: options.emit })
        },
        task
      ).pipe(
        Effect.provideService(Toolbox, Toolbox.of(options.toolbox)),
        Effect.provideService(BudgetLedger, ledger),
        Effect.provideService(Journal, yield* CallJournal),
        Effect.provideService(SystemPrompt, system === undefined ? null : Effect.succeed(system)),
        Effect.provideService(AgentHooks, {}),
        Effect.provideService(AgentMemory, null),
        Effect.provideService(HistoryPreparation, null),
        Effect.mapError(failedWith)
      )
      return result.reply.text ?? result.reply.refusal ?? ""
    })
  })
}
