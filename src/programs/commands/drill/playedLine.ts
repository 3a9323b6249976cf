/** The result line of a played scenario, from what was seen. */
import type { Message } from "../../../domain/chat/Message.ts"
import * as Usage from "../../../domain/chat/Usage.ts"
import { exitCodes } from "../../../domain/failure/exitCode.ts"
import { delayOf } from "../../../domain/recovery/RecoveryAction.ts"
import type { Play } from "./Stage.ts"
import type { PlayedLine, Timed } from "./ResultLine.ts"
import type { Calls } from "./scriptCalls.ts"

const withoutUsage = (message: Message): Message => {
  if (message.role !== "assistant" || message.usage === undefined) return message
  const { usage: _, ...rest } = message
  return rest
}

const isTag =
  <T extends string>(tag: T) =>
  (event: Timed): boolean =>
    event._tag === tag

/** Everything that was spent, as the events tell it. */
const totalsOf = (play: Play) => {
  let usage = Usage.unknown
  let known = true
  let costUsd: number | null = 0
  for (const event of play.events) {
    if (event._tag !== "UsageSeen") continue
    const seen = event["usage"] as Usage.Usage
    usage = Usage.sum(usage, seen)
    if (event["final"] !== true) known = false
    const cost = event["costUsd"]
    costUsd = costUsd === null || typeof cost !== "number" ? null : costUsd + cost
  }
  const hasPrices = play.scenario.config?.prices !== undefined
  return {
    usageTotal: {
      promptTokens: usage.promptTokens,
      completionTokens: usage.completionTokens,
      cachedTokens: usage.cachedTokens,
      known
    },
    costUsd: hasPrices ? costUsd : null
  }
}

export const lineOf = (play: Play, outcome: Calls, elapsedMs: number): PlayedLine => {
  const { scenario, stage } = play
  const totals = totalsOf(play)
  return {
    id: scenario.id,
    status: "ran",
    requests: stage.provider.requests,
    sleepsMs: play.events
      .filter(isTag("Transitioned"))
      .map((event) => delayOf(event["action"] as Parameters<typeof delayOf>[0]))
      .filter((delay) => delay > 0),
    elapsedMs,
    results: outcome.ended.map((one) => one.result),
    history: outcome.history === null ? null : outcome.history.map(withoutUsage),
    historyUnchanged: outcome.ended.every((one) => one.result.historyUnchanged),
    events: play.events.map(({ policy: _, ...event }) => event as Timed),
    parts: play.parts,
    ...totals,
    toolExecutions: play.agent.toolExecutions,
    toolResults: play.agent.toolResults,
    loop: {
      warnedAtCalls: play.agent.warnedAtCalls,
      brokenAtCall: play.agent.brokenAtCall,
      detector: play.agent.detector
    },
    heartbeatsAtMs: play.events.filter(isTag("Heartbeat")).map((event) => event.atMs),
    connectionsOpen: stage.provider.connectionsOpen(),
    exitCode: outcome.ended.at(-1)?.exitCode ?? exitCodes.ok
  }
}
