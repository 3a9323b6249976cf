/** One HTTP request and what it came to: how it was sent, what it used, how it ended, and its bill. No effect in here. */
import * as Cause from "effect/Cause"
import * as Exit from "effect/Exit"
import type { Prices } from "../../domain/budget/Cost.ts"
import { costsNothing, spentUsd, type Bill } from "../../domain/budget/Spending.ts"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type { Role } from "../../domain/chat/ModelRequest.ts"
import * as Usage from "../../domain/chat/Usage.ts"
import type { ModelError } from "../../domain/failure/ModelError.ts"
import { TimeUp } from "./attemptWatch.ts"
import { known, replyAttributes, usageAttributes, type Attributes } from "./spans.ts"

/** One HTTP request as it is sent. */
export interface Sent {
  readonly role: Role
  /** Number of the main request, from 1; null for other roles. */
  readonly attempt: number | null
  readonly model: string
  /** Name of the route's client; null = the default one. */
  readonly client: string | null
  /** Name of the provider for whoever traces; null = unknown. */
  readonly provider: string | null
  readonly prices: Prices | null
  /** null = no budget is sent. */
  readonly maxOutputTokens: number | null
  /** What the reply may be long at most where no budget says it; for the session's budget. */
  readonly longestReply: number
  /** Estimated. */
  readonly promptTokens: number
}

/** What one HTTP request has used, filled in while it runs by whoever reads its answer. */
export interface Meter {
  usage: Usage.Usage
  /** A 200 began: tokens are being spent. */
  began: boolean
}

export const makeMeter = (): Meter => ({ usage: Usage.unknown, began: false })

/** How a request ended: with a reply, with an error, or with neither (interrupted). */
export interface Ending {
  readonly reply: ModelReply | null
  readonly error: ModelError | TimeUp | null
}

export const providersOf = (error: Ending["error"]): ModelError | null =>
  error === null || error instanceof TimeUp ? null : error

export const outcomeOf = ({ reply, error }: Ending): string =>
  reply !== null ? "ok" : error === null ? "interrupted" : error instanceof TimeUp ? error.what : error.kind

/** The last word on what was used: what the reply or the error tells is newer than what came on the way. */
export const usageOf = (meter: Meter, { reply, error }: Ending): Usage.Usage => {
  const told = reply === null ? (providersOf(error)?.usage ?? null) : reply.usage
  return told === null ? meter.usage : Usage.update(meter.usage, told)
}

export const billOf = (meter: Meter, usage: Usage.Usage, ending: Ending): Bill => {
  const error = providersOf(ending.error)
  if (ending.reply === null && !meter.began && error !== null && costsNothing(error)) return "nothing"
  // Counts that came on the way of a stream that broke off are a part of the bill, not the bill.
  const isTold = ending.reply !== null || (error !== null && error.usage !== null)
  return isTold && Usage.isKnown(usage) ? "final" : "unknown"
}

export const endingOf = (exit: Exit.Exit<ModelReply, ModelError | TimeUp>): Ending => {
  if (Exit.isSuccess(exit)) return { reply: exit.value, error: null }
  const found = Cause.findErrorOption(exit.cause)
  return { reply: null, error: found._tag === "Some" ? found.value : null }
}

/** What a span tells of its end. */
export const endAttributes = (sent: Sent, meter: Meter, ending: Ending, errorType: string | null): Attributes => {
  const usage = usageOf(meter, ending)
  const error = providersOf(ending.error)
  return {
    ...(ending.reply === null ? {} : replyAttributes(ending.reply)),
    ...usageAttributes(usage),
    ...known({
      "error.type": ending.error instanceof TimeUp ? ending.error.what : errorType,
      "http.response.status_code": error?.status ?? null,
      "holdfast.error.code": error?.code ?? null,
      "holdfast.cost_usd": spentUsd(billOf(meter, usage, ending), sent.prices, usage),
      ...(error === null ? {} : { "holdfast.provider_request_id": error.providerRequestId })
    })
  }
}
