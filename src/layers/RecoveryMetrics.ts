/**
 * Metrics of recovery, made from its events: the names of the OpenTelemetry conventions for generative AI where they have
 * one, `holdfast_*` for what only recovery knows. They go into the MetricRegistry of the fiber that tells.
 */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import type { RecoveryEvent } from "../domain/recovery/RecoveryEvent.ts"

type Of<Tag extends RecoveryEvent["_tag"]> = Extract<RecoveryEvent, { readonly _tag: Tag }>
type Step = Of<"Transitioned">

/** Models told apart in the metrics; those that come after them count as one, so that a caller cannot make series. */
const maxModels = 100
const otherModels = "other"

const seconds = Metric.boundariesFromIterable([0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300])

const attempts = Metric.counter("holdfast_attempts", {
  description: "HTTP requests that were sent to a model, by how they ended",
  incremental: true
})
const recoveries = Metric.counter("holdfast_recoveries", {
  description: "Decisions to go on, by the road they are on and by what was decided",
  incremental: true
})
const waits = Metric.counter("holdfast_wait_seconds", {
  description: "Seconds of waiting that were decided, by what set their length",
  incremental: true
})
const held = Metric.counter("holdfast_held", {
  description: "Times route health kept a request from a route, by its reason",
  incremental: true
})
const tokens = Metric.counter("gen_ai_client_token_usage", {
  description: "Tokens that were used, by their type",
  incremental: true
})
const cost = Metric.counter("holdfast_cost_usd", {
  description: "USD that were spent, where the price is known",
  incremental: true
})
const unpriced = Metric.counter("holdfast_cost_unknown", {
  description: "HTTP requests whose cost is not known",
  incremental: true
})
const duration = Metric.histogram("gen_ai_client_operation_duration", {
  description: "Seconds a logical request took, by the failure it ended with",
  boundaries: seconds
})

const outcomeOf = ({ outcome }: Step): string =>
  outcome._tag === "Faulted" || outcome._tag === "SummaryFaulted" ? outcome.kind : outcome._tag.toLowerCase()

/** The road an outcome is dealt with on. */
const roadOf = ({ _tag }: Step["outcome"]): string => {
  if (_tag === "Truncated") return "truncation"
  return ["PromptTooLong", "Compacted", "NothingToCompact", "SummaryFaulted"].includes(_tag) ? "overflow" : "transient"
}

const isSent = ({ outcome }: Step): boolean =>
  !["Held", "Compacted", "NothingToCompact", "BudgetRefused", "SummaryFaulted"].includes(outcome._tag)

/** The models of requests under way, by the request's name; forgotten when it ends. */
interface Memory {
  readonly models: Set<string>
  readonly modelOf: Map<string, string>
}

const bounded = (memory: Memory, model: string): string => {
  if (memory.models.has(model)) return model
  if (memory.models.size >= maxModels) return otherModels
  memory.models.add(model)
  return model
}

const add = (metric: Metric.Counter<number>, attributes: Readonly<Record<string, string>>, amount: number) =>
  Metric.update(Metric.withAttributes(metric, attributes), amount)

const onStep = (memory: Memory, event: Step): Effect.Effect<void> =>
  Effect.gen(function* () {
    const model = memory.modelOf.get(event.requestId) ?? otherModels
    const { action, outcome } = event
    if (isSent(event)) yield* add(attempts, { gen_ai_request_model: model, outcome: outcomeOf(event) }, 1)
    if (outcome._tag === "Held") yield* add(held, { reason: outcome.reason }, 1)
    if (action._tag === "Done" || action._tag === "Fail") return
    yield* add(recoveries, { road: roadOf(outcome), action: action._tag.toLowerCase() }, 1)
    if ("delayMillis" in action && action.delayMillis > 0)
      yield* add(waits, { origin: action.origin }, action.delayMillis / 1_000)
  })

const onUsage = (memory: Memory, event: Of<"UsageSeen">): Effect.Effect<void> =>
  Effect.gen(function* () {
    const model = memory.modelOf.get(event.requestId) ?? otherModels
    const { promptTokens, completionTokens } = event.usage
    if (promptTokens !== null)
      yield* add(tokens, { gen_ai_request_model: model, gen_ai_token_type: "input" }, promptTokens)
    if (completionTokens !== null)
      yield* add(tokens, { gen_ai_request_model: model, gen_ai_token_type: "output" }, completionTokens)
    yield* event.costUsd === null
      ? add(unpriced, { gen_ai_request_model: model }, 1)
      : add(cost, { gen_ai_request_model: model }, event.costUsd)
  })

/** A listener for one stream of events, for example `EventsMemory.layerTo(RecoveryMetrics.make())`. */
export const make = (): ((event: RecoveryEvent) => Effect.Effect<void>) => {
  const memory: Memory = { models: new Set(), modelOf: new Map() }
  return (event) => {
    switch (event._tag) {
      case "AttemptStarted":
        return Effect.sync(() => {
          memory.modelOf.set(event.requestId, bounded(memory, event.model))
        })
      case "Transitioned":
        return onStep(memory, event)
      case "UsageSeen":
        return onUsage(memory, event)
      case "Finished": {
        memory.modelOf.delete(event.requestId)
        const error_type = event.cancelled ? "cancelled" : (event.tag ?? "none")
        return Metric.update(Metric.withAttributes(duration, { error_type }), event.elapsedMs / 1_000)
      }
      default:
        return Effect.void
    }
  }
}
