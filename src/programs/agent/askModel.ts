/** The model round of one step: the request as hooks and history make it, and its one reply. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { given } from "../../domain/chat/given.ts"
import type { Message } from "../../domain/chat/Message.ts"
import { keys } from "../../domain/agent/turnFacts.ts"
import { leadingSystem } from "../../domain/chat/MessageGroups.ts"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type { ModelRequest } from "../../domain/chat/ModelRequest.ts"
import { PolicyOverride } from "../../services/Overrides.ts"
import type { RequestFailure } from "../../services/Recovery.ts"
import { RequestKeep, type RequestKeeper } from "../../services/RequestKeep.ts"
import { RequestWatch } from "../../services/RequestWatch.ts"
import type { AgentRun } from "./AgentRun.ts"
import { makeKeptStream } from "./keptStream.ts"
import type { EarlyTools } from "./earlyTools.ts"

/** `recalled`: what the memory brought for this turn; null = nothing. */
export const requestOf = Effect.fnUntraced(function* (run: AgentRun, recalled: string | null) {
  const { options, prepare, systemPrompt } = run
  const specs = yield* run.toolbox.specs
  const history = yield* run.conversation.messages
  const prepared =
    prepare === null
      ? history
      : yield* prepare(history).pipe(
          Effect.provideService(RequestWatch, { ended: run.work.takeTrail }),
          Effect.provideService(RequestKeep, null)
        )
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
    ...given({ maxOutputTokens: options.maxOutputTokens, priority: options.priority, params: options.params })
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

const keptStream = (
  run: AgentRun,
  request: ModelRequest,
  step: number,
  see: EarlyTools["see"]
): Effect.Effect<ModelReply, RequestFailure> =>
  Effect.gen(function* () {
    const reader = makeKeptStream(run.journal, keys.reply(step), (part) => run.emit({ _tag: "PartSeen", part }))
    const keep = yield* RequestKeep
    yield* reader.showAgain(keep?.before?.shown ?? "")
    const read = streamed(run, request, (part) => Effect.andThen(reader.see(part), see(part)))
    // What was decided is kept behind the text it was decided about.
    const inOrder: RequestKeeper | null =
      keep === null ? null : { ...keep, save: (...kept) => Effect.andThen(reader.flush, keep.save(...kept)) }
    return yield* Effect.raceFirst(Effect.provideService(read, RequestKeep, inOrder), reader.everySecond)
  })

const streamed = (
  run: AgentRun,
  request: ModelRequest,
  see: EarlyTools["see"]
): Effect.Effect<ModelReply, RequestFailure> =>
  Effect.gen(function* () {
    const last = yield* Stream.runLast(Stream.tap(run.options.executor.stream(request), see))
    return Option.isSome(last) && last.value._tag === "Finish"
      ? last.value.reply
      : yield* Effect.die(new Error("a stream ended without Finish"))
  })

/** `see` is told of every part of a stream. The requests enter the trail of the turn, however they end. */
export const askModel = (
  run: AgentRun,
  request: ModelRequest,
  step: number,
  see: EarlyTools["see"]
): Effect.Effect<ModelReply, RequestFailure> => {
  const { executor, stream } = run.options
  const call =
    stream !== true
      ? executor.complete(request)
      : run.journal.turn === null
        ? streamed(run, request, (part) => Effect.andThen(run.emit({ _tag: "PartSeen", part }), see(part)))
        : keptStream(run, request, step, see)
  // Who looks at the run from outside sees where its request stands; the trails are the turn's.
  return Effect.flatMap(RequestWatch, (outer) =>
    Effect.provideService(onModel(run, request, call), RequestWatch, {
      began: (standing) => outer?.began?.(standing),
      ended: run.work.takeTrail
    })
  )
}
