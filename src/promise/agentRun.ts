/** One run of an agent made by `createAgent`: its plan as the agent's options make it, and the turn under it. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { AgentEvent } from "../domain/agent/AgentEvent.ts"
import type { JournalFailure } from "../domain/agent/JournalError.ts"
import type { Prompt } from "../domain/agent/turnFacts.ts"
import type { BudgetLimits } from "../domain/budget/Budget.ts"
import type { ModelReply, ToolCall } from "../domain/chat/ModelReply.ts"
import type { ModelRequest } from "../domain/chat/ModelRequest.ts"
import * as BudgetMemory from "../layers/stores/BudgetMemory.ts"
import * as ToolboxLive from "../layers/ToolboxLive.ts"
import { durableTurn, type DurableFailure } from "../programs/agent/durableTurn.ts"
import { runAgent, type AgentOptions, type AgentResult } from "../programs/agent/runAgent.ts"
import { AgentHooks, SystemPrompt, type Hooks } from "../services/AgentHooks.ts"
import { BudgetLedger, type LedgerShape } from "../services/BudgetLedger.ts"
import type { JournalStoreShape } from "../services/JournalStore.ts"
import { Recovery, type ModelRequestExecutor } from "../services/Recovery.ts"
import { Toolbox, type ToolboxShape } from "../services/Toolbox.ts"
import { AgentConversation } from "./AgentConversation.ts"
import type { AgentTool } from "./agentTools.ts"
import { answerForm, AnswerMismatch, type AnswerForm } from "./answerForm.ts"
import { edgeOf, type PromiseRecovery } from "./createRecovery.ts"
import type { CallOptions, Edge } from "./edge.ts"
import type { SchemaInput } from "./schemas.ts"

export interface CreateAgentOptions<S extends SchemaInput = SchemaInput> extends Pick<
  AgentOptions,
  "maxSteps" | "earlyTools" | "concurrency" | "maxOutputTokens" | "params" | "priority" | "cacheTtl"
> {
  /** What `createRecovery` has made. Its `close()` ends the agent's runs, too. */
  readonly recovery: PromiseRecovery
  /** Made by `defineTool`, `mcpTools` or `agent.asTool`. Default: none. */
  readonly tools?: ReadonlyArray<AgentTool>
  /** The system prompt, or what makes it before each step. Default: the history's own. */
  readonly system?: string | (() => string | Promise<string>)
  /** The final answer is one value of this schema: `result.output`. Default: text. */
  readonly output?: S
  /** What all runs of this agent may spend together; null = no limit of that kind. USD need the price of every route. */
  readonly limits?: Partial<BudgetLimits>
  /** Asked before a tool with `approval: true`. Without it a durable turn parks, and any other call is denied. */
  readonly approve?: (call: ToolCall) => boolean | Promise<boolean>
  /** Runs outlive the process: `JournalSqlite.make({ path })` of `holdfast/durable`. Each run then needs an `id`. */
  readonly durable?: Effect.Effect<JournalStoreShape, JournalFailure, Scope.Scope>
  /** Told of everything the runs do. What it throws is reported in the log and fails no run. */
  readonly onEvent?: (event: AgentEvent) => void
}

export interface RunAgentOptions extends CallOptions {
  /** The history it goes on with; it holds a valid one after any ending. Default: a new one. */
  readonly conversation?: AgentConversation
  /** With `durable`: names the turn, its idempotency key. Taken up under the same id, it goes on. */
  readonly id?: string
}

export interface AgentAnswer<A = unknown> {
  /** The text the model ended with; null when it ended without one. */
  readonly text: string | null
  /** The answer read by `output`; null without a schema, and when the model refused. */
  readonly output: A | null
  readonly reply: ModelReply
  /** Model rounds that brought a reply. */
  readonly steps: number
  readonly toolCalls: number
  readonly conversation: AgentConversation
}

/** What a run tells as it goes; the last one has its answer. */
export type AgentProgress<A = unknown> = AgentEvent | { readonly _tag: "Answered"; readonly answer: AgentAnswer<A> }

/** What the runs of one agent share. */
export interface Plan {
  readonly edge: Edge
  readonly options: CreateAgentOptions
  readonly toolbox: ToolboxShape
  /** null = no budget. */
  readonly ledger: LedgerShape | null
  /** null = runs end with their process. */
  readonly store: Effect.Effect<JournalStoreShape, JournalFailure> | null
  readonly hooks: Hooks
  readonly system: Effect.Effect<string> | null
}

/** The recovery's own executor, for a nested agent: it asks the recovery it was made with. */
export const executorOf = ({ runtime }: Edge): ModelRequestExecutor => {
  const recovery = Effect.orDie(Effect.map(runtime.contextEffect, (built) => Context.get(built, Recovery)))
  return {
    complete: (request) => Effect.flatMap(recovery, (own) => own.complete(request)),
    stream: (request) => Stream.unwrap(Effect.map(recovery, (own) => own.stream(request))),
    turn: (body) => Effect.flatMap(recovery, (own) => own.turn(body))
  }
}

const systemOf = (system: CreateAgentOptions["system"]): Effect.Effect<string> | null => {
  if (system === undefined) return null
  return typeof system === "string" ? Effect.succeed(system) : Effect.promise(async () => system())
}

const ledgerOf = (limits: CreateAgentOptions["limits"]): LedgerShape | null =>
  limits === undefined
    ? null
    : Effect.runSync(BudgetMemory.make({ maxTokens: limits.maxTokens ?? null, maxCostUsd: limits.maxCostUsd ?? null }))

/** The store is opened by the first run, once, and stays open until the agent is closed. */
const opened = (
  durable: CreateAgentOptions["durable"],
  scope: Scope.Closeable
): Effect.Effect<JournalStoreShape, JournalFailure> | null =>
  durable === undefined ? null : Effect.runSync(Effect.cached(Effect.provideService(durable, Scope.Scope, scope)))

/** The plan of an agent's options. `scope` holds what its runs share. */
export const planOf = (options: CreateAgentOptions, scope: Scope.Closeable): Plan => {
  const edge = edgeOf(options.recovery)
  const { approve } = options
  return {
    edge,
    options,
    toolbox: Effect.runSync(ToolboxLive.make(options.tools ?? [])),
    ledger: ledgerOf(options.limits),
    store: opened(options.durable, scope),
    hooks: approve === undefined ? {} : { onApproval: (call) => Effect.promise(async () => approve(call)) },
    system: systemOf(options.system)
  }
}

/** A listener is a guest: what it throws, or rejects with, is told in the log. */
const tell = (onEvent: ((event: AgentEvent) => unknown) | undefined, event: AgentEvent): Effect.Effect<void> =>
  onEvent === undefined
    ? Effect.void
    : Effect.tryPromise(async () => onEvent(event)).pipe(
        Effect.asVoid,
        Effect.catch((error) => Effect.logWarning("A listener of an agent failed.", error.cause))
      )

const agentOptions = (
  { options }: Plan,
  form: AnswerForm | null,
  stream: boolean,
  emit: (event: AgentEvent) => Effect.Effect<void>
): Omit<AgentOptions, "executor" | "conversation"> => {
  const { maxSteps, earlyTools, concurrency, maxOutputTokens, params, priority, cacheTtl } = options
  const sent: ModelRequest["params"] = form === null ? params : { ...params, ...form.params }
  return {
    stream,
    emit,
    ...(maxSteps === undefined ? {} : { maxSteps }),
    ...(earlyTools === undefined ? {} : { earlyTools }),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    ...(sent === undefined ? {} : { params: sent }),
    ...(priority === undefined ? {} : { priority }),
    ...(cacheTtl === undefined ? {} : { cacheTtl })
  }
}

export type RunFailure = DurableFailure | AnswerMismatch

/** The run of one turn, in memory or over the journal. */
const turnOf = (
  plan: Plan,
  executor: ModelRequestExecutor,
  prompt: Prompt,
  { id, conversation = new AgentConversation() }: RunAgentOptions,
  options: Omit<AgentOptions, "executor" | "conversation">
): Effect.Effect<readonly [AgentResult, AgentConversation], DurableFailure, Toolbox> => {
  const { store } = plan
  const turn: Effect.Effect<AgentResult, DurableFailure, Toolbox> =
    store === null || id === undefined
      ? runAgent({ ...options, executor, conversation: AgentConversation.port(conversation) }, prompt)
      : Effect.flatMap(store, (opened) =>
          durableTurn({
            ...options,
            executor,
            id,
            store: opened,
            prompt,
            history: conversation.messages,
            onHistory: (messages) => Effect.sync(() => AgentConversation.take(conversation, messages))
          })
        )
  return Effect.map(turn, (result) => [result, conversation] as const)
}

const answerOf = (
  [{ reply, steps, toolCalls }, conversation]: readonly [AgentResult, AgentConversation],
  form: AnswerForm | null
): Effect.Effect<AgentAnswer, AnswerMismatch> => {
  const answer = { text: reply.text, output: null, reply, steps, toolCalls, conversation }
  if (form === null || reply.refusal !== null) return Effect.succeed(answer)
  return Effect.flatMap(
    Effect.promise(() => form.read(reply)),
    (found) =>
      "fault" in found
        ? Effect.fail(
            new AnswerMismatch({ fault: found.fault, guidance: "Loosen the schema, or ask a model that keeps to it." })
          )
        : Effect.succeed({ ...answer, output: found.value })
  )
}

/** The whole run: the turn, and its answer read by the schema. */
export const answered = (
  plan: Plan,
  executor: ModelRequestExecutor,
  prompt: Prompt,
  options: RunAgentOptions,
  stream: boolean,
  emit: (event: AgentEvent) => Effect.Effect<void>
): Effect.Effect<AgentAnswer, RunFailure> => {
  const { output, onEvent } = plan.options
  const form = output === undefined ? null : answerForm(output)
  const told = (event: AgentEvent) => Effect.andThen(tell(onEvent, event), emit(event))
  return turnOf(plan, executor, prompt, options, agentOptions(plan, form, stream, told)).pipe(
    Effect.provideService(Toolbox, Toolbox.of(plan.toolbox)),
    Effect.provideService(BudgetLedger, plan.ledger),
    Effect.provideService(SystemPrompt, plan.system),
    Effect.provideService(AgentHooks, form === null ? plan.hooks : { ...plan.hooks, onStop: form.onStop }),
    Effect.flatMap((ran) => answerOf(ran, form))
  )
}
