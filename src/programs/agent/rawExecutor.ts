/**
 * The raw client as an executor: one request, no recovery. For titles, memories and one-shot sub-agents, and for programs
 * that want every failure as it is. Requests are still admitted by the session's budget and settled after.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import { unpriced } from "../../domain/budget/Budget.ts"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import { costOf, type Prices } from "../../domain/budget/Cost.ts"
import type { ModelError } from "../../domain/failure/ModelError.ts"
import type { ModelPart, ModelReply } from "../../domain/chat/ModelReply.ts"
import type { ModelRequest, WireRequest } from "../../domain/chat/ModelRequest.ts"
import { requestFault } from "../../domain/failure/requestFault.ts"
import type { ReplyPart } from "../../domain/chat/ReplyPart.ts"
import type { TrailEntry } from "../../domain/failure/Trail.ts"
import * as Usage from "../../domain/chat/Usage.ts"
import { BudgetLedger } from "../../services/BudgetLedger.ts"
import type { ModelClient } from "../../services/ModelClient.ts"
import type { ModelRequestExecutor, RequestFailure } from "../../services/Recovery.ts"
import { TurnTrail } from "../../services/TurnTrail.ts"
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

  const entryOf = (
    wire: WireRequest,
    durationMs: number,
    exit: Exit.Exit<unknown, ModelError>,
    reply: ModelReply | null
  ): TrailEntry => {
    const found = Exit.isFailure(exit) ? Cause.findErrorOption(exit.cause) : null
    const error = found !== null && found._tag === "Some" ? found.value : null
    const usage = reply?.usage ?? error?.usage ?? Usage.unknown
    const hasBegun = reply !== null || error?.status === 200
    const isFinal = Usage.isKnown(usage)
    return {
      role: wire.role,
      attempt: wire.role === "main" ? 1 : null,
      model: wire.model,
      maxOutputTokens: wire.maxOutputTokens,
      startedMs: 0,
      durationMs,
      status: hasBegun ? 200 : (error?.status ?? null),
      outcome: error !== null ? error.kind : reply === null ? "interrupted" : "ok",
      code: error?.code ?? null,
      requestId: reply?.requestId ?? error?.requestId ?? null,
      waitMs: null,
      waitOrigin: null,
      usage,
      usageFinal: !hasBegun || isFinal,
      costUsd: !hasBegun ? 0 : isFinal && prices !== null ? costOf(prices, usage) : null
    }
  }

  const nowMillis = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)

  /** A request begins; what is returned writes it into the trail of the turn, if one is collected. */
  const begin = Effect.fnUntraced(function* (wire: WireRequest) {
    const takeTrail = yield* TurnTrail
    const sentAt = yield* nowMillis
    return (exit: Exit.Exit<unknown, ModelError>, reply: ModelReply | null): Effect.Effect<void> =>
      takeTrail === null
        ? Effect.void
        : Effect.map(nowMillis, (endedAt) => takeTrail([entryOf(wire, endedAt - sentAt, exit, reply)], sentAt))
  })

  return {
    complete: (request): Effect.Effect<ModelReply, RequestFailure> => {
      const fault = requestFault(request)
      if (fault !== null) return Effect.fail(fault)
      const wire = wireOf(request)
      const call = Effect.flatMap(begin(wire), (end) =>
        Effect.onExit(client.generate(wire), (exit) => end(exit, Exit.isSuccess(exit) ? exit.value : null))
      )
      return Effect.andThen(priced, booked(wire, prices, call))
    },
    stream: (request): Stream.Stream<ReplyPart, RequestFailure> => {
      const fault = requestFault(request)
      if (fault !== null) return Stream.fail(fault)
      const wire = wireOf(request)
      return Stream.unwrap(
        Effect.gen(function* () {
          yield* priced
          let reply: ModelReply | null = null
          let began = false
          yield* Effect.acquireRelease(reserve(wire, prices), (settle, exit) =>
            settle(began ? (reply?.usage ?? null) : spentByFailure(exit))
          )
          const end = yield* begin(wire)
          return client.stream(wire).pipe(
            Stream.tap((part) =>
              Effect.sync(() => {
                began = true
                if (part._tag === "End") reply = part.reply
              })
            ),
            Stream.onExit((exit) => end(exit, reply)),
            Stream.flatMap((part) => Stream.fromIterable(partOf(part)))
          )
        })
      )
    },
    turn: (body) => body
  }
}
