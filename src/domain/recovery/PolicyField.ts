/**
 * One field of a policy, said once: what may be written and what is kept (a codec), the value of every preset, what it
 * is for, how a value reads, and the variable of the commands that sets it.
 */
import * as Schema from "effect/Schema"
import { spanText } from "../failure/wording.ts"
import { SpanOrNone } from "./Span.ts"

export const presetNames = ["strict", "broad", "unattended", "background"] as const
export type PresetName = (typeof presetNames)[number]

/** Values by preset: broad is strict unless it says otherwise, unattended and background are broad unless they do. */
export type PresetValues<T> = { readonly strict: T } & { readonly [Name in Exclude<PresetName, "strict">]?: T }

export const presetValue = <T>(values: PresetValues<T>, name: PresetName): T => {
  const broad = "broad" in values ? (values.broad as T) : values.strict
  if (name === "strict") return values.strict
  if (name === "broad") return broad
  return name in values ? (values[name] as T) : broad
}

/** What is the same for every kind of field. */
interface About<T> {
  /** What the field is for, in one line for the documents. */
  readonly about: string
  readonly presets: PresetValues<T>
  readonly words: (value: T) => string
}

/** `kind` says how a text is read into the field: a variable, a fault script. */
export interface PolicyField<S extends Schema.Codec<unknown, unknown>> extends About<S["Type"]> {
  readonly kind: "span" | "count" | "other"
  readonly codec: S
  /** null = no variable sets it. */
  readonly variable: string | null
}

/** Any field that is neither a span nor a number a variable can set. */
export const field = <S extends Schema.Codec<unknown, unknown>>(
  codec: S,
  about: About<S["Type"]>
): PolicyField<S> & { readonly kind: "other" } => ({ kind: "other", codec, variable: null, ...about })

export type Span = PolicyField<typeof SpanOrNone> & { readonly kind: "span" }

export const spanWords = (millis: number | null): string => (millis === null ? "none" : spanText(millis))

export const span = (variable: string, about: Omit<About<number | null>, "words">): Span => ({
  kind: "span",
  codec: SpanOrNone,
  variable,
  words: spanWords,
  ...about
})

export const count = <S extends Schema.Codec<number | null, number | null>>(
  codec: S,
  variable: string,
  about: About<S["Type"]>
): PolicyField<S> & { readonly kind: "count" } => ({ kind: "count", codec, variable, ...about })
