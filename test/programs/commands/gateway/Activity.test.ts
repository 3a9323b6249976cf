import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { RecoveryPolicy } from "../../../../src/domain/recovery/RecoveryPolicy.ts"
import type * as ScriptedModel from "../../../../src/layers/ScriptedModel.ts"
import * as Usage from "../../../../src/domain/chat/Usage.ts"
import { makeActivity } from "../../../../src/programs/commands/gateway/Activity.ts"
import { Recovery } from "../../../../src/services/Recovery.ts"
import { scriptedWorld, toEnd } from "../../../support/world.ts"

const policy = new RecoveryPolicy({ ...RecoveryPolicy.broad, routes: [{ model: "large" }] })

/** What is told of requests, by what the library itself tells of them. */
const toldOf = (steps: ReadonlyArray<ScriptedModel.Step>, requests = 1) =>
  Effect.gen(function* () {
    const world = scriptedWorld(policy, steps)
    const one = Effect.flatMap(Recovery, (recovery) =>
      recovery.complete({ messages: [{ role: "user", content: "canary" }] })
    )
    yield* toEnd(world, Effect.all(Array.from({ length: requests }, () => Effect.exit(one))))
    const activity = makeActivity()
    for (const event of world.events) activity.see(event, "*", "chat")
    return activity
  })

describe("what a gateway tells of a request", () => {
  it.effect("is every attempt, outcome and wait, in whole milliseconds", () =>
    Effect.gen(function* () {
      const usage = { ...Usage.unknown, promptTokens: 7, completionTokens: 3 }
      const activity = yield* toldOf([
        { fail: { kind: "overloaded", status: 529 } },
        { reply: { text: "fine", usage } }
      ])
      const [trail] = activity.latest(1)
      assert.deepStrictEqual(
        trail?.moments.map(({ what }) => what),
        ["attempt", "outcome", "wait", "attempt", "outcome", "end"]
      )
      assert.deepStrictEqual([trail?.attempts, trail?.ok, trail?.ending], [2, true, "answered"])
      assert.deepStrictEqual([trail?.inputTokens, trail?.outputTokens], [7, 3])
      for (const { atMs } of trail?.moments ?? []) assert.isTrue(Number.isInteger(atMs))
      assert.isTrue(Number.isInteger(trail?.tookMs) && Number.isInteger(trail?.beganAt))
      assert.strictEqual(activity.trail(trail?.id ?? "")?.id, trail?.id)
      assert.notInclude(JSON.stringify(activity.latest(9)), "canary")
    })
  )

  it.effect("has no tokens where nobody told them", () =>
    Effect.gen(function* () {
      const [trail] = (yield* toldOf([{ fail: { kind: "invalid_request", status: 400 } }])).latest(1)
      assert.deepStrictEqual([trail?.inputTokens, trail?.outputTokens, trail?.ok], [null, null, false])
    })
  )

  it.effect("says that a route is closed, not what the machine calls it", () =>
    Effect.gen(function* () {
      const busy: ScriptedModel.Step = { fail: { kind: "overloaded", status: 529 } }
      const steps = [...Array.from({ length: 8 }, () => busy), { reply: { text: "fine" } }]
      const activity = yield* toldOf(steps, 2)
      const texts = activity.latest(9).flatMap(({ moments }) => moments.map(({ text }) => text))
      assert.isTrue(
        texts.some((text) => text === "the route is closed after failures: it waits"),
        texts.join("\n")
      )
      assert.notInclude(texts.join("\n"), "Held")
    })
  )
})
