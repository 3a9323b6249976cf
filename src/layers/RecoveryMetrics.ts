/**
 * Metrics of recovery, made from its events: the names of the OpenTelemetry conventions for generative AI where they have
 * one, `holdfast_*` for what only recovery knows. They go into the MetricRegistry of the fiber that tells; how many series
 * there are is bounded, whatever models callers name.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import type { RecoveryEvent } from "../domain/recovery/RecoveryEvent.ts"

type Of<Tag extends RecoveryEvent["_tag"]> = Extract<RecoveryEvent, { readonly _tag: Tag }>
type Transitioned = Of<"Transitioned">

/** Models told apart in the metrics; those that come after them count as one, so that a caller cannot make series. */
const maxModels = 100
/** Series of counters by model; what comes behind them is counted for `other`. A scrape has at most 2,000 lines. */
const maxSeries = 1_000
const otherModels = "other"

const boundaries = Metric.boundariesFromIterable([0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300])

const descriptions = {
  holdfast_attempts: "HTTP requests that were sent to a model, by how they ended",
  holdfast_recoveries: "Decisions to go on, by the road they are on and by what was decided",
  holdfast_wait_seconds: "Seconds of waiting that were decided, by what set their length",
  holdfast_held: "Times route health kept a request from a route, by its reason",
  holdfast_resumed_streams: "Streams that went on behind what their client had seen",
  gen_ai_client_token_usage: "Tokens that were used, by their type",
  holdfast_cost_usd: "USD that were spent, where the price is known",
  holdfast_cost_unknown: "HTTP requests whose cost is not known"
} as const

type Name = keyof typeof descriptions
type Attributes = Readonly<Record<string, string>>

const outcomeOf = ({ outcome }: Transitioned): string =>
  outcome._tag === "Faulted" || outcome._tag === "SummaryFaulted" ? outcome.kind : outcome._tag.toLowerCase()

/** The road an outcome is dealt with on. */
const roadOf = ({ _tag }: Transitioned["outcome"]): string => {
  if (_tag === "Truncated") return "truncation"
  return ["PromptTooLong", "Compacted", "NothingToCompact", "SummaryFaulted"].includes(_tag) ? "overflow" : "transient"
}

const isSent = ({ outcome }: Transitioned): boolean =>
  !["Held", "Compacted", "NothingToCompact", "BudgetRefused", "SummaryFaulted"].includes(outcome._tag)

/** Counters by name, model and one more attribute: made once each, then added to without anything else. */
class Counters {
  private readonly counters = new Map<string, Metric.Counter<number>>()

  add(context: Context.Context<never>, name: Name, attributes: Attributes, amount: number): void {
    const key = name + JSON.stringify(attributes)
    const known = this.counters.get(key)
    if (known !== undefined) return known.updateUnsafe(amount, context)
    const isFull = this.counters.size >= maxSeries && attributes["gen_ai_request_model"] !== undefined
    if (isFull && attributes["gen_ai_request_model"] !== otherModels)
      return this.add(context, name, { ...attributes, gen_ai_request_model: otherModels }, amount)
    const made = Metric.counter(name, { description: descriptions[name], attributes, incremental: true })
    this.counters.set(key, made)
    made.updateUnsafe(amount, context)
  }
}

class Meter {
  private readonly counters = new Counters()
  private readonly models = new Set<string>()
  /** The models of requests under way, by the request's name; forgotten when it ends. */
  private readonly modelOf = new Map<string, string>()
  private readonly durations = new Map<string, Metric.Histogram<number>>()

  see(event: RecoveryEvent, context: Context.Context<never>): void {
    switch (event._tag) {
      case "AttemptStarted":
        this.modelOf.set(event.requestId, this.bounded(event.model))
        return
      case "Transitioned":
        return this.onTransition(event, context)
      case "UsageSeen":
        return this.onUsage(event, context)
      case "Finished": {
        this.modelOf.delete(event.requestId)
        const error_type = event.cancelled ? "cancelled" : (event.tag ?? "none")
        return this.durationOf(error_type).updateUnsafe(event.elapsedMs / 1_000, context)
      }
      default:
    }
  }

  private bounded(model: string): string {
    if (this.models.has(model)) return model
    if (this.models.size >= maxModels) return otherModels
    this.models.add(model)
    return model
  }

  private durationOf(error_type: string): Metric.Histogram<number> {
    const known = this.durations.get(error_type)
    if (known !== undefined) return known
    const made = Metric.histogram("gen_ai_client_operation_duration", {
      description: "Seconds a logical request took, by the failure it ended with",
      attributes: { error_type },
      boundaries
    })
    this.durations.set(error_type, made)
    return made
  }

  private onTransition(event: Transitioned, context: Context.Context<never>): void {
    const { action, outcome, requestId } = event
    const add = (name: Name, attributes: Attributes, amount: number): void =>
      this.counters.add(context, name, attributes, amount)
    const gen_ai_request_model = this.modelOf.get(requestId) ?? otherModels
    if (isSent(event)) add("holdfast_attempts", { gen_ai_request_model, outcome: outcomeOf(event) }, 1)
    if (outcome._tag === "Held") add("holdfast_held", { reason: outcome.reason }, 1)
    if (action._tag === "Done" || action._tag === "Fail") return
    add("holdfast_recoveries", { road: roadOf(outcome), action: action._tag.toLowerCase() }, 1)
    if ("shown" in action && (action.shown === "resume" || action.shown === "splice"))
      add("holdfast_resumed_streams", { how: action.shown }, 1)
    if ("delayMillis" in action && action.delayMillis > 0)
      add("holdfast_wait_seconds", { origin: action.origin }, action.delayMillis / 1_000)
  }

  private onUsage(event: Of<"UsageSeen">, context: Context.Context<never>): void {
    const gen_ai_request_model = this.modelOf.get(event.requestId) ?? otherModels
    const { promptTokens, completionTokens } = event.usage
    const tokens = (gen_ai_token_type: string, amount: number | null): void => {
      if (amount === null) return
      this.counters.add(context, "gen_ai_client_token_usage", { gen_ai_request_model, gen_ai_token_type }, amount)
    }
    tokens("input", promptTokens)
    tokens("output", completionTokens)
    if (event.costUsd === null) this.counters.add(context, "holdfast_cost_unknown", { gen_ai_request_model }, 1)
    else this.counters.add(context, "holdfast_cost_usd", { gen_ai_request_model }, event.costUsd)
  }
}

/** A listener for one stream of events, for example `EventsMemory.layerTo(RecoveryMetrics.make())`. */
export const make = (): ((event: RecoveryEvent) => Effect.Effect<void>) => {
  const meter = new Meter()
  return (event) => Effect.contextWith((context) => Effect.sync(() => meter.see(event, context)))
}

/** The same without an Effect per event; its metrics are in the MetricRegistry of this context. */
export const makeIn = (context: Context.Context<never>): ((event: RecoveryEvent) => void) => {
  const meter = new Meter()
  return (event) => meter.see(event, context)
}
