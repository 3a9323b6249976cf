/**
 * How one provider reports failures, finish reasons and wait hints: data, chosen by the caller or by base URL, never
 * guessed from an answer. A profile adds to the global rules of `classify`; it never replaces the order
 * in-band error, profile, global table, status class.
 */
import * as Schema from "effect/Schema"
import { ConfigurationError } from "./ConfigurationError.ts"
import { FaultKind, isLegal } from "./FaultKind.ts"
import { HintFormat } from "./RetryAfter.ts"

/** A place in a JSON body: `/error/code`; `/0/error` is inside an array. */
export const Pointer = Schema.String
export type Pointer = typeof Pointer.Type

/** An exact match: this value at one of these places (default: the profile's code places) means this kind. */
export const CodeRow = Schema.Struct({
  /** null = with any status the kind allows. */
  status: Schema.NullOr(Schema.Int),
  /** null = at any of the code places. */
  at: Schema.NullOr(Pointer),
  value: Schema.Union([Schema.String, Schema.Finite, Schema.Boolean]),
  kind: FaultKind
})
export type CodeRow = typeof CodeRow.Type

export const FinishReasonName = Schema.Literals([
  "stop",
  "length",
  "tool_calls",
  "content_filter",
  "refusal",
  "window_full",
  "pause"
])

/** Where a wait hint stands. `exhausted`: a header that must be 0 for the reset to count (a window that is used up). */
export const HintSource = Schema.Struct({
  header: Schema.NullOr(Schema.String),
  pointer: Schema.NullOr(Pointer),
  format: HintFormat,
  exhausted: Schema.NullOr(Schema.String)
})
export type HintSource = typeof HintSource.Type

export const ProviderProfile = Schema.Struct({
  name: Schema.NonEmptyString,
  /** Hosts (and, where one is needed, paths) that choose this profile; `*.example.com` takes any subdomain. */
  baseUrls: Schema.Array(Schema.String),
  /** Places of codes beside the global ones, in order of authority. */
  codeAt: Schema.Array(Pointer),
  rows: Schema.Array(CodeRow),
  /** Finish reasons beside OpenAI's. */
  finishReasons: Schema.Record(Schema.String, FinishReasonName),
  /** Hint sources after retry-after-ms and Retry-After. */
  hints: Schema.Array(HintSource),
  /** Default wire name of the output budget, and models (by prefix) that want the other one. */
  budgetParam: Schema.Literals(["max_tokens", "max_completion_tokens"]),
  completionTokenModels: Schema.Array(Schema.String),
  capabilities: Schema.Struct({
    /** A request may end with an assistant message. */
    prefill: Schema.Boolean,
    /** Thinking carries a signature and has to be sent back. */
    signedThinking: Schema.Boolean,
    /** Prompt cache breakpoints in the request. */
    cacheMarkers: Schema.Boolean
  })
})
export type ProviderProfile = typeof ProviderProfile.Type

/** A profile from the parts that differ from plain OpenAI compatibility. */
export const makeProfile = (
  parts: Pick<ProviderProfile, "name"> &
    Partial<Omit<ProviderProfile, "name" | "capabilities">> & {
      readonly capabilities?: Partial<ProviderProfile["capabilities"]>
    }
): ProviderProfile => ({
  baseUrls: [],
  codeAt: [],
  rows: [],
  finishReasons: {},
  hints: [],
  budgetParam: "max_tokens",
  completionTokenModels: [],
  ...parts,
  capabilities: { prefill: false, signedThinking: false, cacheMarkers: false, ...parts.capabilities }
})

/** Rows a user adds: this status with this code or type is of this kind. They win over the profile's own. */
export interface UserCode {
  readonly status: number
  readonly code: string
  readonly kind: FaultKind
}

/** A row whose status its kind does not allow is a configuration error that names the row. */
export const withCodes = (profile: ProviderProfile, codes: ReadonlyArray<UserCode>): ProviderProfile => {
  for (const [index, row] of codes.entries())
    if (!isLegal(row.kind, row.status))
      throw new ConfigurationError({
        field: `codes[${index}]`,
        reason: `says that HTTP ${row.status} means ${row.kind}, which that status never does`
      })
  return {
    ...profile,
    rows: [
      ...codes.map((row): CodeRow => ({ status: row.status, at: null, value: row.code, kind: row.kind })),
      ...profile.rows
    ]
  }
}
