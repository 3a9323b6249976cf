/** The turns of the recorded journals: whoever takes one up brings the same program, or a later one. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { AgentEvent } from "../../src/domain/agent/AgentEvent.ts"
import type { ReplyPart } from "../../src/domain/chat/ReplyPart.ts"
import { RecoveryPolicy } from "../../src/domain/recovery/RecoveryPolicy.ts"
import type * as ScriptedModel from "../../src/layers/ScriptedModel.ts"
import * as ToolboxLive from "../../src/layers/ToolboxLive.ts"
import { durableTurn, type DurableFailure } from "../../src/programs/agent/durableTurn.ts"
import { subAgent } from "../../src/programs/agent/subAgent.ts"
import type { AgentResult } from "../../src/programs/agent/runAgent.ts"
import type { JournalStoreShape } from "../../src/services/JournalStore.ts"
import { Recovery } from "../../src/services/Recovery.ts"
import { Toolbox } from "../../src/services/Toolbox.ts"
import { asks, call, executorOf, says } from "./agentRuns.ts"
import { scriptedWorld } from "./world.ts"

const policy = new RecoveryPolicy({
  ...RecoveryPolicy.broad,
  routes: [{ model: "large" }, { model: "small" }],
  backoff: { base: 60_000, cap: 60_000, factor: 1, jitter: 0 },
  deadline: null,
  hardCap: null
})

/** What the provider says in the first life of each turn. */
const scripts: Readonly<Record<string, ReadonlyArray<ScriptedModel.Step>>> = {
  done: [
    { reply: asks(call("a", "look", { n: 1 }), call("b", "helper", { task: "count" })) },
    { reply: { text: "All is done." } }
  ],
  after: [{ reply: { text: "And more." } }],
  parked: [{ reply: asks(call("p", "pay", { n: 7 })) }],
  trouble: [{ fail: { kind: "overloaded", status: 529 } }],
  stream: [{ stall: "The first half " }]
}

export interface Seen {
  readonly parts: Array<ReplyPart>
  readonly ran: Array<string>
  requests: number
}

export const nothingSeen = (): Seen => ({ parts: [], ran: [], requests: 0 })

/** One life of a turn. `steps` is what the provider says in it; default: the first life's. */
export const fixtureTurn = (
  store: JournalStoreShape,
  id: string,
  seen: Seen = nothingSeen(),
  steps: ReadonlyArray<ScriptedModel.Step> = scripts[id] ?? []
): Effect.Effect<AgentResult, DurableFailure> => {
  const world = scriptedWorld(policy, steps)
  const toolOf = (name: string, options: ToolboxLive.RunOptions) =>
    ToolboxLive.tool({
      name,
      description: name,
      parameters: Schema.Struct({ n: Schema.Int }),
      run: ({ n }, { key }) => Effect.sync(() => (seen.ran.push(`${name} ${key ?? ""}`), `${name} ${n} `.repeat(600))),
      ...options
    })
  const inner = executorOf([asks(call("i", "look", { n: 2 })), says("counted")])
  return Effect.gen(function* () {
    const look = toolOf("look", { repeat: "safe" })
    const helper = subAgent({
      name: "helper",
      description: "helps",
      executor: inner.executor,
      toolbox: yield* Effect.orDie(ToolboxLive.make([look]))
    })
    const toolbox = yield* Effect.orDie(ToolboxLive.make([look, helper, toolOf("pay", { approval: true })]))
    const result = durableTurn({
      id,
      store,
      executor: yield* Recovery,
      prompt: `do ${id}`,
      stream: id === "stream",
      emit: (event: AgentEvent) => Effect.sync(() => event._tag === "PartSeen" && seen.parts.push(event.part)),
      ...(id === "after" ? { after: "done" } : { history: [{ role: "system", content: "the rules" }] })
    }).pipe(Effect.provideService(Toolbox, Toolbox.of(toolbox)))
    return yield* Effect.ensuring(
      result,
      Effect.sync(() => (seen.requests = world.model.requests.length))
    )
  }).pipe(Effect.provide(world.layer)) as Effect.Effect<AgentResult, DurableFailure>
}
