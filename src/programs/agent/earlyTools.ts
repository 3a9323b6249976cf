/**
 * Tools that are safe to repeat may start as soon as their call is whole in the stream. Their results are used when the
 * final reply has the same call at the same place; all others are stopped and forgotten.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Scope from "effect/Scope"
import { canonicalText } from "../../domain/agent/CanonicalJson.ts"
import * as LoopGuard from "../../domain/agent/LoopGuard.ts"
import type { ToolCall } from "../../domain/chat/ModelReply.ts"
import type { ReplyPart } from "../../domain/chat/ReplyPart.ts"
import type { ToolResult } from "../../domain/agent/ToolResult.ts"
import type { ToolboxShape } from "../../services/Toolbox.ts"
import { Journal, noJournal } from "../../services/Journal.ts"
import { RequestWatch } from "../../services/RequestWatch.ts"
import { runTool } from "./toolSpan.ts"

interface Started {
  readonly name: string
  readonly arguments: string
  readonly fiber: Fiber.Fiber<ToolResult>
}

export interface EarlyTools {
  /** Told of every part of the stream, in order. */
  readonly see: (part: ReplyPart) => Effect.Effect<void>
  readonly take: (call: ToolCall, ordinal: number) => Effect.Effect<ToolResult> | null
}

/** No tool starts early. */
export const noEarlyTools: EarlyTools = { see: () => Effect.void, take: () => null }

/** A tool's own requests are none of the turn's, whenever it runs; neither are its steps. */
const unwatched = <A>(body: Effect.Effect<A>): Effect.Effect<A> =>
  body.pipe(Effect.provideService(RequestWatch, null), Effect.provideService(Journal, noJournal))

/** Whatever was started ends with `scope`. */
export const makeEarlyTools = (
  toolbox: ToolboxShape,
  guard: LoopGuard.LoopGuardState,
  scope: Scope.Scope
): EarlyTools => {
  const started = new Map<number, Started>()
  let ordinal = 0
  /** A call that may not start early holds back those behind it: they could depend on it. */
  let isHeld = false
  let judged = guard

  const isSame = (one: Started, call: Pick<ToolCall, "name" | "arguments">): boolean =>
    one.name === call.name && canonicalText(one.arguments) === canonicalText(call.arguments)

  const mayStart = (call: ToolCall): boolean => {
    const traits = toolbox.traits(call.name)
    const guarded = { name: call.name, arguments: call.arguments, polling: traits.polling }
    const verdict = LoopGuard.judge(judged, guarded)
    judged = LoopGuard.note(judged, guarded, null).state
    return (
      traits.repeat === "safe" &&
      traits.approval !== true &&
      verdict._tag === "Run" &&
      (traits.parallel || ordinal === 0)
    )
  }

  return {
    see: (part) =>
      Effect.gen(function* () {
        if (part._tag === "Reset") {
          ordinal = 0
          isHeld = false
          judged = guard
          return
        }
        if (part._tag !== "ToolCallReady") return
        const call: ToolCall = { id: part.id, name: part.name, arguments: part.arguments }
        const at = ordinal
        isHeld = isHeld || !mayStart(call)
        // A tool that runs alone also holds back what comes behind it.
        const holdsNext = !toolbox.traits(call.name).parallel
        ordinal += 1
        const known = started.get(at)
        if (!isHeld && (known === undefined || !isSame(known, call))) {
          if (known !== undefined) yield* Fiber.interrupt(known.fiber)
          const fiber = yield* Effect.forkIn(unwatched(runTool(toolbox, call)), scope)
          started.set(at, { name: call.name, arguments: call.arguments, fiber })
        }
        isHeld = isHeld || holdsNext
      }),
    take: (call, at) => {
      const one = started.get(at)
      return one !== undefined && isSame(one, call) ? Fiber.join(one.fiber) : null
    }
  }
}
