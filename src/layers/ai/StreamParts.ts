/**
 * From the parts of a recovered stream to those of effect/ai, as data. effect/ai knows no Reset: what was shown stays.
 * When recovery begins a stream again, text is told from where the consumer's text ends; a text that runs otherwise
 * waits for the end. There it falls away when the reply goes on with tools (the consumer has read its preamble), and is
 * a text of its own when it is the answer. Tool calls are told at the end only, when nothing takes them back.
 */
import type * as Response from "effect/ai/Response"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type { ReplyPart } from "../../domain/chat/ReplyPart.ts"
import {
  hasReasoning,
  headOf,
  reasoningMetadata,
  restOf,
  saidBy,
  textMetadata,
  wrappedMetadata
} from "./responseParts.ts"

export interface StreamParts {
  /** Text the consumer has. */
  readonly shown: string
  /** Text since the last Reset that the consumer has not; null = there was no Reset, or the text has caught up. */
  readonly held: string | null
  /** Reasoning the consumer has, and whether more may follow. */
  readonly reasoning: "none" | "open" | "closed"
  readonly isTextOpen: boolean
}

type Out = Response.StreamPartEncoded

export interface Told {
  readonly state: StreamParts
  readonly parts: ReadonlyArray<Out>
}

export const empty: StreamParts = { shown: "", held: null, reasoning: "none", isTextOpen: false }

const textId = "text-1"
const reasoningId = "reasoning-1"

const silent = (state: StreamParts): Told => ({ state, parts: [] })

const say = (state: StreamParts, delta: string): Told =>
  delta === ""
    ? silent(state)
    : {
        state: { ...state, shown: state.shown + delta, isTextOpen: true },
        parts: [
          ...(state.isTextOpen ? [] : [{ type: "text-start" as const, id: textId }]),
          { type: "text-delta", id: textId, delta }
        ]
      }

const onText = (state: StreamParts, text: string): Told => {
  if (state.held === null) return say(state, text)
  const held = state.held + text
  if (!held.startsWith(state.shown)) return silent({ ...state, held })
  return say({ ...state, held: null }, held.slice(state.shown.length))
}

/** Reasoning is shown of the first attempt that had some: told again it would stand there twice. */
const onReasoning = (state: StreamParts, delta: string): Told => {
  if (state.reasoning === "closed" || delta === "") return silent(state)
  return {
    state: { ...state, reasoning: "open" },
    parts: [
      ...(state.reasoning === "open" ? [] : [{ type: "reasoning-start" as const, id: reasoningId }]),
      { type: "reasoning-delta", id: reasoningId, delta }
    ]
  }
}

/** The text begins again; what the consumer has stays. */
const onReset = (state: StreamParts): Told =>
  silent({
    ...state,
    held: state.shown === "" ? null : "",
    reasoning: state.reasoning === "open" ? "closed" : state.reasoning
  })

/** What the reply says and the consumer has not. Nothing of it when tools follow, or when it has it all. */
const unsaid = (state: StreamParts, reply: ModelReply): string => {
  const held = reply.refusal ?? state.held ?? ""
  return reply.toolCalls.length > 0 || state.shown.startsWith(held) ? "" : held
}

const ownTextId = "text-2"

const endOfReasoning = (state: StreamParts, reply: ModelReply): ReadonlyArray<Out> => {
  const metadata = wrappedMetadata(reply, "reasoning") ?? reasoningMetadata(reply)
  const end: Out = { type: "reasoning-end", id: reasoningId, ...metadata }
  if (state.reasoning !== "none") return [end]
  return hasReasoning(reply) ? [{ type: "reasoning-start", id: reasoningId }, end] : []
}

const onFinish = (before: StreamParts, reply: ModelReply): Told => {
  const isHeld = before.held !== null
  // What was not told as text so far: a refusal.
  const spoken = !isHeld && before.shown === "" ? say(before, saidBy(reply)) : silent(before)
  const { state } = spoken
  const metadata = wrappedMetadata(reply, "text") ?? textMetadata(reply)
  const second = isHeld ? unsaid(state, reply) : ""
  return {
    state: { ...state, isTextOpen: false, reasoning: "closed" },
    parts: [
      ...headOf(reply),
      ...endOfReasoning(state, reply),
      ...spoken.parts,
      ...(state.isTextOpen ? [{ type: "text-end" as const, id: textId, ...metadata }] : []),
      ...(second === ""
        ? []
        : [
            { type: "text-start" as const, id: ownTextId },
            { type: "text-delta" as const, id: ownTextId, delta: second },
            { type: "text-end" as const, id: ownTextId, ...metadata }
          ]),
      ...restOf(reply)
    ]
  }
}

export const accept = (state: StreamParts, part: ReplyPart): Told => {
  switch (part._tag) {
    case "TextDelta":
      return onText(state, part.text)
    case "ReasoningDelta":
      return onReasoning(state, part.text)
    case "Reset":
      return onReset(state)
    case "Finish":
      return onFinish(state, part.reply)
    case "ToolCallReady":
    case "UsageSeen":
    case "Notice":
      return silent(state)
  }
}

/** Takes what came in one read. */
export const acceptAll = (before: StreamParts, parts: ReadonlyArray<ReplyPart>): Told => {
  let state = before
  const told: Array<Out> = []
  for (const part of parts) {
    const next = accept(state, part)
    state = next.state
    told.push(...next.parts)
  }
  return { state, parts: told }
}
