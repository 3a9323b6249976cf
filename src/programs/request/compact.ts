/** The step that has the window shortened, inside the request's time. Its HTTP requests get receipts like any other. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import { local } from "../../domain/chat/TokenEstimate.ts"
import { BudgetExceeded } from "../../domain/failure/AgentError.ts"
import { makeModelError, type ModelError } from "../../domain/failure/ModelError.ts"
import { routeAt } from "../../domain/recovery/RecoveryPolicy.ts"
import { endOf } from "../../domain/recovery/RecoveryState.ts"
import type { Book } from "../../services/Summarizer.ts"
import { TimeUp } from "./attemptWatch.ts"
import type { Outcome } from "../../domain/recovery/Outcome.ts"
import { makeMeter } from "./httpRequest.ts"
import { underReceipt } from "./receipt.ts"
import { inSpan, type Attributes } from "./spans.ts"
import { isOver, seenOnly, timeIsUp, type Position, type Run, type Seen } from "./Run.ts"

/** Bounds work that is no attempt of the main conversation. */
const inTime = <A, E>(run: Run, position: Position, work: Effect.Effect<A, E>): Effect.Effect<A, E | TimeUp> => {
  const end = endOf(position.state)
  return end === null
    ? work
    : Effect.timeoutOrElse(work, {
        duration: Math.max(0, end - run.now()),
        orElse: () => Effect.fail(new TimeUp("deadline"))
      })
}

/** A request of the summary is given up like one of the main conversation. */
const inAttemptTime = <A>(
  millis: number | null,
  model: string,
  call: Effect.Effect<A, ModelError>
): Effect.Effect<A, ModelError> =>
  millis === null
    ? call
    : Effect.timeoutOrElse(call, {
        duration: millis,
        orElse: () => Effect.fail(makeModelError({ kind: "timeout", status: null, model, timer: "attempt" }))
      })

/** Books a request of the summary at the price of the route whose model writes it. */
const bookFor =
  (run: Run, position: Position): Book =>
  (request, call) => {
    const { policy } = run.options
    const route = policy.routes.find((other) => other.model === request.model) ?? routeAt(policy, position.state.route)
    return underReceipt(
      run.books,
      {
        role: request.role,
        attempt: null,
        model: request.model,
        // The summarizer has a client of its own.
        client: null,
        provider: run.options.providerOf(route),
        prices: route.prices,
        maxOutputTokens: request.maxOutputTokens,
        longestReply: route.outputLimit ?? policy.escalatedMaxTokens,
        promptTokens: local(request.messages, [])
      },
      makeMeter(),
      inAttemptTime(policy.attemptTimeout, request.model, call)
    )
  }

export const compact = (run: Run, position: Position): Effect.Effect<Seen> =>
  inSpan(compacted(run, position), () => ({
    name: "holdfast.compact",
    begin: () => ({ "holdfast.request_id": run.options.requestId }),
    end: (exit) => (Exit.isSuccess(exit) ? outcomeAttributes(exit.value.outcome) : {})
  }))

const outcomeAttributes = (outcome: Outcome): Attributes =>
  outcome._tag === "Compacted"
    ? { "holdfast.compact.before": outcome.before, "holdfast.compact.after": outcome.after }
    : { "error.type": outcome._tag === "SummaryFaulted" ? outcome.kind : outcome._tag }

const compacted = Effect.fnUntraced(function* (run: Run, position: Position): Effect.fn.Return<Seen> {
  const { emit, requestId } = run.options
  if (isOver(run, position.state) || position.plan === null) return timeIsUp
  const summary = run.driver.compact(position.plan, bookFor(run, position))
  const result = yield* Effect.result(inTime(run, position, summary))
  if (Result.isFailure(result)) return faulted(result.failure, position.plan.route.model)
  const done = result.success
  if (emit !== null && done._tag === "Compacted")
    yield* emit({ _tag: "Compacted", requestId, before: done.before, after: done.after })
  return seenOnly(done)
})

const faulted = (failed: Effect.Error<ReturnType<Run["driver"]["compact"]>> | TimeUp, model: string): Seen => {
  if (failed instanceof TimeUp)
    // The failure tells what the time went into.
    return seenOnly(
      { _tag: "DeadlineHit" },
      makeModelError({ kind: "timeout", status: null, code: "summary_unfinished", model })
    )
  if (failed instanceof BudgetExceeded) return seenOnly({ _tag: "BudgetRefused" }, failed)
  const { kind, status, code, hints, shouldRetry } = failed
  return seenOnly({ _tag: "SummaryFaulted", kind, status, code, hints, shouldRetry }, failed)
}
