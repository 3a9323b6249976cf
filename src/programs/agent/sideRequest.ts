/** An HTTP request outside recovery (a raw call, a summary before a step): it gets its receipt like any other. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Prices } from "../../domain/budget/Cost.ts"
import type { WireRequest } from "../../domain/chat/ModelRequest.ts"
import { guarded } from "../../domain/chat/TokenEstimate.ts"
import { BudgetLedger } from "../../services/BudgetLedger.ts"
import { TokenEstimate } from "../../services/Overrides.ts"
import { RequestWatch } from "../../services/RequestWatch.ts"
import type { Book } from "../../services/Summarizer.ts"
import { makeMeter, type Sent } from "../request/httpRequest.ts"
import { underReceipt, type Books } from "../request/receipt.ts"

/** The books of one such request: the session's budget, and whoever collects the trail. It tells no events. */
export const sideBooks: Effect.Effect<Books> = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const ledger = yield* BudgetLedger
  const watcher = yield* RequestWatch
  const now = (): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6
  const startedAt = now()
  return {
    ledger,
    emit: null,
    requestId: "side",
    startedAt,
    now,
    enter: (entry) => watcher?.ended?.([entry], startedAt)
  }
})

/** `provider`: for whoever traces; null = unknown. */
export const sentAs = (wire: WireRequest, prices: Prices | null, provider: string | null): Effect.Effect<Sent> =>
  Effect.map(TokenEstimate, (estimate) => ({
    role: wire.role,
    attempt: wire.role === "main" ? 1 : null,
    model: wire.model,
    client: null,
    provider,
    prices,
    maxOutputTokens: wire.maxOutputTokens,
    longestReply: wire.maxOutputTokens ?? 0,
    promptTokens: guarded(estimate)(wire.messages, wire.tools ?? [])
  }))

/** Sends one request at these prices (null = unknown) under its receipt. */
export const sideRequest =
  (prices: Prices | null, provider: string | null = null): Book =>
  (wire, call) =>
    Effect.flatMap(sideBooks, (books) =>
      Effect.flatMap(sentAs(wire, prices, provider), (sent) => underReceipt(books, sent, makeMeter(), call))
    )
