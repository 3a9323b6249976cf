/** Runs of the agent loop for its tests: an executor that answers in order, a tool that echoes, and what came of it. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import type { AgentEvent } from "../../src/domain/agent/AgentEvent.ts"
import type { Message } from "../../src/domain/chat/Message.ts"
import type { ModelError } from "../../src/domain/failure/ModelError.ts"
import type { ModelReply, ToolCall } from "../../src/domain/chat/ModelReply.ts"
import type { ModelRequest } from "../../src/domain/chat/ModelRequest.ts"
import * as ConversationMemory from "../../src/programs/agent/ConversationMemory.ts"
import { makeReply } from "../../src/layers/ScriptedModel.ts"
import * as ToolboxLive from "../../src/layers/ToolboxLive.ts"
import { runAgent, type AgentOptions } from "../../src/programs/agent/runAgent.ts"
import type { ModelRequestExecutor, RequestFailure } from "../../src/services/Recovery.ts"
import { Toolbox } from "../../src/services/Toolbox.ts"

type Answer = ModelReply | ModelError | Effect.Effect<ModelReply, RequestFailure>

export const call = (id: string, name: string, args: unknown = {}): ToolCall => ({
  id,
  name,
  arguments: typeof args === "string" ? args : JSON.stringify(args)
})
export const asks = (...toolCalls: ReadonlyArray<ToolCall>): ModelReply =>
  makeReply({ text: null, toolCalls, finishReason: "tool_calls" })
export const says = (text: string): ModelReply => makeReply({ text })

/** Moves the clock on until a fiber has ended. */
export const drive = <A, E>(fiber: Fiber.Fiber<A, E>) =>
  Effect.gen(function* () {
    for (let round = 0; round < 2_000 && fiber.pollUnsafe() === undefined; round += 1) yield* TestClock.adjust(100)
    return yield* Fiber.join(fiber)
  })

/** An executor that answers in order; a request beyond the end gets "end". */
export const executorOf = (answers: ReadonlyArray<Answer>) => {
  const requests: Array<ModelRequest> = []
  const executor: ModelRequestExecutor = {
    complete: (request) =>
      Effect.suspend(() => {
        const answer = answers[requests.length] ?? says("end")
        requests.push(request)
        if (Effect.isEffect(answer)) return answer as Effect.Effect<ModelReply, RequestFailure>
        return "_tag" in answer ? Effect.fail(answer) : Effect.succeed(answer)
      }),
    stream: () => Stream.die("not used"),
    turn: (body) => body
  }
  return { executor, requests }
}

export const echo = (options: ToolboxLive.RunOptions = {}, name = "echo") => {
  const seen: Array<unknown> = []
  const one = ToolboxLive.tool({
    name,
    description: "says it again",
    parameters: Schema.Struct({ text: Schema.optionalKey(Schema.String), n: Schema.optionalKey(Schema.Int) }),
    run: (args) =>
      Effect.sync(() => {
        seen.push(args)
        return `echo ${args.text ?? args.n ?? ""}`
      }),
    ...options
  })
  return { one, seen }
}

interface Ran<A, E> {
  readonly exit: Exit.Exit<A, E>
  readonly history: ReadonlyArray<Message>
  readonly events: ReadonlyArray<AgentEvent>
}

export const runWith = Effect.fnUntraced(function* (
  executor: ModelRequestExecutor,
  tools: ReadonlyArray<ToolboxLive.Tool>,
  options: Partial<AgentOptions> & { readonly history?: ReadonlyArray<Message>; readonly prompt?: string | null } = {}
) {
  const { history = [{ role: "user", content: "go" } as const], prompt = null, ...rest } = options
  const events: Array<AgentEvent> = []
  const conversation = rest.conversation ?? (yield* ConversationMemory.make(history))
  const toolbox = yield* Effect.orDie(ToolboxLive.make(tools))
  const exit = yield* Effect.exit(
    runAgent({ executor, conversation, emit: (event) => Effect.sync(() => events.push(event)), ...rest }, prompt).pipe(
      Effect.provideService(Toolbox, Toolbox.of(toolbox))
    )
  )
  return { exit, history: yield* conversation.messages, events } satisfies Ran<unknown, unknown>
})

export const roles = (messages: ReadonlyArray<Message>): string => messages.map((message) => message.role[0]).join("")
export const kindsOf = (events: ReadonlyArray<AgentEvent>): ReadonlyArray<string> =>
  events.flatMap((event) => (event._tag === "ResultAdded" ? [event.result.kind] : []))
export const errorOf = <A, E>(exit: Exit.Exit<A, E>): E => {
  if (Exit.isSuccess(exit)) throw new Error("it succeeded")
  const reason = exit.cause.reasons.find((one) => one._tag === "Fail")
  if (reason === undefined) throw new Error("it did not fail")
  return reason.error
}
