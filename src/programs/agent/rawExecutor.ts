/**
 * The raw client as an executor: one request, no recovery. For titles, memories and one-shot sub-agents, and for programs
 * that want every failure as it is. Requests are still admitted by the session's budget and settled after.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import { unpriced } from "../../domain/Budget.ts"
import { ConfigurationError } from "../../domain/ConfigurationError.ts"
import { costOf, type Prices } from "../../domain/Cost.ts"
import type { ModelError } from "../../domain/ModelError.ts"
import type { ModelPart, ModelReply } from "../../domain/ModelReply.ts"
import type { ModelRequest, WireRequest } from "../../domain/ModelRequest.ts"
import type { ReplyPart } from "../../domain/ReplyPart.ts"
import * as Usage from "../../domain/Usage.ts"
import { BudgetLedger, type Worst } from "../../services/BudgetLedger.ts"
import type { ModelClient } from "../../services/ModelClient.ts"
import { TokenEstimate } from "../../services/Overrides.ts"
import type { ModelRequestExecutor, RequestFailure } from "../../services/Recovery.ts"

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
  const priceOf = (usage: Usage.Usage): number | null =>
    options.prices === undefined || options.prices === null ? null : costOf(options.prices, usage)

  /** Reserves the worst case; what is settled is told by the reply, or the worst when it told nothing. */
  const reserve = Effect.fnUntraced(function* (wire: WireRequest) {
    const ledger = yield* BudgetLedger
    const estimate = yield* TokenEstimate
    if (ledger === null) return () => Effect.void
    const fault = unpriced(ledger.limits, { model: options.model, prices: options.prices ?? null })
    if (fault !== null) return yield* Effect.die(new ConfigurationError({ field: "prices", reason: fault }))
    const promptTokens = Math.max(0, Math.ceil(estimate(wire.messages, wire.tools ?? [])))
    const worst: Worst = {
      tokens: promptTokens + wire.maxOutputTokens,
      costUsd: priceOf({ ...Usage.unknown, promptTokens, completionTokens: wire.maxOutputTokens })
    }
    const reservation = yield* ledger.admit(worst)
    return (usage: Usage.Usage | null): Effect.Effect<void> =>
      ledger.settle(
        reservation,
        usage === null || !Usage.isKnown(usage)
          ? worst
          : { tokens: (usage.promptTokens ?? 0) + (usage.completionTokens ?? 0), costUsd: priceOf(usage) }
      )
  })

  /** What a failed request cost: nothing when it never began. */
  const spentBy = <A>(exit: Exit.Exit<A, ModelError>, usage: (value: A) => Usage.Usage | null): Usage.Usage | null => {
    if (Exit.isSuccess(exit)) return usage(exit.value)
    const found = Cause.findErrorOption(exit.cause)
    const error = found._tag === "Some" ? found.value : null
    const nothing: Usage.Usage = { ...Usage.unknown, promptTokens: 0, completionTokens: 0 }
    return error === null || error.status === 200 ? (error?.usage ?? null) : nothing
  }

  return {
    complete: (request): Effect.Effect<ModelReply, RequestFailure> => {
      const wire = wireOf(request)
      return Effect.acquireUseRelease(
        reserve(wire),
        () => client.generate(wire),
        (settle, exit) => settle(spentBy(exit, (reply) => reply.usage))
      )
    },
    stream: (request): Stream.Stream<ReplyPart, RequestFailure> => {
      const wire = wireOf(request)
      return Stream.unwrap(
        Effect.gen(function* () {
          let usage: Usage.Usage | null = null
          yield* Effect.acquireRelease(reserve(wire), (settle, exit) => settle(Exit.isSuccess(exit) ? usage : null))
          return client.stream(wire).pipe(
            Stream.tap((part) =>
              Effect.sync(() => {
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
