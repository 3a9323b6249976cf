/**
 * The agent loop: one model round per step, then its tools, until the model is done, the guard breaks or the step cap is
 * reached. Recovery is its one narrow dependency: a retry is not a step and runs no hook again.
 */
import { errorTypeOf, inSpan, known } from "../request/spans.ts"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import { codecs, keys, type Prompt } from "../../domain/agent/turnFacts.ts"
import { repairHistory } from "../../domain/agent/historyRepair.ts"
import * as LoopGuard from "../../domain/agent/LoopGuard.ts"
import { textOf, type MessageToolCall } from "../../domain/chat/Message.ts"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type { AgentError } from "../../domain/failure/AgentError.ts"
import type { Hooks } from "../../services/AgentHooks.ts"
import { PromptCacheTtl } from "../../services/PromptCacheTtl.ts"
import type { RequestFailure } from "../../services/Recovery.ts"
import type { Toolbox } from "../../services/Toolbox.ts"
import { makeRun, type AgentOptions, type AgentRun } from "./AgentRun.ts"
import { agentStep } from "./agentStep.ts"
import { kept } from "./journaled.ts"
import { refuseUnknown } from "../../domain/failure/unknownOptions.ts"

export type { AgentOptions } from "./AgentRun.ts"

export interface AgentResult {
  /** The reply the model ended with; a refusal is one, too. */
  readonly reply: ModelReply
  /** Model rounds that brought a reply. */
  readonly steps: number
  /** Tool calls of the turn. */
  readonly toolCalls: number
}

export type AgentFailure = RequestFailure | AgentError

const defaultMaxSteps = 15

const agentOptionNames: ReadonlyArray<string> = [
  "executor",
  "conversation",
  "maxSteps",
  "stream",
  "earlyTools",
  "concurrency",
  "maxOutputTokens",
  "priority",
  "params",
  "cacheTtl",
  "emit",
  "phase",
  "routesFor",
  "nested"
] satisfies ReadonlyArray<keyof AgentOptions>

/** Runs one turn: `prompt`, a text or parts, enters the history first; null goes on with the history as it stands. */
export const runAgent = (options: AgentOptions, prompt: Prompt): Effect.Effect<AgentResult, AgentFailure, Toolbox> => {
  refuseUnknown(options, agentOptionNames)
  const turn = Effect.provideService(
    inSpan(
      Effect.flatMap(makeRun(options), (run) => Effect.mapError(agentTurn(run, prompt), run.work.withWork)),
      () => ({
        name: "invoke_agent",
        begin: () => ({ "gen_ai.operation.name": "invoke_agent" }),
        end: (exit) =>
          known({
            "error.type": errorTypeOf(exit),
            "holdfast.agent.steps": Exit.isSuccess(exit) ? exit.value.steps : null,
            "holdfast.agent.tool_calls": Exit.isSuccess(exit) ? exit.value.toolCalls : null
          })
      })
    ),
    PromptCacheTtl,
    options.cacheTtl === undefined ? "5m" : options.cacheTtl
  )
  return options.nested === true ? turn : options.executor.turn(turn)
}

const callOf = ({ id, function: { name, arguments: args } }: MessageToolCall) => ({ id, name, arguments: args })

/** The hook reads the text of a prompt; what it makes of it stands in the place of the text. */
const seenBy = (onUserPrompt: Hooks["onUserPrompt"], prompt: Prompt): Effect.Effect<Prompt> => {
  if (prompt === null || onUserPrompt === undefined) return Effect.succeed(prompt)
  if (typeof prompt === "string") return onUserPrompt(prompt)
  const text = textOf({ role: "user", content: prompt })
  return Effect.map(onUserPrompt(text), (changed) =>
    changed === text ? prompt : [{ type: "text", text: changed }, ...prompt.filter((part) => part.type !== "text")]
  )
}

/** Gives every call of the history its result, then says what the user said. */
const openTurn = Effect.fnUntraced(function* (run: AgentRun, prompt: Prompt) {
  const { conversation, hooks } = run
  const repaired = repairHistory(yield* conversation.messages)
  if (repaired.added.length > 0) {
    yield* conversation.replace(repaired.messages)
    for (const { call, result } of repaired.added) yield* run.emit({ _tag: "ResultAdded", call: callOf(call), result })
  }
  const seen = seenBy(hooks.onUserPrompt, prompt)
  // A turn that is taken up has its prompt already, whatever is given now.
  const content = yield* kept(run.journal, keys.prompt, codecs.prompt, seen)
  if (content === null) return
  yield* conversation.append([{ role: "user", content }])
})

const agentTurn = Effect.fnUntraced(function* (
  run: AgentRun,
  prompt: Prompt
): Effect.fn.Return<AgentResult, AgentFailure> {
  const { conversation, journal, memory, work } = run
  const maxSteps = run.options.maxSteps ?? defaultMaxSteps
  yield* openTurn(run, prompt)
  const recalled =
    memory === null
      ? null
      : yield* kept(journal, keys.recalled, codecs.optionalText, memory.recall(yield* conversation.messages))
  let guard = LoopGuard.initial
  for (let number = 1; number <= maxSteps; number += 1) {
    const done = yield* Effect.acquireUseRelease(
      Scope.make(),
      (scope) => agentStep(run, guard, number, recalled, scope),
      (scope) => Scope.close(scope, Exit.void)
    )
    guard = done.guard
    if (done.reply === null) continue
    if (memory !== null)
      yield* kept(journal, keys.learned, codecs.nothing, Effect.as(memory.learn(yield* conversation.messages), null))
    return { reply: done.reply, ...work.counts() }
  }
  return yield* work.stepLimit(maxSteps)
})
