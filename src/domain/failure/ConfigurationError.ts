/** A setting that cannot work, found before the first request. Names the field or variable, never the value of a secret. */
import * as Schema from "effect/Schema"
import { printAsText } from "./failureText.ts"

export class ConfigurationError extends Schema.TaggedError<ConfigurationError>()("ConfigurationError", {
  /** Field of a policy (`escalatedMaxTokens`), option or environment variable (`OPENAI_BASE_URL`). */
  field: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `${this.field} ${this.reason}`
  }
}

printAsText([ConfigurationError])
