/** The span of one logical request. */
import type * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import { attemptsIn, costOfTrail } from "../../domain/failure/Trail.ts"
import { routeAt } from "../../domain/recovery/RecoveryPolicy.ts"
import type { Run } from "./Run.ts"
import { errorTypeOf, inSpan, known, providerName, replyAttributes, usageAttributes } from "./spans.ts"

/** The logical request inside a span of its own: its HTTP requests, waits and compactions stand in it. */
export const requestSpan = <E extends { readonly _tag: string }>(
  run: Run,
  request: Effect.Effect<ModelReply, E>
): Effect.Effect<ModelReply, E> => {
  const { policy, requestId, role, providerOf } = run.options
  return inSpan(request, () => {
    const route = routeAt(policy, run.here.at.state.route)
    return {
      name: run.driver.streaming ? "holdfast.stream" : "holdfast.complete",
      begin: () =>
        known({
          "gen_ai.operation.name": "chat",
          "gen_ai.provider.name": providerName(providerOf(route)),
          "gen_ai.request.model": route.model,
          "holdfast.request_id": requestId,
          "holdfast.role": role
        }),
      end: (exit) => ({
        ...(Exit.isSuccess(exit) ? { ...replyAttributes(exit.value), ...usageAttributes(exit.value.usage) } : {}),
        ...known({
          "error.type": errorTypeOf(exit),
          "holdfast.attempts": attemptsIn(run.trail),
          "holdfast.cost_usd": costOfTrail(run.trail)
        })
      })
    }
  })
}
