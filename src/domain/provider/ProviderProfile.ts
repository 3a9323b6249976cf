/**
 * How one provider reports failures, finish reasons and wait hints: data, chosen by the caller or by base URL, never
 * guessed from an answer. A profile adds to the global rules of `classify`; it never replaces the order
 * in-band error, profile, global table, status class.
 */
import * as Schema from "effect/Schema"
import { ConfigurationError } from "../failure/ConfigurationError.ts"
import { FaultKind, isLegal } from "../failure/FaultKind.ts"
import { HintFormat } from "./RetryAfter.ts"

/** Wire name of the output budget. */
export const BudgetParam = Schema.Literals(["max_tokens", "max_completion_tokens"])
export type BudgetParam = typeof BudgetParam.Type

/**
 * A place in an answer: `/error/code`; `/0/error` is inside an array, `*` is any element of one; `header:x-name` is a
 * header, read up to its first colon.
 */
export const Pointer = Schema.String
export type Pointer = typeof Pointer.Type

/** This value at this place (default: any of the profile's code places) means this kind. */
export const CodeRow = Schema.Struct({
  /** null = with any status the kind allows. */
  status: Schema.NullOr(Schema.Int),
  /** null = at any of the code places. */
  at: Schema.NullOr(Pointer),
  value: Schema.Union([Schema.String, Schema.Finite, Schema.Boolean]),
  /** Default `exact`. `prefix` and `part` match identifiers that carry a variable part; `present`: anything is there. */
  match: Schema.optionalKey(Schema.Literals(["exact", "prefix", "part", "present"])),
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

/** What an id or a name may look like: `word` is letters, digits, `_` and `-`. Others are mapped on the wire. */
export const Spelling = Schema.Struct({
  alphabet: Schema.Literals(["word", "alphanumeric"]),
  minLength: Schema.Int,
  maxLength: Schema.Int
})
export type Spelling = typeof Spelling.Type

/** Where a wait hint stands, beside retry-after-ms and Retry-After. */
export const HintSource = Schema.Struct({
  header: Schema.NullOr(Schema.String),
  pointer: Schema.NullOr(Pointer),
  /** Name in the trail; default: the header, or `body` and the pointer. */
  label: Schema.optionalKey(Schema.String),
  format: HintFormat,
  /** Header of the same window that must be 0 for the reset to count. */
  exhausted: Schema.NullOr(Schema.String),
  /** Error code or type that names this window as the one that is used up, in place of `exhausted`. */
  window: Schema.optionalKey(Schema.String)
})
export type HintSource = typeof HintSource.Type

export const ProviderProfile = Schema.Struct({
  name: Schema.NonEmptyString,
  /** Hosts (and, where one is needed, paths) that choose this profile; `*.example.com` takes any subdomain. */
  baseUrls: Schema.Array(Schema.String),
  /** Places of codes beside the global ones, in order of authority. */
  codeAt: Schema.Array(Pointer),
  rows: Schema.Array(CodeRow),
  /** Kinds of statuses that mean something of their own here, by status; codes win. */
  statuses: Schema.Record(Schema.String, FaultKind),
  /** Places inside a 200 where anything but `unless` is an error of its own. */
  inBandAt: Schema.Array(Schema.Struct({ at: Pointer, unless: Schema.NullOr(Schema.Finite) })),
  /** Two counts of an error body; the first above the second is an overflow, whatever the code. */
  overflowEvidence: Schema.NullOr(Schema.Struct({ prompt: Pointer, window: Pointer })),
  /** Finish reasons beside OpenAI's. */
  finishReasons: Schema.Record(Schema.String, FinishReasonName),
  /** Finish reasons that report a failure of the provider. */
  finishFaults: Schema.Record(Schema.String, FaultKind),
  /** Hint sources after retry-after-ms and Retry-After. */
  hints: Schema.Array(HintSource),
  /** Default wire name of the output budget, and models (by prefix) that want the other one. */
  budgetParam: BudgetParam,
  completionTokenModels: Schema.Array(Schema.String),
  /** Answers are read to the letter of the API: what deviates is malformed. Otherwise small deviations are read and told. */
  exact: Schema.Boolean,
  /**
   * Fields of an assistant message that go back to the model they came from. `thoughts`: reasoning as text, beside tool
   * calls only; `message`: with every message; `call`: with a tool call. What is not named here never travels.
   */
  returns: Schema.Struct({
    thoughts: Schema.Array(Schema.String),
    message: Schema.Array(Schema.String),
    call: Schema.Array(Schema.String)
  }),
  /**
   * What stands in for a field that a provider demands, beside calls of another model (after a fallback in the middle of a
   * tool loop). `thoughts`: this field, as a text; `call`: these fields, on the first call of a message of which none has
   * its own, for models whose name holds one of these words.
   */
  standIns: Schema.optionalKey(
    Schema.Struct({
      thoughts: Schema.optionalKey(Schema.String),
      call: Schema.optionalKey(
        Schema.Struct({ models: Schema.Array(Schema.String), fields: Schema.Record(Schema.String, Schema.Unknown) })
      )
    })
  ),
  /** Ids of tool calls; null = any text. */
  callIds: Schema.NullOr(Spelling),
  /** Names of tools; null = whatever is offered, and words for what a model invented. */
  toolNames: Schema.NullOr(Spelling),
  capabilities: Schema.Struct({
    /** Prompt cache breakpoints in the request. */
    cacheMarkers: Schema.Boolean
  })
})
export type ProviderProfile = typeof ProviderProfile.Type

/** The parts of a profile that differ from plain OpenAI compatibility. */
export type ProfileParts = Pick<ProviderProfile, "name"> &
  Partial<Omit<ProviderProfile, "name" | "capabilities" | "returns">> & {
    readonly returns?: Partial<ProviderProfile["returns"]>
    readonly capabilities?: Partial<ProviderProfile["capabilities"]>
  }

/** A profile of ours, not checked: a test does that once for all. Callers' own go through `ownProfile.ts`. */
export const makeProfile = (parts: ProfileParts): ProviderProfile => ({
  baseUrls: [],
  codeAt: [],
  rows: [],
  statuses: {},
  inBandAt: [],
  overflowEvidence: null,
  finishReasons: {},
  finishFaults: {},
  hints: [],
  budgetParam: "max_tokens",
  completionTokenModels: [],
  exact: false,
  callIds: null,
  toolNames: null,
  ...parts,
  returns: { thoughts: [], message: [], call: ["extra_content"], ...parts.returns },
  capabilities: { cacheMarkers: false, ...parts.capabilities }
})

/** Ids and names as OpenAI and most others take them. */
export const wordIds: Spelling = { alphabet: "word", minLength: 1, maxLength: 64 }

/** Rows of one kind: these codes, with this status (default: any the kind allows). */
export const rowsOf = (
  kind: FaultKind,
  values: ReadonlyArray<string | number>,
  options: { readonly status?: number; readonly at?: Pointer; readonly match?: CodeRow["match"] } = {}
): ReadonlyArray<CodeRow> =>
  values.map((value) => ({
    status: options.status ?? null,
    at: options.at ?? null,
    value,
    ...(options.match === undefined ? {} : { match: options.match }),
    kind
  }))

/** A reset header and the header that says whether its window is used up. */
export const resetHeader = (
  header: string,
  format: HintFormat,
  exhausted: string | null = null,
  window?: string
): HintSource => ({ header, pointer: null, format, exhausted, ...(window === undefined ? {} : { window }) })

/** Rows a user adds: this status with this code or type is of this kind. They win over the profile's own. */
const UserCode = Schema.Struct({ status: Schema.Int, code: Schema.String, kind: FaultKind })
export type UserCode = typeof UserCode.Type

const isUserCode = Schema.is(UserCode)

/** A row whose status its kind does not allow is a configuration error that names the row. */
export const withCodes = (profile: ProviderProfile, codes: ReadonlyArray<UserCode>): ProviderProfile => {
  for (const [index, row] of codes.entries()) {
    const field = `codes[${index}]`
    if (!isUserCode(row))
      throw new ConfigurationError({ field, reason: "must have a status (a number), a code (a text) and a known kind" })
    if (!isLegal(row.kind, row.status))
      throw new ConfigurationError({
        field,
        reason: `says that HTTP ${row.status} means ${row.kind}, which that status never does`
      })
  }
  return {
    ...profile,
    rows: [
      ...codes.map((row): CodeRow => ({ status: row.status, at: null, value: row.code, kind: row.kind })),
      ...profile.rows
    ]
  }
}
