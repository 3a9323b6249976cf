/**
 * The receipt of one HTTP request: admitted by the session's budget before it is sent, settled after, entered in the
 * trail and told as an event. Every request of every role gets its receipt here and nowhere else.
 */
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import { worstOf } from "../../domain/budget/Budget.ts"
import { spentOf, spentUsd, type Bill } from "../../domain/budget/Spending.ts"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type * as Usage from "../../domain/chat/Usage.ts"
import type { BudgetExceeded } from "../../domain/failure/AgentError.ts"
import type { ModelError } from "../../domain/failure/ModelError.ts"
import type { TrailEntry } from "../../domain/failure/Trail.ts"
import type { Happening } from "../../domain/recovery/RecoveryEvent.ts"
import type { LedgerShape, Reservation, Worst } from "../../services/BudgetLedger.ts"
import type { TimeUp } from "./attemptWatch.ts"
import {
  billOf,
  endAttributes,
  endingOf,
  outcomeOf,
  providersOf,
  usageOf,
  type Ending,
  type Meter,
  type Sent
} from "./httpRequest.ts"
import { errorTypeOf, inSpan, known, providerName, scopedSpan, type SpanOptions } from "./spans.ts"

/** The session's budget as a request needs it. */
export interface Ledger {
  readonly room: LedgerShape["room"]
  readonly admit: (worst: Worst) => Effect.Effect<Reservation, BudgetExceeded>
  readonly settle: (reservation: Reservation, spent: Worst) => Effect.Effect<void>
}

/** Where receipts go. */
export interface Books {
  /** null = there is no budget. */
  readonly ledger: Ledger | null
  /** Never fails; null = nobody listens and no event is built. */
  readonly emit: ((event: Happening) => Effect.Effect<void>) | null
  readonly requestId: string
  /** Monotonic instant the entries of the trail count from. */
  readonly startedAt: number
  /** Monotonic milliseconds. */
  readonly now: () => number
  readonly enter: (entry: TrailEntry) => void
}

/** An admitted request that is under way. */
export interface Receipt {
  readonly sent: Sent
  readonly meter: Meter
  readonly sentAt: number
  /** null = there is no budget. */
  readonly reservation: Reservation | null
}

const entryOf = (books: Books, receipt: Receipt, ending: Ending, usage: Usage.Usage, bill: Bill): TrailEntry => {
  const { sent, sentAt, meter } = receipt
  const error = providersOf(ending.error)
  const hasBegun = ending.reply !== null || meter.began || error?.kind === "interrupted"
  return {
    role: sent.role,
    attempt: sent.attempt,
    model: sent.model,
    ...(sent.client === null ? {} : { client: sent.client }),
    maxOutputTokens: sent.maxOutputTokens,
    startedMs: sentAt - books.startedAt,
    durationMs: books.now() - sentAt,
    status: hasBegun ? 200 : (error?.status ?? null),
    outcome: outcomeOf(ending),
    code: error?.code ?? null,
    requestId: books.requestId,
    providerRequestId: ending.reply === null ? (error?.providerRequestId ?? null) : ending.reply.providerRequestId,
    waitMs: null,
    waitOrigin: null,
    usage,
    usageFinal: bill !== "unknown",
    costUsd: spentUsd(bill, sent.prices, usage)
  }
}

export const worstFor = (sent: Sent): Worst =>
  worstOf(sent.prices, sent.promptTokens, sent.maxOutputTokens ?? sent.longestReply)

/** Admits a request; it must be closed, however it ends. */
const openReceipt = (books: Books, sent: Sent, meter: Meter): Effect.Effect<Receipt, BudgetExceeded> =>
  Effect.suspend((): Effect.Effect<Receipt, BudgetExceeded> => {
    const receipt: Receipt = { sent, meter, sentAt: books.now(), reservation: null }
    return books.ledger === null
      ? Effect.succeed(receipt)
      : Effect.map(books.ledger.admit(worstFor(sent)), (reservation): Receipt => ({ ...receipt, reservation }))
  })

/** Settles, enters the request in the trail and tells what it used. */
const closeReceipt = (books: Books, receipt: Receipt, ending: Ending): Effect.Effect<void> => {
  const { sent, meter, reservation } = receipt
  const usage = usageOf(meter, ending)
  const bill = billOf(meter, usage, ending)
  const entry = entryOf(books, receipt, ending, usage, bill)
  books.enter(entry)
  const told =
    books.emit === null || bill === "nothing"
      ? Effect.void
      : books.emit({
          _tag: "UsageSeen",
          requestId: books.requestId,
          role: sent.role,
          attempt: sent.attempt,
          usage,
          final: bill === "final",
          costUsd: entry.costUsd,
          providerRequestId: entry.providerRequestId
        })
  return reservation === null || books.ledger === null
    ? told
    : Effect.andThen(books.ledger.settle(reservation, spentOf(bill, sent.prices, usage, reservation.worst)), told)
}

/** The span of a request, by the conventions' name for it. */
const spanOf = <A, E extends { readonly _tag: string }>(
  books: Books,
  sent: Sent,
  meter: Meter,
  ending: (exit: Exit.Exit<A, E>) => Ending
): SpanOptions<A, E> => ({
  name: `chat ${sent.model}`,
  kind: "client",
  begin: () =>
    known({
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": providerName(sent.provider),
      "gen_ai.request.model": sent.model,
      "gen_ai.request.max_tokens": sent.maxOutputTokens,
      "holdfast.request_id": books.requestId,
      "holdfast.role": sent.role,
      "holdfast.attempt": sent.attempt
    }),
  end: (exit) => {
    const ended = ending(exit)
    return endAttributes(sent, meter, ended, ended.reply === null ? errorTypeOf(exit) : null)
  }
})

/**
 * The receipt of a stream that whoever reads it drives: it is closed with the scope, by how `endingAt` says it ended. What
 * comes back puts the stream inside the request's span.
 */
export const scopedReceipt = Effect.fnUntraced(function* (
  books: Books,
  sent: Sent,
  meter: Meter,
  endingAt: (exit: Exit.Exit<unknown, unknown>) => Ending
) {
  yield* Effect.acquireRelease(openReceipt(books, sent, meter), (receipt, exit) =>
    closeReceipt(books, receipt, endingAt(exit))
  )
  return yield* scopedSpan(() => spanOf<unknown, { readonly _tag: string }>(books, sent, meter, endingAt))
})

/** Admits, runs and settles one HTTP request. */
export const underReceipt = <E extends ModelError | TimeUp>(
  books: Books,
  sent: Sent,
  meter: Meter,
  request: Effect.Effect<ModelReply, E>
): Effect.Effect<ModelReply, E | BudgetExceeded> => {
  const call = inSpan(request, () => spanOf(books, sent, meter, endingOf))
  if (books.ledger !== null)
    return Effect.acquireUseRelease(
      openReceipt(books, sent, meter),
      () => call,
      (receipt, exit) => closeReceipt(books, receipt, endingOf(exit))
    )
  // The healthy way: nothing to admit, nothing to give back.
  const receipt: Receipt = { sent, meter, sentAt: books.now(), reservation: null }
  return Effect.onExit(call, (exit) => closeReceipt(books, receipt, endingOf(exit)))
}
