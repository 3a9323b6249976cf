/** The step that sends one request of the main conversation, under its timers, and tells what came of it. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import { unknown } from "../../domain/chat/Usage.ts"
import { BudgetExceeded } from "../../domain/failure/AgentError.ts"
import { makeModelError, type ModelError } from "../../domain/failure/ModelError.ts"
import { longestReplyOf, planOf, type AttemptPlan } from "../../domain/recovery/AttemptPlan.ts"
import { routeAt } from "../../domain/recovery/RecoveryPolicy.ts"
import { makeProgress, movedBy, TimeUp, underTimers, type Progress } from "./attemptWatch.ts"
import { makeMeter, type Sent } from "./httpRequest.ts"
import { underReceipt, worstFor } from "./receipt.ts"
import {
  isOver,
  limitsOf,
  readTick,
  seenOnly,
  timeIsUp,
  type Position,
  type Run,
  type Seen,
  type Silence
} from "./Run.ts"

/** Sends one request, unless the time is over, the budget refuses or the route is closed. */
export const attempt = (run: Run, position: Position): Effect.Effect<Seen> =>
  Effect.suspend(() => {
    const { health } = run.options
    if (isOver(run, position.state)) return Effect.succeed(timeIsUp)
    if (health === null) return afford(run, position)
    return Effect.flatMap(health.admit(position.state, readTick(run)), (held) =>
      held === null ? afford(run, position) : Effect.succeed(seenOnly(held))
    )
  })

/** Asks the session's budget how long the answer may be, where there is one. */
const afford = (run: Run, position: Position): Effect.Effect<Seen> => {
  const { ledger, policy } = run.options
  const route = routeAt(policy, position.state.route)
  const promptTokens = run.driver.promptTokens(route)
  if (ledger === null) return announce(run, position, promptTokens, null)
  return Effect.flatMap(ledger.room({ prices: route.prices, promptTokens }), (payable) =>
    announce(run, position, promptTokens, payable)
  )
}

const announce = (run: Run, position: Position, promptTokens: number, payable: number | null): Effect.Effect<Seen> => {
  const { policy } = run.options
  const { state } = position
  const plan = planOf(policy, state, promptTokens, payable)
  run.here.at = { ...position, plan }
  const lost = bookLost(run, plan)
  if (lost !== Effect.void) return Effect.andThen(lost, tell(run, position, plan))
  return tell(run, position, plan)
}

const tell = (run: Run, position: Position, plan: AttemptPlan): Effect.Effect<Seen> => {
  const { emit, requestId } = run.options
  if (emit === null) return send(run, position, plan)
  const { attempt: number, maxOutputTokens, route } = plan
  return Effect.andThen(
    emit({ _tag: "AttemptStarted", requestId, attempt: number, model: route.model, maxOutputTokens }),
    send(run, position, plan)
  )
}

/** What a request costs at most that was in flight when its process died: nobody knows its end. */
const bookLost = (run: Run, plan: AttemptPlan): Effect.Effect<void> => {
  const keep = run.options.keep ?? null
  if (keep === null || !keep.takeDoubt()) return Effect.void
  const sent = sentAs(run, plan)
  const worst = worstFor(sent)
  run.books.enter({
    role: sent.role,
    attempt: sent.attempt,
    model: sent.model,
    ...(sent.client === null ? {} : { client: sent.client }),
    maxOutputTokens: sent.maxOutputTokens,
    startedMs: run.now() - run.startedAt,
    durationMs: 0,
    status: null,
    outcome: "in_doubt",
    code: null,
    requestId: run.options.requestId,
    providerRequestId: null,
    waitMs: null,
    waitOrigin: null,
    usage: unknown,
    usageFinal: false,
    costUsd: worst.costUsd
  })
  return keep.bookLost(worst, run.trail, run.startedAt)
}

const sentAs = (run: Run, plan: AttemptPlan): Sent => ({
  role: run.options.role,
  attempt: plan.attempt,
  model: plan.route.model,
  client: plan.route.client,
  provider: run.options.providerOf(plan.route),
  prices: plan.route.prices,
  maxOutputTokens: plan.maxOutputTokens,
  longestReply: longestReplyOf(run.options.policy, plan.route),
  promptTokens: plan.promptTokens
})

const send = (run: Run, position: Position, plan: AttemptPlan): Effect.Effect<Seen> =>
  Effect.suspend(() => {
    const { emit, health, requestId } = run.options
    const { state } = position
    const progress = makeProgress(run.now())
    run.pulse.lastAt = progress.sentAt
    const meter = makeMeter()
    const accepted = health === null ? Effect.void : Effect.suspend(() => health.accepted(readTick(run)))
    const beat = emit === null ? null : emit({ _tag: "Heartbeat", requestId, attempt: plan.attempt })
    const call = run.driver.attempt(plan, meter, progress, accepted)
    const timed = underTimers(call, { limits: limitsOf(run, state), progress, now: run.now, pulse: run.pulse, beat })
    return Effect.map(Effect.result(underReceipt(run.books, sentAs(run, plan), meter, timed)), (result) =>
      seenOf(run, position, plan, progress, result)
    )
  })

/** How long nothing had come when an attempt was ended from outside; null = what had come was not taken. */
const silenceOf = (run: Run, { blocked, headersAt, lastByteAt }: Progress): Silence | null => {
  if (blocked) return null
  const began = headersAt === null ? "firstTokenTimeout" : "idleTimeout"
  return { millis: run.now() - lastByteAt, field: run.driver.streaming ? began : "attemptTimeout" }
}

type Ended = Result.Result<ModelReply, ModelError | TimeUp | BudgetExceeded>

const seenOf = (run: Run, position: Position, plan: AttemptPlan, progress: Progress, ended: Ended): Seen => {
  const movedMillis = movedBy(limitsOf(run, position.state), progress)
  const of = (known: Result.Result<ModelReply, ModelError>): Seen => ({
    outcome: run.driver.classify(known, plan, run.now() - progress.sentAt),
    reply: Result.isSuccess(known) ? known.success : null,
    plan,
    error: Result.isFailure(known) ? known.failure : null,
    movedMillis,
    silence: null
  })
  if (Result.isSuccess(ended)) return of(Result.succeed(ended.success))
  const failed = ended.failure
  if (failed instanceof BudgetExceeded) return { ...seenOnly({ _tag: "BudgetRefused" }, failed), plan }
  if (!(failed instanceof TimeUp)) return of(Result.fail(failed))
  const silence = silenceOf(run, progress)
  if (failed.what === "deadline") return { ...timeIsUp, plan, movedMillis, silence }
  const error = makeModelError({ kind: "timeout", status: null, model: plan.route.model, timer: failed.what })
  return { ...of(Result.fail(error)), silence }
}
