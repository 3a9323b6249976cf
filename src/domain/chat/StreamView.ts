/**
 * What the consumer of a stream has, as data. Parts of an attempt and what the machine decides about it go in; what the
 * consumer is to be told comes out. For any sequence of them: nothing is told twice without a Reset, and when an attempt
 * has ended with its reply, the parts since the last Reset, joined, are that reply behind the kept text.
 */
import type { ModelPart, ModelReply, ToolCall } from "./ModelReply.ts"
import type { ReplyPart } from "./ReplyPart.ts"
import { overlapOf } from "./RequestWindow.ts"
import * as Usage from "./Usage.ts"

export interface StreamView {
  /** Longest repetition in characters that is dropped where a continuation begins; 0 = none is looked for. */
  readonly seamRepair: number
  /** Text of attempts that have ended and stays: the fragments of the window, joined. */
  readonly kept: string
  /** Text behind it that the consumer has. */
  readonly text: string
  /** Reasoning since the last Reset, and how much of it the attempt that runs has brought. */
  readonly reasoning: string
  readonly reasoned: number
  /** Calls the attempt has announced, in order. */
  readonly calls: ReadonlyArray<ToolCall>
  /** A call has begun, whether it was announced or not. */
  readonly isCalling: boolean
  /** Characters of `text` that a replay has repeated so far; null = there is no replay, or it has caught up. */
  readonly replayed: number | null
  /** The attempt began as a replay. */
  readonly isReplay: boolean
  /** The replay says something else than the consumer has. The attempt is over; nothing more is taken of it. */
  readonly differs: boolean
  /** Beginning of a continuation, held back until its overlap with the kept text is known; null = nothing is. */
  readonly held: string | null
  /** Usage of the attempt so far. */
  readonly usage: Usage.Usage
  /** How the attempt ended; null = it has not, or without a reply. */
  readonly reply: ModelReply | null
  /** The partial reply that a raise of the budget has set aside. */
  readonly aside: ModelReply | null
}

export interface Told {
  readonly view: StreamView
  readonly parts: ReadonlyArray<ReplyPart>
}

export const empty = (seamRepair: number): StreamView => ({
  seamRepair,
  kept: "",
  text: "",
  reasoning: "",
  reasoned: 0,
  calls: [],
  isCalling: false,
  replayed: null,
  isReplay: false,
  differs: false,
  held: null,
  usage: Usage.unknown,
  reply: null,
  aside: null
})

const silent = (view: StreamView): Told => ({ view, parts: [] })

/** Something of an attempt that is not settled yet: the next one must not begin behind it. */
const hasAnything = (view: StreamView): boolean => view.text !== "" || view.reasoned > 0 || view.isCalling

/** Characters of text the consumer has of the attempt; 0 = it may be asked for again without a word. */
export const deliveredOf = (view: StreamView): number => view.text.length

/** A call, or reasoning alone: nothing that could be gone on from. */
export const isUnfinishable = (view: StreamView): boolean => view.isCalling || (view.text === "" && view.reasoned > 0)

/** Text of the reply so far behind the kept one; null = there is none. */
export const partialOf = (view: StreamView): string | null =>
  view.text === "" ? ((view.reply ?? view.aside)?.text ?? null) : view.text

/** What the model wrote of the fragment that a continuation goes on from. After a refused raise it was set aside. */
export const fragmentOf = (view: StreamView): string => (view.reply ?? view.aside)?.text ?? ""

/** An attempt is sent. */
export const begin = (view: StreamView): StreamView => ({
  ...view,
  reasoned: 0,
  calls: [],
  isCalling: false,
  differs: false,
  held: view.seamRepair > 0 && view.kept !== "" ? "" : null,
  usage: Usage.unknown,
  reply: null
})

/** Takes one part of an attempt. After its reply, or once a replay differs, nothing more of it counts. */
export const accept = (view: StreamView, part: ModelPart): Told => {
  if (view.differs || view.reply !== null) return silent(view)
  switch (part._tag) {
    case "Text":
      return onText(view, part.text)
    case "Reasoning":
      return onReasoning(view, part.text)
    case "ToolCallDelta":
      return silent({ ...view, isCalling: true })
    case "ToolCall":
      return onCall({ ...view, isCalling: true }, part.call)
    case "Usage": {
      const usage = Usage.update(view.usage, part.usage)
      return { view: { ...view, usage }, parts: [{ _tag: "UsageSeen", usage }] }
    }
    case "Life":
    case "Stored":
    case "Whole":
      return silent(view)
    case "End":
      return onEnd(view, part.reply)
  }
}

const onText = (view: StreamView, text: string): Told => {
  if (view.held === null) return say(view, text)
  const held = view.held + text
  return held.length < view.seamRepair ? silent({ ...view, held }) : release({ ...view, held })
}

/** Tells what was held back, without what it repeats of the kept text. */
const release = (view: StreamView): Told => say({ ...view, held: null }, withoutOverlap(view, view.held ?? ""))

const withoutOverlap = (view: StreamView, text: string): string =>
  text.slice(overlapOf(view.kept, text, view.seamRepair))

/** Tells text, or compares it with what a replay has to begin with and tells what goes beyond. */
const say = (view: StreamView, text: string): Told => {
  const { replayed } = view
  if (replayed === null)
    return text === ""
      ? silent(view)
      : { view: { ...view, text: view.text + text }, parts: [{ _tag: "TextDelta", text }] }
  const expected = view.text.slice(replayed, replayed + text.length)
  if (!text.startsWith(expected)) return silent({ ...view, differs: true })
  const reached = replayed + expected.length
  const caughtUp: StreamView = { ...view, replayed: reached === view.text.length ? null : reached }
  return caughtUp.replayed === null ? say(caughtUp, text.slice(expected.length)) : silent(caughtUp)
}

/** Until a replay has caught up, its reasoning is that which the consumer has had. */
const onReasoning = (view: StreamView, text: string): Told =>
  view.replayed !== null || text === ""
    ? silent(view)
    : {
        view: { ...view, reasoning: view.reasoning + text, reasoned: view.reasoned + text.length },
        parts: [{ _tag: "ReasoningDelta", text }]
      }

/** A call that stands before the text of a replay waits for the end: the text may never come. */
const onCall = (view: StreamView, call: ToolCall): Told =>
  view.replayed !== null ? silent(view) : { view: { ...view, calls: [...view.calls, call] }, parts: [ready(call)] }

const ready = ({ id, name, arguments: args }: ToolCall): ReplyPart => ({
  _tag: "ToolCallReady",
  id,
  name,
  arguments: args
})

/** The reply is whole: what it holds and the consumer has not is told; what does not fit begins again. */
const onEnd = (before: StreamView, reply: ModelReply): Told => {
  const released = before.held === null ? silent(before) : release(before)
  if (released.view.differs) return released
  const view: StreamView = { ...released.view, reply }
  if (view.replayed !== null && !isAlone(reply) && (reply.text ?? "") !== "")
    return silent({ ...view, reply: null, differs: true })
  const rest = view.replayed === null ? missing(view, reply) : null
  if (rest === null) return renew(view, reply)
  return { view: rest.view, parts: [...released.parts, ...rest.parts] }
}

/** A refusal stands alone: the text kept before it is not part of the reply. */
const isAlone = (reply: ModelReply): boolean => reply.refusal !== null

const ownText = (view: StreamView, reply: ModelReply): string =>
  isAlone(reply) ? (reply.text ?? "") : withoutOverlap(view, reply.text ?? "")

const isSameCall = (left: ToolCall, right: ToolCall | undefined): boolean =>
  left.id === right?.id && left.name === right.name && left.arguments === right.arguments

/** What the consumer lacks of a reply; null = what it has is not the reply's beginning. */
const missing = (view: StreamView, reply: ModelReply): Told | null => {
  const text = ownText(view, reply)
  const calls = announced(view, reply)
  if (isAlone(reply) && view.kept !== "") return null
  if (!text.startsWith(view.text)) return null
  if (!view.calls.every((call, at) => isSameCall(call, calls[at]))) return null
  const thought = onReasoning(view, missingReasoning(view, reply.reasoning ?? ""))
  const spoken = say(thought.view, text.slice(view.text.length))
  const rest = calls.slice(view.calls.length)
  return { view: { ...spoken.view, calls }, parts: [...thought.parts, ...spoken.parts, ...rest.map(ready)] }
}

/** Reasoning the consumer lacks. Where it had other reasoning than the reply's, in a replay too, that is what stays. */
const missingReasoning = (view: StreamView, reasoning: string): string => {
  const own = view.reasoning.slice(view.reasoning.length - view.reasoned)
  const isComparable = !view.isReplay || view.reasoning === ""
  return isComparable && reasoning.startsWith(own) ? reasoning.slice(own.length) : ""
}

/** Calls a consumer may be told of: under a length stop one may be cut, so only those that have closed. */
const announced = (view: StreamView, reply: ModelReply): ReadonlyArray<ToolCall> =>
  reply.finishReason === "length"
    ? reply.toolCalls.filter((call) => view.calls.some((told) => isSameCall(told, call)))
    : reply.toolCalls

/** Drops what the consumer has and tells the whole reply. */
const renew = (before: StreamView, reply: ModelReply): Told => {
  const text = ownText(before, reply)
  const kept = isAlone(reply) ? "" : before.kept
  const reasoning = reply.reasoning ?? ""
  const calls = announced(before, reply)
  const view: StreamView = {
    ...before,
    kept,
    text,
    reasoning,
    reasoned: reasoning.length,
    calls,
    replayed: null
  }
  return {
    view,
    parts: [
      { _tag: "Reset" },
      ...(reasoning === "" ? [] : [{ _tag: "ReasoningDelta" as const, text: reasoning }]),
      ...(kept + text === "" ? [] : [{ _tag: "TextDelta" as const, text: kept + text }]),
      ...calls.map(ready)
    ]
  }
}

/** The next attempt goes on behind what the consumer has. */
export const resume = (view: StreamView): StreamView => ({
  ...settled(view),
  kept: view.kept + view.text,
  text: "",
  aside: null
})

/** The next attempt goes on behind the fragment; what was set aside of it is shown again. */
export const goOn = (view: StreamView): Told => {
  const fragment = withoutOverlap(view, fragmentOf(view))
  const { view: shown, parts } = say(settled(view), fragment.slice(view.text.length))
  return { view: resume(shown), parts }
}

/** The next attempt has to begin with the text that the consumer has of this one. */
export const replay = (view: StreamView): StreamView => ({
  ...settled(view),
  replayed: 0,
  isReplay: true
})

/** What the consumer has of the attempt is dropped; the kept text is shown again behind the Reset. */
export const restart = (view: StreamView): Told => {
  const next: StreamView = { ...settled(view), text: "" }
  if (!hasAnything(view)) return silent(next)
  return {
    view: { ...next, reasoning: "" },
    parts: view.kept === "" ? [{ _tag: "Reset" }] : [{ _tag: "Reset" }, { _tag: "TextDelta", text: view.kept }]
  }
}

/** The budget is raised: like a new beginning, with the partial reply set aside. */
export const setAside = (view: StreamView): Told => restart({ ...view, aside: view.reply })

/** Nothing of the attempt is pending any more; what it has brought is for the next decision to say. */
const settled = (view: StreamView): StreamView => ({ ...view, reasoned: 0, calls: [], replayed: null, isReplay: false })

/** The joined reply as the consumer has it: reasoning that was shown is part of it. */
export const finish = (view: StreamView, joined: ModelReply): ReplyPart => ({
  _tag: "Finish",
  reply: view.reasoning === (joined.reasoning ?? "") ? joined : { ...joined, reasoning: view.reasoning || null }
})
