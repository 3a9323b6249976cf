/**
 * One logical request as a stream: parts are shown as they come, faults are withheld until recovery has failed. Chunks
 * travel as one array per network read; a consumer that does not take them stops the reads. What the consumer has, and
 * what it is told next, is the view's business (`StreamView`); here are the queue and the driver.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import type * as Cause from "effect/Cause"
import { makeModelError, type ModelError } from "../../domain/failure/ModelError.ts"
import type { ModelPart, ModelReply } from "../../domain/chat/ModelReply.ts"
import { noticeOf } from "../../domain/recovery/notice.ts"
import type { RecoveryAction } from "../../domain/recovery/RecoveryAction.ts"
import type { RecoveryEvent } from "../../domain/recovery/RecoveryEvent.ts"
import type { RecoveryPolicy } from "../../domain/recovery/RecoveryPolicy.ts"
import type { ReplyPart } from "../../domain/chat/ReplyPart.ts"
import * as StreamView from "../../domain/chat/StreamView.ts"
import type { RequestFailure } from "../../services/Recovery.ts"
import type { RequestKeeper } from "../../services/RequestKeep.ts"
import type { Progress } from "./attemptWatch.ts"
import type { CompleteOptions } from "./complete.ts"
import type { AttemptDriver } from "./AttemptDriver.ts"
import { isObject } from "../../domain/chat/json.ts"
import { makeExchange, type Exchange, type WindowSnapshot } from "./exchange.ts"
import type { Meter } from "./httpRequest.ts"
import { recover } from "./recover.ts"

/** Parts that may wait for a slow consumer before the reads stop. */
const bufferSize = 16

type Out = Queue.Queue<ReplyPart, RequestFailure | Cause.Done>

/** Told of every event of the request, with the policy it runs under. */
export type Listen = (event: RecoveryEvent, policy: RecoveryPolicy) => Effect.Effect<void>

export const stream = <R>(
  setUp: (listen: Listen) => Effect.Effect<CompleteOptions, RequestFailure, R>
): Stream.Stream<ReplyPart, RequestFailure, R> =>
  Stream.callback<ReplyPart, RequestFailure, R>(
    (out) =>
      Effect.matchCauseEffect(run(out, setUp), {
        onFailure: (cause) => Queue.failCause(out, cause),
        onSuccess: () => Queue.end(out)
      }),
    { bufferSize, strategy: "suspend" }
  )

const run = Effect.fnUntraced(function* <R>(
  out: Out,
  setUp: (listen: Listen) => Effect.Effect<CompleteOptions, RequestFailure, R>
): Effect.fn.Return<void, RequestFailure, R> {
  const clock = yield* Clock.Clock
  const options = yield* setUp((event, policy) => {
    const notice = noticeOf(policy, event)
    return notice === null ? Effect.void : Effect.asVoid(Queue.offer(out, notice))
  })
  const now = (): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  const cell = { view: StreamView.empty(options.policy.seamRepair) }
  const reply = yield* recover(options.loop, makeDriver(options, makeExchange(options), out, now, cell))
  yield* Queue.offer(out, StreamView.finish(cell.view, reply))
})

/** A delta of the reply: what the first-token and content timers wait for. */
const isDelta = (part: ModelPart): boolean =>
  part._tag === "Text" || part._tag === "Reasoning" || part._tag === "ToolCall" || part._tag === "ToolCallDelta"

/** Notes what one network read has brought; true = it is the first of the attempt. */
const noteRead = (progress: Progress, parts: ReadonlyArray<ModelPart>, at: number): boolean => {
  const isFirst = progress.headersAt === null
  progress.headersAt ??= at
  progress.lastByteAt = at
  if (parts.some(isDelta)) {
    progress.firstDeltaAt ??= at
    progress.lastDeltaAt = at
  }
  return isFirst
}

/** Keeps where the answer is kept, before anything of it is shown; null = it is kept nowhere. */
const noteStored = (
  keep: RequestKeeper | null,
  attempt: number,
  parts: ReadonlyArray<ModelPart>
): Effect.Effect<void> | null => {
  const stored = keep === null ? undefined : parts.find((part) => part._tag === "Stored")
  return keep === null || stored === undefined ? null : keep.noteStored({ attempt, name: stored.name })
}

/** Hands parts to the consumer. Waiting for it is not the provider's silence: the timers are told. */
const push = (
  out: Out,
  parts: ReadonlyArray<ReplyPart>,
  progress: Progress,
  now: () => number
): Effect.Effect<void> => {
  if (parts.length === 0) return Effect.void
  const rest = Queue.offerAllUnsafe(out, parts)
  if (rest.length === 0) return Effect.void
  progress.blocked = true
  return Effect.map(Queue.offerAll(out, rest), () => {
    const at = now()
    progress.blocked = false
    progress.lastByteAt = at
    if (progress.firstDeltaAt !== null) progress.lastDeltaAt = at
  })
}

/** What the consumer has. Written by the driver of one request alone. */
interface ViewCell {
  view: StreamView.StreamView
}

/** Takes one network read into the view; what the consumer is to be told of it. */
const acceptAll = (cell: ViewCell, parts: ReadonlyArray<ModelPart>): ReadonlyArray<ReplyPart> => {
  const [first] = parts
  if (parts.length === 1 && first !== undefined) {
    const told = StreamView.accept(cell.view, first)
    cell.view = told.view
    return told.parts
  }
  const news: Array<ReplyPart> = []
  for (const part of parts) {
    const told = StreamView.accept(cell.view, part)
    cell.view = told.view
    news.push(...told.parts)
  }
  return news
}

const makeDriver = (
  options: CompleteOptions,
  exchange: Exchange,
  out: Out,
  now: () => number,
  cell: ViewCell
): AttemptDriver => {
  const attempt: AttemptDriver["attempt"] = (plan, meter, progress, accepted) => {
    const { client, model } = plan.route
    const interrupted = (code: string | null): ModelError =>
      makeModelError({ kind: "interrupted", status: null, code, model })
    cell.view = StreamView.begin(cell.view)
    const onRead = (parts: ReadonlyArray<ModelPart>): Effect.Effect<void, ModelError> => {
      const isFirst = noteRead(progress, parts, now())
      const whole = parts.find((part) => part._tag === "Whole")
      if (whole !== undefined) progress.whole = endWith(whole.reply)
      const news = acceptAll(cell, parts)
      noteUsage(meter, cell.view)
      const kept = noteStored(options.keep ?? null, plan.attempt, parts)
      const shown = push(out, news, progress, now)
      const pushed = kept === null ? shown : Effect.andThen(kept, shown)
      const told = isFirst ? Effect.andThen(accepted, pushed) : pushed
      return cell.view.differs ? Effect.andThen(told, Effect.fail(interrupted("replay_differs"))) : told
    }
    /** Ends with the reply that has come, though its line has not ended. */
    const endWith = (reply: ModelReply): Effect.Effect<ModelReply> =>
      Effect.suspend(() => {
        const news = acceptAll(cell, [{ _tag: "End", reply }])
        return Effect.as(push(out, news, progress, now), reply)
      })
    const ended = Effect.suspend((): Effect.Effect<ModelReply, ModelError> => {
      const { reply } = cell.view
      return reply === null ? Effect.fail(interrupted(null)) : Effect.succeed(reply)
    })
    const parts = options.clientOf(client).stream(exchange.wire(plan))
    return Stream.runForEachArray(parts, onRead).pipe(
      Effect.andThen(ended),
      Effect.catch((error) => {
        const reply = exchange.nothingMore(error, plan)
        return reply === null ? Effect.fail(error) : endWith(reply)
      })
    )
  }
  return {
    streaming: true,
    promptTokens: exchange.promptTokens,
    fault: exchange.fault,
    attempt,
    classify: (result, plan, durationMillis) =>
      exchange.classify(result, plan, durationMillis, {
        delivered: StreamView.deliveredOf(cell.view),
        unfinishable: StreamView.isUnfinishable(cell.view),
        replayDiffers: cell.view.differs
      }),
    prepare: (action) => prepare(exchange, out, cell, action),
    compact: exchange.compact,
    merge: exchange.merge,
    partial: () => exchange.partial(StreamView.partialOf(cell.view)),
    handing: {
      shown: () => cell.view.kept + cell.view.text,
      snapshot: () => ({ window: exchange.snapshot(), view: cell.view }),
      restore: (snapshot) => {
        if (!isObject(snapshot) || !isObject(snapshot["view"])) return false
        exchange.restore(snapshot["window"] as WindowSnapshot)
        cell.view = { ...cell.view, ...snapshot["view"] }
        return true
      }
    }
  }
}

/** The first read of a 200 spends tokens, however it ends. */
const noteUsage = (meter: Meter, view: StreamView.StreamView): void => {
  meter.began = true
  meter.usage = view.usage
}

/** Does to window and view what the machine has decided. True = what the consumer had is dropped, or set aside. */
const prepare = (exchange: Exchange, out: Out, cell: ViewCell, action: RecoveryAction): Effect.Effect<boolean> =>
  Effect.suspend(() => {
    const { view } = cell
    const show = ({ view: next, parts }: StreamView.Told): Effect.Effect<void> => {
      cell.view = next
      return parts.length === 0 ? Effect.void : Effect.asVoid(Queue.offerAll(out, parts))
    }
    if (action._tag === "Continue") {
      exchange.keep(StreamView.fragmentOf(view))
      return Effect.as(show(StreamView.goOn(view)), false)
    }
    if (action._tag === "Escalate") return Effect.as(show(StreamView.setAside(view)), true)
    switch ("shown" in action ? action.shown : "none") {
      case "none":
        return Effect.succeed(false)
      case "restart":
        return Effect.as(show(StreamView.restart(view)), true)
      case "resume":
        exchange.keepShown(view.text)
        return Effect.as(show({ view: StreamView.resume(view), parts: [] }), false)
      case "splice":
        return Effect.as(show({ view: StreamView.replay(view), parts: [] }), false)
    }
  })
