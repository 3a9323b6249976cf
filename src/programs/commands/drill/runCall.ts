/** One call of a scenario: a request through recovery, or a turn of the agent, under the drill's chance and estimate. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import { type Message, type ToolSpec, isToolSpec } from "../../../domain/chat/Message.ts"
import { type ModelReply, toMessage } from "../../../domain/chat/ModelReply.ts"
import type { ModelRequest } from "../../../domain/chat/ModelRequest.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { BudgetLedger } from "../../../services/BudgetLedger.ts"
import type { Conversation } from "../../../services/Conversation.ts"
import { PolicyOverride, TokenEstimate } from "../../../services/Overrides.ts"
import { Recovery, type RequestFailure } from "../../../services/Recovery.ts"
import type { AgentFailure } from "../../agent/runAgent.ts"
import type { Play } from "./Stage.ts"
import { timed } from "./ResultLine.ts"
import type { ScenarioCall } from "./Scenario.ts"
import { changesOf } from "./drillPolicy.ts"
import { conversationOf, turnOf } from "./playAgent.ts"

const toolsOf = (raw: ReadonlyArray<unknown>): ReadonlyArray<ToolSpec> =>
  raw.map((value, index) => {
    if (isToolSpec(value)) return value
    throw new ConfigurationError({ field: `tools[${index}]`, reason: "is not a tool" })
  })

const requestOf = (call: ScenarioCall, messages: ReadonlyArray<Message>): ModelRequest => ({
  messages,
  ...(call.tools === undefined ? {} : { tools: toolsOf(call.tools) }),
  ...(call.maxOutputTokens === undefined ? {} : { maxOutputTokens: call.maxOutputTokens }),
  ...(call.priority === undefined ? {} : { priority: call.priority })
})

const constantRandom = (value: number) => ({
  nextDoubleUnsafe: () => value,
  nextIntUnsafe: () => Math.floor(value * Number.MAX_SAFE_INTEGER)
})

/** One logical request, streamed when the call says so. */
const ask = (
  play: Play,
  call: ScenarioCall,
  request: ModelRequest
): Effect.Effect<ModelReply, RequestFailure, Recovery> =>
  Effect.gen(function* () {
    const recovery = yield* Recovery
    if (call.stream !== true) return yield* recovery.complete(request)
    let reply: ModelReply | null = null
    yield* Stream.runForEach(recovery.stream(request), (part) =>
      Effect.sync(() => {
        play.parts.push(timed(part._tag === "Finish" ? { ...part } : part, play.stage.now()))
        if (part._tag === "Finish") reply = part.reply
      })
    )
    return reply ?? (yield* Effect.die(new Error("a stream ended without Finish")))
  })

/** One turn of the agent. */
const agentTurn = (play: Play, call: ScenarioCall, conversation: Conversation) =>
  Effect.suspend(() =>
    turnOf(
      {
        scenario: play.scenario,
        record: play.agent,
        tools: toolsOf(call.tools ?? []),
        stream: call.stream === true,
        journals: play.journals,
        ...(call.maxOutputTokens === undefined ? {} : { maxOutputTokens: call.maxOutputTokens }),
        ...(call.priority === undefined ? {} : { priority: call.priority }),
        onPart: (part) => play.parts.push(timed(part._tag === "Finish" ? { ...part } : part, play.stage.now()))
      },
      conversation
    )
  )

type Work = Effect.Effect<ModelReply, AgentFailure | ConfigurationError, Recovery>

/** The call under the drill's chance, estimate, budget and policy. */
const underDrill = (play: Play, call: ScenarioCall, work: Work): Work => {
  const config = play.scenario.config ?? {}
  const random = constantRandom(call.random ?? play.scenario.random ?? 0)
  let program: Work = Effect.provideService(work, Random.Random, random)
  if (play.ledger !== null) program = Effect.provideService(program, BudgetLedger, play.ledger)
  const estimate = config.estimateTokens
  if (estimate !== undefined) program = Effect.provideService(program, TokenEstimate, () => estimate)
  if (call.priority === "background") program = Effect.provideService(program, PolicyOverride, changesOf(config))
  return program
}

/** Runs one call to its end, whatever that is. */
export const runCall = Effect.fnUntraced(function* (play: Play, call: ScenarioCall, messages: ReadonlyArray<Message>) {
  const { scenario, stage } = play
  const conversation = yield* conversationOf(messages)
  const work: Work =
    scenario.mode === "agent" ? agentTurn(play, call, conversation) : ask(play, call, requestOf(call, messages))
  const fiber = yield* Effect.forkChild(underDrill(play, call, work))
  play.running.add(fiber)
  if (scenario.actions?.some((action) => action.do === "interrupt" && action.atMs < 0) === true)
    yield* Fiber.interrupt(fiber)
  const exit = yield* Fiber.await(fiber)
  play.running.delete(fiber)
  const endedAtMs = stage.now()
  const kept = yield* conversation.messages
  const history = scenario.mode !== "agent" && Exit.isSuccess(exit) ? [...kept, toMessage(exit.value)] : kept
  return { exit, endedAtMs, history }
})
