/** A field of options that may be left out: what it is then stands beside its schema, as it would be written. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

export const defaulted = <S extends Schema.Constraint>(schema: S, value: S["Encoded"]): Schema.withDecodingDefault<S> =>
  Schema.withDecodingDefault<S>(Effect.succeed(value))(schema)
