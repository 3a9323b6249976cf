/** One logical request without a stream: the driver that sets a partial reply aside and continues from it. */
import * as Effect from "effect/Effect"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type { ModelError } from "../../domain/failure/ModelError.ts"
import type { AttemptPlan } from "../../domain/recovery/AttemptPlan.ts"
import { nothingSeen } from "../../domain/recovery/Outcome.ts"
import type { ModelClient } from "../../services/ModelClient.ts"
import type { RequestFailure } from "../../services/Recovery.ts"
import { isObject } from "../../domain/chat/json.ts"
import { makeExchange, type ExchangeOptions, type WindowSnapshot } from "./exchange.ts"
import type { AttemptDriver } from "./AttemptDriver.ts"
import { recover } from "./recover.ts"
import type { RecoverOptions } from "./Run.ts"

export interface CompleteOptions extends ExchangeOptions {
  readonly loop: RecoverOptions
  /** The client of a route's name; null = the default one. */
  readonly clientOf: (name: string | null) => (typeof ModelClient)["Service"]
}

export const complete = (options: CompleteOptions): Effect.Effect<ModelReply, RequestFailure> => {
  const exchange = makeExchange(options)
  /** The last reply, until the machine has decided what becomes of it. */
  let last: ModelReply | null = null
  /** The partial a raise has set aside. */
  let aside: ModelReply | null = null
  const orNothingMore =
    (plan: AttemptPlan) =>
    (error: ModelError): Effect.Effect<ModelReply, ModelError> => {
      const reply = exchange.nothingMore(error, plan)
      return reply === null ? Effect.fail(error) : Effect.succeed(reply)
    }
  const driver: AttemptDriver = {
    streaming: false,
    promptTokens: exchange.promptTokens,
    fault: exchange.fault,
    attempt: (plan) => {
      last = null
      const generated = options.clientOf(plan.route.client).generate(exchange.wire(plan))
      return generated.pipe(
        Effect.catch(orNothingMore(plan)),
        Effect.map((reply) => {
          last = reply
          return reply
        })
      )
    },
    classify: (result, plan, durationMillis) => exchange.classify(result, plan, durationMillis, nothingSeen),
    prepare: (action) =>
      Effect.sync(() => {
        switch (action._tag) {
          case "Escalate":
            aside = last
            return true
          case "Continue":
            // After a refused raise the fragment is the one that was set aside.
            exchange.keep((last ?? aside)?.text ?? "")
            aside = null
            return false
          default:
            return false
        }
      }),
    compact: exchange.compact,
    merge: exchange.merge,
    partial: () => exchange.partial((last ?? aside)?.text ?? null),
    handing: {
      shown: () => "",
      snapshot: () => ({ window: exchange.snapshot(), aside }),
      restore: (snapshot) => {
        if (!isObject(snapshot) || !("aside" in snapshot)) return false
        exchange.restore(snapshot["window"] as WindowSnapshot)
        aside = snapshot["aside"] as ModelReply | null
        return true
      }
    }
  }
  return recover(options.loop, driver)
}
