/** The model round of one step: the request as hooks and history make it, and its one reply. */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Message } from "../../domain/chat/Message.ts"
import { leadingSystem } from "../../domain/chat/MessageGroups.ts"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type { ModelRequest } from "../../domain/chat/ModelRequest.ts"
import { PolicyOverride } from "../../services/Overrides.ts"
import type { RequestFailure } from "../../services/Recovery.ts"
import { RequestWatch } from "../../services/RequestWatch.ts"
import type { AgentRun } from "./AgentRun.ts"
import type { EarlyTools } from "./earlyTools.ts"

/** `recalled`: what the memory brought for this turn; null = nothing. */
export const requestOf = Effect.fnUntraced(function* (run: AgentRun, recalled: string | null) {
  const { options, prepare, systemPrompt } = run
  const specs = yield* run.toolbox.specs
  const history = yield* run.conversation.messages
  const prepared =
    prepare === null
      ? history
      : yield* Effect.provideService(prepare(history), RequestWatch, { ended: run.work.takeTrail })
  const head = leadingSystem(prepared)
  const own = systemPrompt === null ? null : yield* systemPrompt
  const system: ReadonlyArray<Message> = own === null ? prepared.slice(0, head) : [{ role: "system", content: own }]
  const request: ModelRequest = {
    messages: [
      ...system,
      ...(recalled === null ? [] : [{ role: "system" as const, content: recalled }]),
      ...prepared.slice(head)
    ],
    ...(specs.length === 0 ? {} : { tools: specs }),
    ...(options.maxOutputTokens === undefined ? {} : { maxOutputTokens: options.maxOutputTokens }),
    ...(options.priority === undefined ? {} : { priority: options.priority }),
    ...(options.params === undefined ? {} : { params: options.params })
  }
  return request
})

/** The call on the model the selector names. */
const onModel = <A, E, R>(
  run: AgentRun,
  request: ModelRequest,
  call: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> => {
  const { routesFor, phase = "act" } = run.options
  const { selector } = run
  if (selector === null || routesFor === undefined) return call
  return Effect.gen(function* () {
    const contextTokens = run.estimate(request.messages, request.tools ?? [])
    const model = yield* selector.select({ phase, contextTokens })
    const override = yield* PolicyOverride
    return yield* Effect.provideService(call, PolicyOverride, { ...override, routes: routesFor(model) })
  })
}

const streamed = (
  run: AgentRun,
  request: ModelRequest,
  see: EarlyTools["see"]
): Effect.Effect<ModelReply, RequestFailure> =>
  Effect.gen(function* () {
    let reply: ModelReply | null = null
    yield* Stream.runForEach(run.options.executor.stream(request), (part) => {
      if (part._tag === "Finish") reply = part.reply
      return Effect.andThen(run.emit({ _tag: "PartSeen", part }), see(part))
    })
    return reply ?? (yield* Effect.die(new Error("a stream ended without Finish")))
  })

/** `see` is told of every part of a stream. The requests enter the trail of the turn, however they end. */
export const askModel = (
  run: AgentRun,
  request: ModelRequest,
  see: EarlyTools["see"]
): Effect.Effect<ModelReply, RequestFailure> => {
  const call = run.options.stream === true ? streamed(run, request, see) : run.options.executor.complete(request)
  return Effect.provideService(onModel(run, request, call), RequestWatch, { ended: run.work.takeTrail })
}
