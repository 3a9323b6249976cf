/** The last step of a request that has its reply: fragments joined, warnings added, a silently cut prompt told. */
import * as Effect from "effect/Effect"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type { Position, Run } from "./Run.ts"

/** Under this share of the estimate a reported prompt size means that a server cut the prompt silently. */
const shrunkShare = 0.6
/** Below this many tokens an estimate is too coarse for such a verdict. */
const comparableTokens = 100

const isShrunk = (reported: number | null, estimated: number): reported is number =>
  reported !== null && estimated >= comparableTokens && reported < estimated * shrunkShare

const shrunkText = (reported: number, estimated: number): string =>
  `The provider read only ${reported} of about ${estimated} prompt tokens: a server may have cut the prompt silently.`

const withWarnings = (reply: ModelReply, warnings: ReadonlyArray<string>): ModelReply =>
  warnings.length === 0 ? reply : { ...reply, warnings: [...reply.warnings, ...warnings] }

export const finish = (run: Run, { plan, met }: Position, reply: ModelReply): Effect.Effect<ModelReply> => {
  const { emit, requestId } = run.options
  const reported = reply.usage.promptTokens
  const estimated = plan?.promptTokens ?? 0
  const merged = run.driver.merge(reply)
  if (!isShrunk(reported, estimated)) return Effect.succeed(withWarnings(merged, met.warnings))
  const whole = withWarnings(merged, [...met.warnings, shrunkText(reported, estimated)])
  return emit === null
    ? Effect.succeed(whole)
    : Effect.as(emit({ _tag: "PromptShrunk", requestId, estimated, reported }), whole)
}
