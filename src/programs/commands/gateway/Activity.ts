/**
 * What the gateway has done of late, for its page and for `/trail/ID`: a bounded fold of events. Pure but for the one
 * record it is kept in. No text, no key and no header value comes in, so none can be shown.
 */
import type { RecoveryEvent } from "../../../domain/recovery/RecoveryEvent.ts"
import { spanText } from "../../../domain/failure/wording.ts"

/** One line of a request's time line. */
export interface Moment {
  /** Milliseconds since the request began. */
  readonly atMs: number
  readonly what: "attempt" | "outcome" | "wait" | "switch" | "reset" | "compacted" | "note" | "end"
  readonly text: string
}

export interface RequestTrail {
  readonly id: string
  /** Epoch milliseconds. */
  readonly beganAt: number
  readonly route: string
  readonly wire: string
  readonly moments: ReadonlyArray<Moment>
  readonly attempts: number
  /** Null = it still runs. */
  readonly tookMs: number | null
  readonly ok: boolean | null
  readonly ending: string
  /** Of those that were told; null = none was. */
  readonly inputTokens: number | null
  readonly outputTokens: number | null
  /** Null = unknown for one of its requests. */
  readonly costUsd: number | null
}

/** Sums of one minute. */
export interface Minute {
  /** Epoch milliseconds of its start. */
  readonly at: number
  readonly requests: number
  readonly failed: number
  readonly recovered: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly costUsd: number
  /** Requests whose cost is not known. */
  readonly unpriced: number
}

/** Requests that can be looked at by id, and minutes that are kept. */
const keptTrails = 1_000
const keptMinutes = 120
/** Lines of one request; a request that does more tells the first and the last of them. */
const keptMoments = 200

/** What came of an attempt, or why none was made. */
const outcomeText = ({ outcome, action }: Extract<RecoveryEvent, { readonly _tag: "Transitioned" }>): string => {
  if (outcome._tag === "Held") {
    const why =
      outcome.reason === "breaker" ? "the route is closed after failures" : `route health says ${outcome.reason}`
    return `${why}: ${outcome.other === null ? "it waits" : action._tag}`
  }
  const kind = outcome._tag === "Faulted" ? outcome.kind : outcome._tag
  const status = "status" in outcome && outcome.status !== null ? ` HTTP ${outcome.status}` : ""
  return `${kind}${status}: ${action._tag}`
}

const sum = (left: number | null, right: number | null): number | null =>
  left === null || right === null ? (left ?? right) : left + right

const momentOf = (event: RecoveryEvent): Moment | null => {
  const atMs = Math.round(event.elapsedMs)
  switch (event._tag) {
    case "AttemptStarted":
      return { atMs, what: "attempt", text: `request ${event.attempt} to ${event.model}` }
    case "Transitioned":
      return { atMs, what: "outcome", text: outcomeText(event) }
    case "Waiting":
      return { atMs, what: "wait", text: `waits ${spanText(event.remainingMs)}` }
    case "ModelSwitched":
      return { atMs, what: "switch", text: `from ${event.from} to ${event.to}` }
    case "AttemptReset":
      return { atMs, what: "reset", text: "a partial answer was set aside" }
    case "Compacted":
      return { atMs, what: "compacted", text: `about ${event.before} tokens became ${event.after}` }
    case "Noted":
      return { atMs, what: "note", text: event.note }
    default:
      return null
  }
}

const begun = (event: RecoveryEvent, route: string, wire: string): RequestTrail => ({
  id: event.requestId,
  beganAt: Math.round(event.epochMs - event.elapsedMs),
  route,
  wire,
  moments: [],
  attempts: 0,
  tookMs: null,
  ok: null,
  ending: "running",
  inputTokens: null,
  outputTokens: null,
  costUsd: 0
})

/** The trail with one more event. */
export const accept = (trail: RequestTrail, event: RecoveryEvent): RequestTrail => {
  if (event._tag === "UsageSeen")
    return {
      ...trail,
      inputTokens: sum(trail.inputTokens, event.usage.promptTokens),
      outputTokens: sum(trail.outputTokens, event.usage.completionTokens),
      costUsd: trail.costUsd === null || event.costUsd === null ? null : trail.costUsd + event.costUsd
    }
  if (event._tag === "Finished") {
    const ending = event.ok ? "answered" : event.cancelled ? "taken back" : (event.tag ?? "failed")
    const tookMs = Math.round(event.elapsedMs)
    const end: Moment = { atMs: tookMs, what: "end", text: ending }
    return {
      ...trail,
      moments: [...trail.moments, end],
      attempts: event.attempts,
      tookMs,
      ok: event.ok,
      ending
    }
  }
  const moment = momentOf(event)
  return moment === null || trail.moments.length >= keptMoments
    ? trail
    : { ...trail, moments: [...trail.moments, moment] }
}

const minuteOf = (at: number): Minute => ({
  at,
  requests: 0,
  failed: 0,
  recovered: 0,
  inputTokens: 0,
  outputTokens: 0,
  costUsd: 0,
  unpriced: 0
})

export interface Activity {
  /** Takes an event of a request of this route and wire. */
  readonly see: (event: RecoveryEvent, route: string, wire: string) => void
  readonly trail: (id: string) => RequestTrail | null
  /** The newest first. */
  readonly latest: (count: number) => ReadonlyArray<RequestTrail>
  readonly minutes: () => ReadonlyArray<Minute>
  /** Recoveries since the start, by what was decided. */
  readonly roads: () => Readonly<Record<string, number>>
}

export const makeActivity = (): Activity => {
  const trails = new Map<string, RequestTrail>()
  const roads: Record<string, number> = {}
  let minutes: ReadonlyArray<Minute> = []

  const count = (trail: RequestTrail, endedAt: number): void => {
    const at = Math.floor(endedAt / 60_000) * 60_000
    const last = minutes.at(-1)
    const now = last?.at === at ? last : minuteOf(at)
    const next: Minute = {
      at,
      requests: now.requests + 1,
      failed: now.failed + (trail.ok === true ? 0 : 1),
      recovered: now.recovered + (trail.ok === true && trail.attempts > 1 ? 1 : 0),
      inputTokens: now.inputTokens + (trail.inputTokens ?? 0),
      outputTokens: now.outputTokens + (trail.outputTokens ?? 0),
      costUsd: now.costUsd + (trail.costUsd ?? 0),
      unpriced: now.unpriced + (trail.costUsd === null ? 1 : 0)
    }
    minutes = [...(last?.at === at ? minutes.slice(0, -1) : minutes), next].slice(-keptMinutes)
  }

  return {
    see: (event, route, wire) => {
      const trail = accept(trails.get(event.requestId) ?? begun(event, route, wire), event)
      trails.set(event.requestId, trail)
      if (event._tag === "Transitioned" && event.action._tag !== "Done" && event.action._tag !== "Fail")
        roads[event.action._tag] = (roads[event.action._tag] ?? 0) + 1
      if (event._tag === "Finished") count(trail, event.epochMs)
      for (const oldest of trails.keys()) {
        if (trails.size <= keptTrails) break
        trails.delete(oldest)
      }
    },
    trail: (id) => trails.get(id) ?? null,
    latest: (wanted) => [...trails.values()].slice(-wanted).toReversed(),
    minutes: () => minutes,
    roads: () => ({ ...roads })
  }
}
