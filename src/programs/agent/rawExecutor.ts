/**
 * The raw client as an executor: one request, no recovery. For titles, memories and one-shot sub-agents, and for programs
 * that want every failure as it is. Requests are still admitted by the session's budget and settled after.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { unpriced } from "../../domain/budget/Budget.ts"
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"
import type { Prices } from "../../domain/budget/Cost.ts"
import { isModelError } from "../../domain/failure/ModelError.ts"
import type { ModelPart, ModelReply } from "../../domain/chat/ModelReply.ts"
import type { ModelRequest, WireRequest } from "../../domain/chat/ModelRequest.ts"
import { requestFault } from "../../domain/failure/requestFault.ts"
import type { ReplyPart } from "../../domain/chat/ReplyPart.ts"
import * as Usage from "../../domain/chat/Usage.ts"
import { BudgetLedger } from "../../services/BudgetLedger.ts"
import type { ModelClient } from "../../services/ModelClient.ts"
import type { ModelRequestExecutor, RequestFailure } from "../../services/Recovery.ts"
import { makeMeter, type Ending } from "../request/httpRequest.ts"
import { scopedReceipt } from "../request/receipt.ts"
import { sentAs, sideBooks, sideRequest } from "./sideRequest.ts"
import { refuseUnknown } from "../../domain/failure/unknownOptions.ts"

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
    case "Stored":
    case "Whole":
      return []
  }
}

/** A stream that has not brought its reply; an error of the provider is all it can tell. */
const brokenOff = (exit: Exit.Exit<unknown, unknown>): Ending => {
  const failure = Exit.isFailure(exit) ? Option.getOrNull(Cause.findErrorOption(exit.cause)) : null
  return { reply: null, error: isModelError(failure) ? failure : null }
}

export const rawExecutor = (client: (typeof ModelClient)["Service"], options: RawOptions): ModelRequestExecutor => {
  refuseUnknown(options, ["model", "maxOutputTokens", "prices"] satisfies ReadonlyArray<keyof RawOptions>)
  const wireOf = (request: ModelRequest) =>
    ({
      ...request,
      model: options.model,
      maxOutputTokens: Math.min(options.maxOutputTokens, request.maxOutputTokens ?? options.maxOutputTokens),
      role: request.priority === "background" ? "background" : "main"
    }) satisfies WireRequest
  const prices = options.prices ?? null

  const provider = client.provider ?? null

  /** A limit in USD needs the price: without it nothing is sent. */
  const priced = Effect.flatMap(BudgetLedger, (ledger) => {
    const fault =
      ledger === null || ledger.limits.maxCostUsd === null ? null : unpriced([{ model: options.model, prices }])
    return fault === null
      ? Effect.void
      : Effect.die(new ConfigurationError({ field: "prices", reason: fault.error.reason }))
  })

  /** The request as the session's budget can pay for it. */
  const affordable = Effect.fnUntraced(function* (request: ModelRequest) {
    yield* priced
    const wire = wireOf(request)
    const sent = yield* sentAs(wire, prices, provider)
    const ledger = yield* BudgetLedger
    const payable = ledger === null ? null : yield* ledger.room({ prices, promptTokens: sent.promptTokens })
    const maxOutputTokens = Math.min(wire.maxOutputTokens, payable ?? Infinity)
    return { wire: { ...wire, maxOutputTokens }, sent: { ...sent, maxOutputTokens } }
  })

  return {
    complete: (request): Effect.Effect<ModelReply, RequestFailure> => {
      const fault = requestFault(request)
      if (fault !== null) return Effect.fail(fault)
      return Effect.flatMap(affordable(request), ({ wire }) =>
        sideRequest(prices, provider)(wire, client.generate(wire))
      )
    },
    stream: (request): Stream.Stream<ReplyPart, RequestFailure> => {
      const fault = requestFault(request)
      if (fault !== null) return Stream.fail(fault)
      return Stream.unwrap(
        Effect.gen(function* () {
          const { wire, sent } = yield* affordable(request)
          const books = yield* sideBooks
          const meter = makeMeter()
          let reply: ModelReply | null = null
          // A consumer that stops behind the end has the whole reply.
          const endingAt = (exit: Exit.Exit<unknown, unknown>): Ending =>
            reply === null ? brokenOff(exit) : { reply, error: null }
          const inside = yield* scopedReceipt(books, sent, meter, endingAt)
          return inside(client.stream(wire)).pipe(
            Stream.tap((part) =>
              Effect.sync(() => {
                meter.began = true
                if (part._tag === "Usage") meter.usage = Usage.update(meter.usage, part.usage)
                if (part._tag === "End") reply = part.reply
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
