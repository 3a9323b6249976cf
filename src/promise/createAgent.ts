/**
 * The agent loop for plain TypeScript: tools are async functions, a run is a promise or an async iterator of what it does,
 * an AbortSignal ends it. The loop, its rules and its failures are those of `runAgent`.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Queue from "effect/Queue"
import * as Scope from "effect/Scope"
import type { Prompt } from "../domain/agent/turnFacts.ts"
import { ConfigurationError } from "../domain/failure/ConfigurationError.ts"
import { refuseUnknown } from "../domain/failure/unknownOptions.ts"
import { subAgent, type SubAgentOptions } from "../programs/agent/subAgent.ts"
import { AgentConversation } from "./AgentConversation.ts"
import {
  answered,
  executorOf,
  planOf,
  type AgentAnswer,
  type AgentProgress,
  type CreateAgentOptions,
  type Plan,
  type RunAgentOptions,
  type RunFailure
} from "./agentRun.ts"
import type { AgentTool } from "./agentTools.ts"
import { turnsOf, type AgentTurns } from "./agentTurns.ts"
import { answerForm } from "./answerForm.ts"
import { iterate, once, settle, type CallOptions, type Ended } from "./edge.ts"
import type { OutputOf, SchemaInput } from "./schemas.ts"

export interface Agent<A = unknown> {
  /** `prompt`: a text, or parts in the shape of OpenAI's chat API; null goes on with the history as it stands. */
  readonly run: (prompt: Prompt, options?: RunAgentOptions) => Promise<AgentAnswer<A>>
  /** The same run as it happens, text by text; leaving the loop early ends the run. To be read once. */
  readonly stream: (prompt: Prompt, options?: RunAgentOptions) => AsyncIterable<AgentProgress<A>>
  /** This agent as a tool of another one: a history and a loop guard of its own, the deadline and budget of the outer run. */
  readonly asTool: (
    options: Omit<SubAgentOptions, "executor" | "toolbox" | "system" | "maxSteps" | "emit">
  ) => AgentTool
  /** With `durable`: the turns, and answers for those that are parked. */
  readonly turns: AgentTurns
  /** Frees the journal. The recovery stays the caller's. */
  readonly close: () => Promise<void>
}

const optionNames: ReadonlyArray<string> = [
  "recovery",
  "tools",
  "system",
  "output",
  "limits",
  "approve",
  "durable",
  "onEvent",
  "maxSteps",
  "earlyTools",
  "concurrency",
  "maxOutputTokens",
  "params",
  "priority",
  "cacheTtl"
] satisfies ReadonlyArray<keyof CreateAgentOptions>

const runNames: ReadonlyArray<string> = ["signal", "policy", "deadline", "conversation", "id"]

/** What the edge is told of a run. */
const checkRun = (plan: Plan, options: RunAgentOptions): CallOptions => {
  refuseUnknown(options, runNames)
  const { id, conversation, ...call } = options
  if (conversation !== undefined && !(conversation instanceof AgentConversation))
    throw new ConfigurationError({ field: "conversation", reason: "is no AgentConversation" })
  if (plan.store !== null && (typeof id !== "string" || id === ""))
    throw new ConfigurationError({ field: "id", reason: "is missing: it names the turn, which outlives the process" })
  if (plan.store === null && id !== undefined)
    throw new ConfigurationError({ field: "id", reason: "names a turn that is kept: give the agent `durable`" })
  return call
}

const subAgentOf =
  ({ edge, options, toolbox }: Plan): Agent["asTool"] =>
  (as) =>
    subAgent({
      ...as,
      executor: executorOf(edge),
      toolbox,
      ...(typeof options.system === "string" ? { system: options.system } : {}),
      ...(options.maxSteps === undefined ? {} : { maxSteps: options.maxSteps })
    })

/** A bad option or two tools of one name throw a ConfigurationError here, before the first request. */
export const createAgent = <const S extends SchemaInput = never>(
  options: CreateAgentOptions<S>
): Agent<[S] extends [never] ? null : OutputOf<S>> => {
  refuseUnknown(options, optionNames)
  // What the schema cannot say is told now, not after the first run.
  if (options.output !== undefined) answerForm(options.output)
  const scope = Effect.runSync(Scope.make())
  const plan = planOf(options, scope)
  const { edge } = plan
  const agent: Agent = {
    run: async (prompt, run = {}) => {
      const call = checkRun(plan, run)
      return settle(edge, null, call, (recovery) => answered(plan, recovery, prompt, run, false, () => Effect.void))
    },
    stream: (prompt, run = {}) =>
      once("stream", () => {
        const call = checkRun(plan, run)
        return iterate(edge, null, call, (recovery, queue: Queue.Queue<AgentProgress, Ended<RunFailure>>) =>
          Effect.flatMap(
            answered(plan, recovery, prompt, run, true, (event) => Effect.asVoid(Queue.offer(queue, event))),
            (answer) => Effect.asVoid(Queue.offer(queue, { _tag: "Answered", answer }))
          )
        )
      }),
    asTool: subAgentOf(plan),
    turns: turnsOf(edge, plan.store),
    close: () => Effect.runPromise(Scope.close(scope, Exit.void))
  }
  // What `output` is read as stands in its schema, and nowhere else.
  return agent as Agent<[S] extends [never] ? null : OutputOf<S>>
}
