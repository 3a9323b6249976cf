/** What a user may replace can be written with the public names alone. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import {
  HealthStore,
  Summarizer,
  Transcript,
  type Admission,
  type HealthStoreShape,
  type RouteKey,
  type Signal,
  type Snapshot,
  type SummaryRequest
} from "../../src/index.ts"
import {
  AgentHooks,
  AgentMemory,
  BudgetLedger,
  Toolbox,
  type Hooks,
  type LedgerShape,
  type Memory,
  type ToolboxShape
} from "../../src/agent.ts"

const go: Admission = { _tag: "Go", candidate: 0, ticket: null, place: 0, isPaced: false, left: null }
const seen: Array<readonly [RouteKey, Signal]> = []
const health: HealthStoreShape = {
  admit: () => Effect.succeed(go),
  report: ({ candidates, reporter, signal }) =>
    Effect.sync(() => {
      const key = candidates[reporter.own]
      if (key !== undefined) seen.push([key, signal])
      return null
    })
}

export const layers = (
  summarize: (request: SummaryRequest) => Effect.Effect<string>,
  record: (snapshot: Snapshot) => Effect.Effect<void>,
  hooks: Hooks,
  memory: Memory,
  ledger: LedgerShape,
  toolbox: ToolboxShape
) =>
  Layer.mergeAll(
    Layer.succeed(HealthStore, health),
    Layer.succeed(Transcript, Transcript.of({ record })),
    Layer.succeed(AgentHooks, hooks),
    Layer.succeed(AgentMemory, memory),
    Layer.succeed(BudgetLedger, ledger),
    Layer.succeed(Toolbox, Toolbox.of(toolbox)),
    Layer.succeed(
      Summarizer,
      Summarizer.of({
        summarize: (request) =>
          Effect.map(summarize(request), (text) => ({
            text,
            usage: {
              promptTokens: null,
              completionTokens: null,
              cachedTokens: null,
              cacheWriteTokens: null,
              reasoningTokens: null
            }
          }))
      })
    )
  )
