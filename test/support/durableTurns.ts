/** Durable turns for their tests: a file of its own, a model that answers by what it is asked, an owner that dies. */
import { mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Message } from "../../src/domain/chat/Message.ts"
import type { ModelReply } from "../../src/domain/chat/ModelReply.ts"
import * as JournalSqlite from "../../src/layers/stores/JournalSqlite.ts"
import * as ToolboxLive from "../../src/layers/ToolboxLive.ts"
import { durableTurn, type DurableOptions } from "../../src/programs/agent/durableTurn.ts"
import type { JournalShape } from "../../src/services/Journal.ts"
import type { JournalStoreShape } from "../../src/services/JournalStore.ts"
import { Toolbox } from "../../src/services/Toolbox.ts"
import { executorOf, says } from "./agentRuns.ts"

export const fresh = (): string => join(mkdtempSync(join(tmpdir(), "turn-")), "turns.db")

export const withStore = <A, E>(path: string, body: (store: JournalStoreShape) => Effect.Effect<A, E>) =>
  Effect.scoped(Effect.flatMap(Effect.orDie(JournalSqlite.make({ path })), body))

/** An executor that answers by what it is asked, so that any life of a turn gets the same script. */
export const modelOf = (script: ReadonlyArray<ModelReply>) => {
  const base = executorOf([])
  const asked: Array<number> = []
  return {
    asked,
    executor: {
      ...base.executor,
      complete: ({ messages }: { readonly messages: ReadonlyArray<Message> }) =>
        Effect.suspend(() => {
          const at = messages.filter((message) => message.role === "assistant").length
          asked.push(at)
          return Effect.succeed(script[at] ?? says("end"))
        })
    }
  }
}

export const counter = (name: string, options: ToolboxLive.RunOptions = {}) => {
  const ran: Array<string> = []
  const one = ToolboxLive.tool({
    name,
    description: name,
    parameters: Schema.Struct({ n: Schema.optionalKey(Schema.Int) }),
    run: ({ n }, { key }) =>
      Effect.sync(() => {
        ran.push(key ?? "none")
        return `${name} ${n ?? 0}`
      }),
    ...options
  })
  return { one, ran }
}

export const live = (
  store: JournalStoreShape,
  executor: DurableOptions["executor"],
  tools: ReadonlyArray<ToolboxLive.Tool>,
  more: Partial<DurableOptions> = {}
) =>
  Effect.flatMap(Effect.orDie(ToolboxLive.make(tools)), (toolbox) =>
    durableTurn({ id: "t", store, executor, prompt: "go", ...more }).pipe(
      Effect.provideService(Toolbox, Toolbox.of(toolbox))
    )
  )

/** A store whose owner dies at its n-th step, before its end is kept (or behind it). */
export const mortal = (store: JournalStoreShape, at: number, behind: boolean): JournalStoreShape => {
  let steps = 0
  const wrap = (journal: JournalShape): JournalShape => ({
    ...journal,
    step: (key, options, run) =>
      Effect.suspend(() => {
        steps += 1
        if (steps !== at) return journal.step(key, options, run)
        return behind
          ? Effect.andThen(journal.step(key, options, run), Effect.interrupt)
          : journal.step(key, options, Effect.andThen(run, Effect.interrupt))
      })
  })
  return { ...store, own: (turn) => Effect.map(store.own(turn), wrap) }
}
