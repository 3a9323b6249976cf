/**
 * One logical request as a stream: parts are shown as they come, faults are withheld until recovery has failed. Chunks
 * travel as one array per network read; a consumer that does not take them stops the reads.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import type * as Cause from "effect/Cause"
import { makeModelError, type ModelError } from "../../domain/failure/ModelError.ts"
import type { ModelPart, ModelReply } from "../../domain/chat/ModelReply.ts"
import type { Shown } from "../../domain/recovery/RecoveryAction.ts"
import type { RecoveryEvent } from "../../domain/recovery/RecoveryEvent.ts"
import type { RecoveryPolicy } from "../../domain/recovery/RecoveryPolicy.ts"
import type { ReplyPart } from "../../domain/chat/ReplyPart.ts"
import { overlapOf, textOf } from "../../domain/chat/RequestWindow.ts"
import * as Usage from "../../domain/chat/Usage.ts"
import { requestsText, spanText } from "../../domain/failure/wording.ts"
import type { RequestFailure } from "../../services/Recovery.ts"
import type { Progress } from "./attemptWatch.ts"
import type { CompleteOptions } from "./complete.ts"
import { makeConversation } from "./conversation.ts"
import { recover, type AttemptDriver } from "./recover.ts"

/** Parts that may wait for a slow consumer before the reads stop. */
const bufferSize = 16

/** What a user may want to see of an event; null = nothing. */
const noticeOf = (policy: RecoveryPolicy, event: RecoveryEvent): ReplyPart | null => {
  switch (event._tag) {
    case "Waiting":
      return policy.notices
        ? {
            _tag: "Notice",
            about: "waiting",
            text: `next try in ${spanText(event.remainingMs)}, after ${requestsText(event.attempt)}`,
            attempt: event.attempt,
            remainingMs: event.remainingMs
          }
        : null
    case "Heartbeat":
      // During a wait the Waiting event beside it says more.
      return event.remainingMs === undefined
        ? { _tag: "Notice", about: "heartbeat", text: "still waiting for the model", attempt: event.attempt }
        : null
    case "ModelSwitched":
      return policy.notices
        ? { _tag: "Notice", about: "switched", text: `switched from ${event.from} to ${event.to}`, attempt: 0 }
        : null
    case "Transitioned":
      return policy.notices && event.action._tag === "Compact"
        ? {
            _tag: "Notice",
            about: "compacting",
            text: "the input is too long: shortening it",
            attempt: event.state.attempts
          }
        : null
    default:
      return null
  }
}

type Out = Queue.Queue<ReplyPart, RequestFailure | Cause.Done>

/** What the consumer has seen of the reply that is being built. */
interface View {
  /** Text that is not in the window as a fragment yet. */
  text: string
  reasoning: boolean
  toolCalls: boolean
}

export const stream = <R>(
  setUp: (listen: (event: RecoveryEvent) => Effect.Effect<void>) => Effect.Effect<CompleteOptions, RequestFailure, R>
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
  setUp: (listen: (event: RecoveryEvent) => Effect.Effect<void>) => Effect.Effect<CompleteOptions, RequestFailure, R>
): Effect.fn.Return<void, RequestFailure, R> {
  const clock = yield* Clock.Clock
  const now = (): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  let policy: RecoveryPolicy | null = null
  const options = yield* setUp((event) => {
    const notice = policy === null ? null : noticeOf(policy, event)
    return notice === null ? Effect.void : Effect.asVoid(Queue.offer(out, notice))
  })
  policy = options.policy
  const conversation = makeConversation(options)
  const shown: View = { text: "", reasoning: false, toolCalls: false }
  let last: ModelReply | null = null
  let aside: ModelReply | null = null
  /** Text a replay has to begin with before anything new is shown; null = no replay. */
  let replay: { readonly expected: string; matched: number } | null = null
  let replayDiffers = false
  /** Beginning of a continuation, held back until its overlap with the fragment is known; null = not holding. */
  let held: string | null = null

  const forget = (): void => {
    replay = null
    shown.text = ""
    shown.reasoning = false
    shown.toolCalls = false
  }

  /** Hands parts to the consumer. Waiting for it is not the provider's silence: the timers are told. */
  const push = (parts: ReadonlyArray<ReplyPart>, progress: Progress): Effect.Effect<void> => {
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

  /** The part of a text that is new to the consumer; null = the replay says something else. */
  const fresh = (text: string): string | null => {
    if (replay === null) return text
    const want = replay.expected.slice(replay.matched, replay.matched + text.length)
    if (!text.startsWith(want)) return null
    replay.matched += want.length
    if (replay.matched === replay.expected.length) replay = null
    return text.slice(want.length)
  }

  const release = (): string => {
    const text = held ?? ""
    held = null
    return text.slice(overlapOf(textOf(conversation.window()), text, options.policy.seamRepair))
  }

  const mismatch = (model: string): ModelError =>
    makeModelError({ kind: "interrupted", status: null, code: "replay_differs", model })

  const attempt: AttemptDriver["attempt"] = (plan, meter, progress, accepted) => {
    const client = options.clientOf(plan.route.client)
    last = null
    held = null
    replayDiffers = false
    shown.toolCalls = false
    if (options.policy.seamRepair > 0 && conversation.window().fragments.length > 0) held = ""
    const show = (parts: ReadonlyArray<ModelPart>): Effect.Effect<void, ModelError> => {
      const at = now()
      meter.began = true
      const isFirst = progress.headersAt === null
      progress.headersAt ??= at
      progress.lastByteAt = at
      const news: Array<ReplyPart> = []
      const say = (text: string): void => {
        if (text === "") return
        shown.text += text
        news.push({ _tag: "TextDelta", text })
      }
      for (const part of parts) {
        if (
          part._tag === "Text" ||
          part._tag === "Reasoning" ||
          part._tag === "ToolCall" ||
          part._tag === "ToolCallDelta"
        ) {
          progress.firstDeltaAt ??= at
          progress.lastDeltaAt = at
        }
        switch (part._tag) {
          case "Text": {
            const text = fresh(part.text)
            if (text === null) {
              replayDiffers = true
              return Effect.fail(mismatch(plan.route.model))
            }
            if (held === null) say(text)
            else {
              held += text
              if (held.length >= options.policy.seamRepair) say(release())
            }
            break
          }
          case "Reasoning":
            shown.reasoning = true
            news.push({ _tag: "ReasoningDelta", text: part.text })
            break
          case "ToolCallDelta":
            shown.toolCalls = true
            break
          case "ToolCall":
            shown.toolCalls = true
            news.push({
              _tag: "ToolCallReady",
              id: part.call.id,
              name: part.call.name,
              arguments: part.call.arguments
            })
            break
          case "Usage":
            meter.usage = Usage.update(meter.usage, part.usage)
            news.push({ _tag: "UsageSeen", usage: meter.usage })
            break
          case "Life":
            break
          case "End":
            if (replay !== null) {
              replayDiffers = true
              return Effect.fail(mismatch(plan.route.model))
            }
            if (held !== null) say(release())
            last = part.reply
        }
      }
      const pushed = news.length === 0 ? Effect.void : push(news, progress)
      return isFirst ? Effect.andThen(accepted, pushed) : pushed
    }
    return Effect.andThen(
      Stream.runForEachArray(client.stream(conversation.wire(plan)), show),
      Effect.suspend(() =>
        last === null
          ? Effect.fail(makeModelError({ kind: "interrupted", status: null, model: plan.route.model }))
          : Effect.succeed(last)
      )
    )
  }

  /** A Reset drops everything the consumer has; fragments that are kept are shown again behind it. */
  const reset = Effect.suspend(() => {
    forget()
    const kept = textOf(conversation.window())
    const parts: ReadonlyArray<ReplyPart> = [{ _tag: "Reset" }, { _tag: "TextDelta", text: kept }]
    return Effect.asVoid(Queue.offerAll(out, kept === "" ? parts.slice(0, 1) : parts))
  })

  /** Does what the machine decided about the text on screen. True = it was dropped. */
  const go = (decided: Shown): Effect.Effect<boolean> => {
    switch (decided) {
      case "none":
        return Effect.succeed(false)
      case "restart":
        return Effect.as(reset, true)
      case "resume":
        conversation.keepShown(shown.text)
        forget()
        return Effect.succeed(false)
      case "splice":
        replay = { expected: shown.text, matched: 0 }
        return Effect.succeed(false)
    }
  }

  const driver: AttemptDriver = {
    streaming: true,
    promptTokens: conversation.promptTokens,
    fault: conversation.fault,
    attempt,
    classify: (result, plan, durationMillis) =>
      conversation.classify(result, plan, durationMillis, {
        delivered: shown.text.length,
        unfinishable: shown.toolCalls || (shown.text === "" && shown.reasoning),
        replayDiffers
      }),
    prepare: (action) =>
      Effect.suspend(() => {
        if (action._tag === "Continue") {
          conversation.keep((last ?? aside)?.text ?? "")
          aside = null
          forget()
          return Effect.succeed(false)
        }
        if (action._tag === "Escalate") aside = last
        return Effect.map(
          go("shown" in action ? action.shown : "none"),
          (dropped) => dropped || action._tag === "Escalate"
        )
      }),
    compact: conversation.compact,
    merge: conversation.merge,
    partial: () => conversation.partial(shown.text === "" ? ((last ?? aside)?.text ?? null) : shown.text)
  }

  const reply = yield* recover(options.loop, driver)
  // A refusal has no text: what was shown before it is not part of the reply.
  if (reply.refusal !== null && (shown.text !== "" || textOf(conversation.window()) !== ""))
    yield* Queue.offer(out, { _tag: "Reset" })
  yield* Queue.offer(out, { _tag: "Finish", reply })
})
