/**
 * What a journal keeps of an agent's turn: the keys of its steps and the form of their values. Fields that this version
 * does not know are kept as they are. Pure.
 */
import * as Schema from "effect/Schema"
import type { ContentPart, Message } from "../chat/Message.ts"
import type { ModelReply } from "../chat/ModelReply.ts"
import { Usage } from "../chat/Usage.ts"
import type { Amount } from "../budget/Budget.ts"
import { TrailEntry, type Trail } from "../failure/Trail.ts"
import type { ToolResult } from "./ToolResult.ts"

/** Names of the steps. `step` counts from 1, `call` from 0: neither depends on what runs beside it. */
export const keys = {
  after: "after",
  history: "history",
  /** What the history before was booked as, where it came from outside. */
  spent: "spent",
  prompt: "prompt",
  recalled: "recalled",
  learned: "learned",
  reply: (step: number): string => `step/${step}/reply`,
  call: (step: number, call: number): string => `step/${step}/call/${call}`,
  approval: (step: number, call: number): string => `step/${step}/call/${call}/approval`,
  warned: (step: number): string => `step/${step}/warned`,
  more: (step: number): string => `step/${step}/more`
}

const anything = Schema.Record(Schema.String, Schema.Unknown)

const ToolCallFields = Schema.StructWithRest(
  Schema.Struct({ id: Schema.String, name: Schema.String, arguments: Schema.String }),
  [anything]
)

const ReplyFields = Schema.StructWithRest(
  Schema.Struct({
    text: Schema.NullOr(Schema.String),
    refusal: Schema.NullOr(Schema.String),
    reasoning: Schema.NullOr(Schema.String),
    reasoningParts: Schema.Array(anything),
    toolCalls: Schema.Array(ToolCallFields),
    finishReason: Schema.String,
    usage: Usage,
    model: Schema.String,
    servedModel: Schema.NullOr(Schema.String),
    providerRequestId: Schema.NullOr(Schema.String),
    warnings: Schema.Array(Schema.String)
  }),
  [anything]
)

export const AmountFields = Schema.Struct({ tokens: Schema.Finite, costUsd: Schema.NullOr(Schema.Finite) })

const RouteFields = Schema.Struct({ model: Schema.String, client: Schema.NullOr(Schema.String) })

type RouteRef = typeof RouteFields.Type

/** A reply with what it took: its requests, and where the turn stood behind it. */
const ReplyFact = Schema.StructWithRest(
  Schema.Struct({
    reply: ReplyFields,
    /** Requests of this step, counted from the beginning of the turn. */
    trail: Schema.Array(TrailEntry),
    /** What they were booked as. */
    spent: AmountFields,
    /** Milliseconds the turn had spent inside recovery. */
    usedMs: Schema.Finite,
    route: Schema.NullOr(RouteFields),
    gone: Schema.Array(RouteFields)
  }),
  [anything]
)

export interface ReplyFact {
  readonly reply: ModelReply
  readonly trail: Trail
  readonly spent: Amount
  readonly usedMs: number
  readonly route: RouteRef | null
  readonly gone: ReadonlyArray<RouteRef>
}

/** A reply that is not there yet: what its requests were so far. */
export interface OpenReply {
  /** Grows with every decision: a turn that gets further is not stuck. */
  readonly facts: number
  readonly trail: Trail
  readonly spent: Amount
  readonly usedMs: number
  readonly atEpochMs: number
  /** When the owner that kept its first fact began it; absent = nobody has said so. */
  readonly begunEpochMs?: number
  /** Where its request stands; null = nothing has been decided. */
  readonly request: KeptFields | null
  /** Where the answer to its last request is kept; absent = nowhere. */
  readonly stored?: { readonly attempt: number; readonly name: string } | null
}

interface KeptFields {
  readonly shown: string
  readonly [field: string]: unknown
}

const OpenFields = Schema.Struct({
  facts: Schema.Int,
  trail: Schema.Array(TrailEntry),
  spent: AmountFields,
  usedMs: Schema.Finite,
  atEpochMs: Schema.Finite,
  begunEpochMs: Schema.optionalKey(Schema.Finite),
  request: Schema.NullOr(Schema.StructWithRest(Schema.Struct({ shown: Schema.String }), [anything])),
  stored: Schema.optionalKey(Schema.NullOr(Schema.Struct({ attempt: Schema.Int, name: Schema.String })))
})

const ResultFields = Schema.StructWithRest(
  Schema.Struct({
    kind: Schema.Literals(["ok", "failed", "invalid_arguments", "unknown_tool", "timed_out", "interrupted", "not_run"]),
    content: Schema.String,
    errorTag: Schema.NullOr(Schema.String)
  }),
  [anything]
)

const PartFields = Schema.StructWithRest(Schema.Struct({ type: Schema.String }), [anything])

/** What the user says: a text, or parts (pictures, files); null = nothing, the history goes on as it is. */
export type Prompt = string | ReadonlyArray<ContentPart> | null

const MessageFields = Schema.StructWithRest(Schema.Struct({ role: Schema.String }), [anything])

/** JSON in and out: nothing is made of the fields beside those that are named. */
const codec = <A>(schema: unknown): Schema.Codec<A, unknown> => schema as Schema.Codec<A, unknown>

/** How the values of the steps are kept. */
export const codecs = {
  reply: codec<ReplyFact>(ReplyFact),
  open: codec<OpenReply>(OpenFields),
  amount: codec<Amount>(AmountFields),
  result: codec<ToolResult>(ResultFields),
  text: codec<string>(Schema.String),
  optionalText: codec<string | null>(Schema.NullOr(Schema.String)),
  prompt: codec<Prompt>(Schema.NullOr(Schema.Union([Schema.String, Schema.Array(PartFields)]))),
  messages: codec<ReadonlyArray<Message>>(Schema.Array(MessageFields)),
  nothing: codec<null>(Schema.Null)
}
