import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { RecoveryPolicy } from "../../src/domain/recovery/RecoveryPolicy.ts"
import type { ReplyPart } from "../../src/domain/chat/ReplyPart.ts"
import * as ScriptedModel from "../../src/layers/ScriptedModel.ts"
import { Recovery } from "../../src/services/Recovery.ts"
import { scriptedWorld } from "../support/world.ts"

const policy = new RecoveryPolicy({ ...RecoveryPolicy.broad, routes: [{ model: "m" }] })
const whole: ScriptedModel.Step = { reply: { text: "Hello, world!" } }

/** What is shown of a streamed request, with a mark for everything that is dropped. */
const shown = (...steps: ReadonlyArray<ScriptedModel.Step>) =>
  Effect.gen(function* () {
    const parts: Array<ReplyPart> = []
    const fiber = yield* Effect.flatMap(Recovery, ({ stream }) =>
      Stream.runForEach(stream({ messages: [{ role: "user", content: "go" }] }), (part) =>
        Effect.sync(() => parts.push(part))
      )
    ).pipe(Effect.provide(scriptedWorld(policy, steps).layer), Effect.forkChild)
    yield* TestClock.adjust("10 minutes")
    yield* Fiber.join(fiber)
    return parts.map((part) => (part._tag === "TextDelta" ? part.text : part._tag === "Reset" ? "|" : "")).join("")
  })

describe("a scripted stream", () => {
  it.effect("breaks off behind its text", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* shown({ cut: "Hello, w" }, whole), "Hello, w|Hello, world!")
    })
  )

  it.effect("falls silent behind its text, until a timer ends it", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* shown({ stall: "Hell" }, { stall: "" }, whole), "Hell|Hello, world!")
    })
  )
})

it.effect("a scripted call breaks off or falls silent without any text", () =>
  Effect.gen(function* () {
    const { client } = ScriptedModel.make([{ cut: "Hello" }, { stall: "Hello" }])
    const ask = client.generate({ messages: [], model: "m", maxOutputTokens: 1, role: "main" })
    assert.strictEqual((yield* Effect.flip(ask))._tag, "ModelStreamInterruptedError")
    const fiber = yield* Effect.forkChild(Effect.timeoutOption(ask, "1 hour"))
    yield* TestClock.adjust("1 hour")
    assert.strictEqual((yield* Fiber.join(fiber))._tag, "None")
  })
)

it.each([
  ["(overladed) is not a kind", { kind: "overladed", status: 529 }],
  ["(overloaded) never comes with HTTP 401", { kind: "overloaded", status: 401 }],
  ["(auth) never comes with no status", { kind: "auth", status: null }]
])("a script says at once which failure cannot be: %s", (reason, fail) => {
  const steps = [whole, { fail }] as ReadonlyArray<ScriptedModel.Step>
  for (const play of [ScriptedModel.make, ScriptedModel.layer])
    assert.throws(() => play(steps), `steps[1].fail ${reason}`)
})
