/**
 * What the code must know of an API to recover a request in that API's own form: how a request is seen and changed, how
 * an answer is read, how events are written anew after a repair, how a failure is told. Data and pure functions; the
 * readers are those of the adapters.
 */
import type * as Result from "effect/Result"
import type { Message, ToolSpec } from "../../chat/Message.ts"
import type { ModelReply } from "../../chat/ModelReply.ts"
import type { Verdict } from "../../provider/classify.ts"
import type { ProviderProfile } from "../../provider/ProviderProfile.ts"
import type { EventReader } from "../EventReader.ts"
import type { Json } from "../../chat/json.ts"
import type { Flaw, ReadContext } from "../wireReply.ts"

export type WireName = "chat" | "responses" | "messages"

/** A request as recovery needs to see it. */
export interface RequestView {
  /** The model in the body; null = it stands elsewhere (in the address). */
  readonly model: string | null
  readonly streams: boolean
  /** The caller's cap on output tokens, and the field that holds it; null = there is none. */
  readonly cap: number | null
  readonly capField: string
  readonly items: ReadonlyArray<Json>
  /** Items at the front that hold rules: they stay first. */
  readonly leading: number
  readonly hasTools: boolean
  readonly tools: ReadonlyArray<Json>
  /** Fields that tie the request to what one server keeps: it goes to no other account or model. */
  readonly pins: ReadonlyArray<string>
  /** Why only the transient road is right for this request; null = all are. */
  readonly only: string | null
  /** The answer is one JSON text: a continuation would not fit to it. */
  readonly isStructured: boolean
  /** The server goes on without us. */
  readonly isBackground: boolean
  /** The server keeps the answer: a stream of it can be taken up again. */
  readonly isStored: boolean
}

/** What one attempt changes of the request. */
export interface Change {
  /** null = the caller's. */
  readonly model: string | null
  readonly maxOutputTokens: number | null
  /** Parts that are bound to the model or account of the request stay behind. */
  readonly leavesHome: boolean
  /** Old items, from the leading ones to here, are replaced by this text; null = nothing is. */
  readonly summary: { readonly text: string; readonly until: number } | null
  /** Text of the answer so far, each followed by the prompt to go on. */
  readonly fragments: ReadonlyArray<string>
  readonly continuationPrompt: string
}

export type Side = "model" | "result" | "other"

/** Usage as the client has to see it after a repair; null = what the last attempt says. */
export interface UsageRepair {
  /** Prompt tokens of the caller's own request; null = unknown. */
  readonly promptTokens: number | null
  /** Tokens that recovery has added to the prompt of the last attempt. */
  readonly addedPromptTokens: number
  /** An estimate of the caller's own prompt. */
  readonly estimatedPromptTokens: number
  /** Output tokens of the fragments before the last attempt. */
  readonly earlierOutputTokens: number
}

/** What a client has seen, and how the events of a later attempt go on from it. */
export interface Stitcher {
  /** An event of the first attempt, as the client has seen it. */
  readonly saw: (event: Json) => void
  /** A new attempt begins. Events to send before it: what was left open and cannot go on is closed. */
  readonly begin: () => ReadonlyArray<Json>
  /**
   * An event of a later attempt as the client must see it. `text` = what of the event's text is new to the client; null =
   * the event has none.
   */
  readonly render: (event: Json, text: string | null, usage: UsageRepair | null) => ReadonlyArray<Json>
  /** Ids of items that were closed unfinished: when they come back they are left out. */
  readonly dead: ReadonlyArray<string>
}

/** A failure in the words of an API. */
export interface ToldFailure {
  readonly message: string
  readonly type: string
  readonly code: string | null
}

export interface NativeWire {
  readonly name: WireName
  /** null = the body is no request of this API: it is passed on as it is. */
  readonly view: (body: unknown, text: string) => RequestView | null
  /** The body's text with the change; the same text when nothing changes. */
  readonly patch: (text: string, view: RequestView, change: Change) => string
  /** Fields, from the outermost in, that name an earlier answer by its id. */
  readonly references: ReadonlyArray<readonly [string, ...Array<string>]>
  readonly sideOf: (item: Json) => Side
  /** Items as messages, for an estimate or a summary. */
  readonly messagesOf: (items: ReadonlyArray<Json>) => ReadonlyArray<Message>
  /** Tools as an estimate knows them. */
  readonly toolsOf: (tools: ReadonlyArray<Json>) => ReadonlyArray<ToolSpec>
  readonly readBody: (
    context: ReadContext,
    text: string,
    headers: Readonly<Record<string, string>>
  ) => Result.Result<ModelReply, Flaw | Verdict>
  readonly eventReaderOf: (context: ReadContext, headers: Readonly<Record<string, string>>) => EventReader
  readonly stitcher: () => Stitcher
  /** A body whose text begins with the fragments before it. */
  readonly mergedBody: (body: Json, before: string, usage: UsageRepair) => Json
  /** An answer that came as one body, as the events of a stream. */
  readonly eventsOf: (body: Json) => ReadonlyArray<Json>
  /** One event as it travels. */
  readonly eventText: (event: Json) => string
  /** What ends a stream behind its last event. */
  readonly closing: string
  /** The event without which clients do not take a whole stream for whole; "" = they need none. */
  readonly lastWord: string
  readonly errorBody: (failure: ToldFailure) => Json
  readonly errorEvent: (failure: ToldFailure) => string
  /** Type and code of a kind of failure. */
  readonly told: (kind: string) => Omit<ToldFailure, "message">
  /** A request of this API for a summary. */
  readonly summaryBody: (request: {
    readonly model: string
    readonly messages: ReadonlyArray<Message>
    readonly maxOutputTokens: number | null
    readonly profile: ProviderProfile
  }) => Json
  /** A line that shows a waiting client that the stream lives. */
  readonly keepAlive: string
}

/** What was reported without what was added; estimates never make it less than the caller's own prompt seems to be. */
const ownPrompt = (usage: UsageRepair, reported: number): number =>
  Math.max(reported - usage.addedPromptTokens, Math.min(reported, usage.estimatedPromptTokens))

/** Prompt tokens and output tokens after a repair. */
export const repaired = (usage: UsageRepair, prompt: number | null, output: number | null) => ({
  prompt: usage.promptTokens ?? (prompt === null ? null : ownPrompt(usage, prompt)),
  output: output === null ? null : output + usage.earlierOutputTokens
})
