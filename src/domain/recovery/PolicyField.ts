/** One field of a policy: what may be written and what is kept (a codec), and the value of every preset. */
import type * as Schema from "effect/Schema"

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

export interface PolicyField<S extends Schema.Codec<unknown, unknown>> {
  readonly codec: S
  readonly presets: PresetValues<S["Type"]>
}

export const field = <S extends Schema.Codec<unknown, unknown>>(
  codec: S,
  presets: PresetValues<S["Type"]>
): PolicyField<S> => ({ codec, presets })
