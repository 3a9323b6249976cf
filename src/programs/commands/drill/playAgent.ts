/** The agent's part of a drill: tools that behave as the scenario says, and what became of every call. */
import * as Effect from "effect/Effect"
import type { AgentEvent } from "../../../domain/agent/AgentEvent.ts"
import type { Message, ToolSpec } from "../../../domain/chat/Message.ts"
import { latch, type CacheTtl } from "../../../domain/chat/PromptCache.ts"
import { isFailure } from "../../../domain/agent/ToolResult.ts"
import type { Scenario, ToolBehaviour } from "./Scenario.ts"
import * as ConversationMemory from "../../../programs/agent/ConversationMemory.ts"
import * as ToolboxLive from "../../../layers/ToolboxLive.ts"
import { Journal } from "../../../services/Journal.ts"
import type { JournalStoreShape } from "../../../services/JournalStore.ts"
import type { Conversation } from "../../../services/Conversation.ts"
import { Recovery } from "../../../services/Recovery.ts"
import { Toolbox, type ToolboxShape } from "../../../services/Toolbox.ts"
import { runAgent } from "../../agent/runAgent.ts"

/** What the result line tells of an agent. Filled in while the scenario runs. */
export interface AgentRecord {
  readonly toolExecutions: Array<Readonly<Record<string, unknown>>>
  readonly toolResults: Array<Readonly<Record<string, unknown>>>
  readonly warnedAtCalls: Array<number>
  brokenAtCall: number | null
  detector: string | null
  /** Toolboxes of the turns that run now. */
  readonly toolboxes: Set<ToolboxShape>
  /** How often each tool has run: a behaviour may change from run to run. */
  readonly runs: Map<string, number>
  /** Turns that have begun, and the lifetime of the prompt cache the first of them settled. */
  turns: number
  cacheTtl: CacheTtl | null
}

export const makeRecord = (): AgentRecord => ({
  toolExecutions: [],
  toolResults: [],
  warnedAtCalls: [],
  brokenAtCall: null,
  detector: null,
  toolboxes: new Set(),
  runs: new Map(),
  turns: 0,
  cacheTtl: null
})

/** What the eligibility source says to this turn; the session keeps the first answer. */
const cacheTtlOf = (scenario: Scenario, record: AgentRecord): CacheTtl | undefined => {
  const said = scenario.config?.cacheTtl
  const offered = typeof said === "string" ? said : said?.[Math.min(record.turns, said.length - 1)]
  record.turns += 1
  record.cacheTtl = latch(record.cacheTtl, offered ?? null)
  return record.cacheTtl ?? undefined
}

class ToolFailure extends Error {
  override readonly name = "ToolFailure"
}

const textOf = (behaviour: ToolBehaviour, args: unknown, run: number): string => {
  if (behaviour.perArgs !== undefined) return behaviour.perArgs.replaceAll("{args}", JSON.stringify(args))
  const list = behaviour.returns
  return list === undefined ? (behaviour.text ?? "") : (list[Math.min(run, list.length) - 1] ?? "")
}

const toolOf = (record: AgentRecord, spec: ToolSpec, behaviour: ToolBehaviour): ToolboxLive.Tool => {
  const { name } = spec.function
  return ToolboxLive.fromJsonSchema(
    spec,
    Effect.fnUntraced(function* (args, call) {
      const run = (record.runs.get(name) ?? 0) + 1
      record.runs.set(name, run)
      record.toolExecutions.push({ id: call.id, name, args })
      if (behaviour.sleepMs !== undefined) yield* Effect.sleep(behaviour.sleepMs)
      if (behaviour.dies !== undefined) return yield* Effect.die(new Error(behaviour.dies))
      if (behaviour.fails !== undefined) return yield* Effect.fail(new ToolFailure(behaviour.fails))
      return textOf(behaviour, args, run)
    }),
    {
      ...(behaviour.timeoutMs === undefined ? {} : { timeout: behaviour.timeoutMs }),
      ...(behaviour.parallel === undefined ? {} : { parallel: behaviour.parallel }),
      ...(behaviour.polling === undefined ? {} : { polling: behaviour.polling }),
      ...(behaviour.repeat === undefined ? {} : { repeat: behaviour.repeat })
    }
  )
}

const note = (record: AgentRecord, event: AgentEvent): void => {
  switch (event._tag) {
    case "ResultAdded":
      record.toolResults.push({
        id: event.call.id,
        name: event.call.name,
        isFailure: isFailure(event.result),
        kind: event.result.kind,
        content: event.result.content
      })
      break
    case "LoopWarned":
      record.warnedAtCalls.push(event.finding.atCall)
      break
    case "LoopBroke":
      record.brokenAtCall = event.finding.atCall
      record.detector = event.finding.detector
      break
    default:
      break
  }
}

export interface AgentCall {
  readonly scenario: Scenario
  readonly record: AgentRecord
  readonly tools: ReadonlyArray<ToolSpec>
  readonly stream: boolean
  readonly maxOutputTokens?: number
  readonly priority?: "foreground" | "background"
  /** Where the turn is kept; null = nowhere. */
  readonly journals: JournalStoreShape | null
  readonly onPart: (part: Extract<AgentEvent, { readonly _tag: "PartSeen" }>["part"]) => void
}

/** Each turn has a journal of its own, when there are any. */
const inJournal = <A, E, R>({ journals, record }: AgentCall, turn: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  journals === null
    ? turn
    : Effect.scoped(
        Effect.flatMap(Effect.orDie(journals.own(`turn-${record.turns}`)), (journal) =>
          Effect.provideService(turn, Journal, journal)
        )
      )

/** One turn of the agent over the messages; `conversation` holds the history after any ending. */
export const turnOf = (call: AgentCall, conversation: Conversation) =>
  Effect.gen(function* () {
    const { record, scenario } = call
    const executor = yield* Recovery
    const toolbox = yield* ToolboxLive.make(
      call.tools.flatMap((spec) => {
        const behaviour = scenario.tools?.[spec.function.name]
        return behaviour === undefined ? [] : [toolOf(record, spec, behaviour)]
      })
    )
    // The model is told of every tool of the call; one without a behaviour is not known when it is called.
    const told: ToolboxShape = { ...toolbox, specs: Effect.succeed(call.tools) }
    record.toolboxes.add(told)
    const cacheTtl = cacheTtlOf(scenario, record)
    const turn = runAgent(
      {
        executor,
        conversation,
        stream: call.stream,
        ...(cacheTtl === undefined ? {} : { cacheTtl }),
        ...(scenario.config?.maxSteps === undefined ? {} : { maxSteps: scenario.config.maxSteps }),
        ...(call.maxOutputTokens === undefined ? {} : { maxOutputTokens: call.maxOutputTokens }),
        ...(call.priority === undefined ? {} : { priority: call.priority }),
        emit: (event) =>
          Effect.sync(() => {
            note(record, event)
            if (event._tag === "PartSeen") call.onPart(event.part)
          })
      },
      null
    )
    const result = yield* inJournal(call, turn).pipe(
      Effect.provideService(Toolbox, Toolbox.of(told)),
      Effect.ensuring(Effect.sync(() => record.toolboxes.delete(told)))
    )
    return result.reply
  })

export const conversationOf = (messages: ReadonlyArray<Message>): Effect.Effect<Conversation> =>
  ConversationMemory.make(messages)
