/** The text of the reply so far, in a failure that keeps it. It stays out of logs and JSON. */
import type * as Cause from "effect/Cause"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"

const partialField = { partialText: Schema.optionalKey(Schema.Redacted(Schema.String)) }

export interface Telling {
  /** The text, without what comes behind it; null when there is none. */
  readonly partial: string | null
}

type PartialClass<Self, Tag extends string, Fields extends Schema.Struct.Fields> = Schema.Class<
  Self,
  Schema.TaggedStruct<Tag, Fields & typeof partialField>,
  Cause.YieldableError & Telling
>

/** The base of such a failure: its fields, and `partial`. */
export const failureWithPartial =
  <Self>() =>
  <const Tag extends string, const Fields extends Schema.Struct.Fields>(
    tag: Tag,
    fields: Fields
  ): PartialClass<Self, Tag, Fields> => {
    const all: Schema.Struct.Fields & typeof partialField = { ...fields, ...partialField }
    // @effect-diagnostics-next-line classSelfMismatch:off
    class Failed extends Schema.TaggedError<Telling>()(tag, all) {
      get partial(): string | null {
        return this.partialText === undefined ? null : Redacted.value(this.partialText)
      }
    }
    // A class schema takes its instances from the class that extends it: Self is that class.
    return Failed as unknown as PartialClass<Self, Tag, Fields>
  }

/** Its field that holds the text; nothing when there is none. */
export const partialOf = (text: string | null): { readonly partialText?: Redacted.Redacted<string> } =>
  text === null || text === "" ? {} : { partialText: Redacted.make(text) }
