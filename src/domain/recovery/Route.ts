/** Provider + key + model, and what is known of the model. What is unknown (null) never clamps. */
import * as Schema from "effect/Schema"
import { Prices } from "../budget/Cost.ts"
import { defaulted } from "./defaulted.ts"

const Tokens = Schema.NullOr(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)))

const Codec = Schema.Struct({
  model: Schema.NonEmptyString,
  /** Name of a registered client; null = the default one. */
  client: defaulted(Schema.NullOr(Schema.NonEmptyString), null),
  /** The model's own maximum of output tokens. */
  outputLimit: defaulted(Tokens, null),
  /** Tokens of prompt and output together. */
  contextWindow: defaulted(Tokens, null),
  /** USD per million tokens; null = unknown, then every cost is unknown. */
  prices: defaulted(Schema.NullOr(Prices), null),
  /** Whether the model can call tools. A fallback without them is skipped by requests that have some. */
  tools: defaulted(Schema.Boolean, true),
  /** Whether the model takes its own thinking back; false = it is left out of what is sent. */
  thinking: defaulted(Schema.Boolean, true)
}).annotate({ message: "must be an object with a model" })

export const Route = Object.assign(Schema.toType(Codec), {
  /** From what may be written: everything but the model may be left out. */
  codec: Codec
})
export type Route = typeof Codec.Type
/** What tells a route from the others of a policy. */
export type RouteName = Pick<Route, "model" | "client">
export type RouteInput = Pick<Route, "model"> & Partial<Omit<Route, "model">>

export const isSameRoute = (left: RouteName, right: RouteName): boolean =>
  left.model === right.model && left.client === right.client
