/**
 * The raw client as an executor: one request, no recovery. For titles, memories and one-shot sub-agents, and for programs
 * that want every failure as it is. Requests are still admitted by the session's budget and settled after.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { unpriced } from "../../domain/Budget.ts"
import { ConfigurationError } from "../../domain/ConfigurationError.ts"
import type { Prices } from "../../domain/Cost.ts"
import type { ModelPart, ModelReply } from "../../domain/ModelReply.ts"
import type { ModelRequest, WireRequest } from "../../domain/ModelRequest.ts"
import type { ReplyPart } from "../../domain/ReplyPart.ts"
import type { Usage } from "../../domain/Usage.ts"
import { BudgetLedger } from "../../services/BudgetLedger.ts"
import type { ModelClient } from "../../services/ModelClient.ts"
import type { ModelRequestExecutor, RequestFailure } from "../../services/Recovery.ts"
import { booked, reserve, spentByFailure } from "./reserve.ts"

export interface RawOptions {
  readonly model: string
  /** Output budget of every request; a caller's smaller cap wins. */
  readonly maxOutputTokens: number
  /** null = unknown. */
  readonly prices?: Prices | null
}

const partOf = (part: ModelPart): ReadonlyArray<ReplyPart> => {
  switch (part._tag) {
    case "Text":
      return [{ _tag: "TextDelta", text: part.text }]
    case "Reasoning":
      return [{ _tag: "ReasoningDelta", text: part.text }]
    case "ToolCall": {
      const { id, name, arguments: args } = part.call
      return [{ _tag: "ToolCallReady", id, name, arguments: args }]
    }
    case "Usage":
      return [{ _tag: "UsageSeen", usage: part.usage }]
    case "End":
      return [{ _tag: "Finish", reply: part.reply }]
    case "ToolCallDelta":
    case "Life":
      return []
  }
}

export const rawExecutor = (client: (typeof ModelClient)["Service"], options: RawOptions): ModelRequestExecutor => {
  const wireOf = (request: ModelRequest): WireRequest => ({
    ...request,
    model: options.model,
    maxOutputTokens: Math.min(options.maxOutputTokens, request.maxOutputTokens ?? options.maxOutputTokens),
    role: request.priority === "background" ? "background" : "main"
  })
  const prices = options.prices ?? null

  /** A limit in USD needs the price: without it nothing is sent. */
  const priced = Effect.flatMap(BudgetLedger, (ledger) => {
    const fault =
      ledger === null || ledger.limits.maxCostUsd === null ? null : unpriced([{ model: options.model, prices }])
    return fault === null
      ? Effect.void
      : Effect.die(new ConfigurationError({ field: "prices", reason: fault.error.reason }))
  })

  return {
    complete: (request): Effect.Effect<ModelReply, RequestFailure> => {
      const wire = wireOf(request)
      return Effect.andThen(priced, booked(wire, prices, client.generate(wire)))
    },
    stream: (request): Stream.Stream<ReplyPart, RequestFailure> => {
      const wire = wireOf(request)
      return Stream.unwrap(
        Effect.gen(function* () {
          yield* priced
          let usage: Usage | null = null
          let began = false
          yield* Effect.acquireRelease(reserve(wire, prices), (settle, exit) =>
            settle(began ? usage : spentByFailure(exit))
          )
          return client.stream(wire).pipe(
            Stream.tap((part) =>
              Effect.sync(() => {
                began = true
                if (part._tag === "End") usage = part.reply.usage
              })
            ),
            Stream.flatMap((part) => Stream.fromIterable(partOf(part)))
          )
        })
      )
    },
    turn: (body) => body
  }
}
