import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ConfigurationError } from "../../src/domain/failure/ConfigurationError.ts"
import { RecoveryCancelledError, RecoveryDeadlineExceeded } from "../../src/domain/failure/RecoveryError.ts"
import { RecoveryPolicy } from "../../src/domain/recovery/RecoveryPolicy.ts"
import * as ScriptedModel from "../../src/layers/ScriptedModel.ts"
import { createRecovery, type CreateOptions, type PromiseCalls, type TurnOptions } from "../../src/promise.ts"
import { Summarizer } from "../../src/services/Summarizer.ts"

const request = { messages: [{ role: "user" as const, content: "go" }] }
const whole: ScriptedModel.Step = { reply: { text: "whole" } }
const hang: ScriptedModel.Step = { run: () => Effect.never }
const limited: ScriptedModel.Step = { fail: { kind: "rate_limited", status: 429 } }
const overloaded: ScriptedModel.Step = { fail: { kind: "overloaded", status: 529 } }
const quick = { backoff: { base: 1, cap: 1 } }

const over = (steps: ReadonlyArray<ScriptedModel.Step>, more: Partial<CreateOptions> = {}) => {
  const scripted = ScriptedModel.make(steps)
  const recovery = createRecovery({
    policy: { ...quick, routes: [{ model: "large" }] },
    client: scripted.client,
    ...more
  })
  return { recovery, requests: scripted.requests }
}

/** What a promise rejects with. */
const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => Promise.reject(new Error("it was kept")),
    (cause: unknown) => cause
  )

const read = async (stream: AsyncIterable<{ readonly _tag: string }>): Promise<ReadonlyArray<string>> => {
  const tags: Array<string> = []
  for await (const part of stream) tags.push(part._tag)
  return tags
}

const cancelled = (failure: unknown): RecoveryCancelledError => {
  if (!(failure instanceof RecoveryCancelledError)) throw new Error(`it ended with ${String(failure)}`)
  return failure
}

describe("an aborted signal", () => {
  it("that fired before the call lets nothing start", async () => {
    const events: Array<string> = []
    const { recovery, requests } = over([whole, whole], { onEvent: (event) => events.push(event._tag) })
    const signal = AbortSignal.abort("changed my mind")
    const failures = [
      await failureOf(recovery.complete(request, { signal })),
      await failureOf(read(recovery.stream(request, { signal })))
    ]
    for (const failure of failures) {
      const { attempts, trail, cause } = cancelled(failure)
      assert.deepStrictEqual([attempts, trail.length, cause], [0, 0, "changed my mind"])
    }
    assert.deepStrictEqual([requests.length, events], [0, []])
    await recovery.close()
  })

  it("gives its reason as the cause, and tells of the failures before", async () => {
    let controller = new AbortController()
    const leave: ScriptedModel.Step = {
      run: () => {
        setImmediate(() => controller.abort(new Error("user left")))
        return Effect.never
      }
    }
    const { recovery } = over([limited, leave, limited, leave])
    const outcomes: Array<RecoveryCancelledError> = []
    for (const begin of [
      (signal: AbortSignal) => recovery.complete(request, { signal }),
      (signal: AbortSignal) => read(recovery.stream(request, { signal }))
    ]) {
      controller = new AbortController()
      outcomes.push(cancelled(await failureOf(begin(controller.signal))))
    }
    for (const { attempts, trail, cause, firstCause, guidance } of outcomes) {
      assert.deepStrictEqual([attempts, trail.map((entry) => entry.outcome)], [2, ["rate_limited", "interrupted"]])
      assert.propertyVal(cause, "message", "user left")
      assert.propertyVal(firstCause, "_tag", "ModelRateLimitError")
      assert.include(guidance, "cancelled by its caller")
    }
    await recovery.close()
  })
})

describe("closing", () => {
  it("cancels what runs, and a later call is refused with a typed failure", async () => {
    const { recovery } = over([hang, hang, whole])
    const call = failureOf(recovery.complete(request))
    const stream = failureOf(read(recovery.stream(request)))
    await new Promise(setImmediate)
    await new Promise(setImmediate)
    await recovery.close()
    const failures = [
      await call,
      await stream,
      await failureOf(recovery.complete(request)),
      await failureOf(read(recovery.stream(request)))
    ].map(cancelled)
    assert.deepStrictEqual(
      failures.map((failure) => failure.attempts),
      [1, 1, 0, 0]
    )
    for (const failure of failures) assert.include(failure.guidance, "closed")
    await recovery.close()
  })
})

describe("making a recovery", () => {
  const policy = { routes: [{ model: "m" }] }
  const client = ScriptedModel.make([]).client
  const bad = (options: unknown): string => {
    try {
      createRecovery(options as CreateOptions)
    } catch (cause) {
      if (cause instanceof ConfigurationError) return cause.field
      throw cause
    }
    return "none"
  }
  it.each([
    ["client", { policy }],
    ["client", { policy, client: {} }],
    ["routes[0].client", { policy: { routes: [{ model: "m", client: "b" }] }, client }],
    ["clients.b", { policy, client, clients: { b: client } }],
    [
      "clients.b",
      { policy: { routes: [{ model: "m", client: "b" }] }, client, clients: { b: ScriptedModel.layer([]) } }
    ],
    ["policy", { client }],
    ["none", { policy, client }],
    ["none", { policy, client: ScriptedModel.layer([]) }]
  ])("names the field that cannot work at once: %s", (field, options) => {
    assert.strictEqual(bad(options), field)
  })
})

describe("a call", () => {
  it("takes fields of the policy and a deadline of its own, and refuses bad ones", async () => {
    const { recovery, requests } = over([limited, whole, hang])
    assert.propertyVal(await failureOf(recovery.complete(request, { policy: { retry: [] } })), "status", 429)
    await recovery.complete(request, { policy: { initialMaxTokens: 77 } })
    assert.strictEqual(requests[1]?.maxOutputTokens, 77)
    const late = await failureOf(recovery.complete(request, { deadline: "20 millis" }))
    assert.propertyVal(late, "_tag", "RecoveryDeadlineExceeded")
    const odd = { policy: { maxAttempts: 0 } }
    assert.propertyVal(await failureOf(recovery.complete(request, odd)), "field", "maxAttempts")
    assert.propertyVal(await failureOf(read(recovery.stream(request, odd))), "field", "maxAttempts")
    await recovery.close()
  })

  it("stays on the route its turn has moved to; the next turn begins with the first one", async () => {
    const { recovery, requests } = over([overloaded, overloaded, overloaded, whole, whole, whole, whole], {
      policy: { ...quick, routes: [{ model: "large" }, { model: "small" }] }
    })
    await recovery.turn(async (turn) => {
      await turn.complete(request)
      await read(turn.stream(request))
    })
    await recovery.turn((turn) => turn.complete(request))
    await recovery.complete(request)
    assert.deepStrictEqual(
      requests.slice(3).map(({ model }) => model),
      ["small", "small", "large", "large"]
    )
    await recovery.close()
  })

  it("gives the calls of a turn the deadline of the turn, whatever the policy says of its own", async () => {
    const reply = ScriptedModel.makeReply({ text: "whole" })
    const slow: ScriptedModel.Step = { run: () => Effect.delay(Effect.succeed(reply), 200) }
    const { recovery } = over([slow, slow, slow, slow], {
      policy: { ...RecoveryPolicy.broad, ...quick, routes: [{ model: "large" }] }
    })
    const two = async ({ complete }: PromiseCalls) => [await complete(request), await complete(request)]
    assert.strictEqual((await recovery.turn(two)).length, 2)
    const failure = await failureOf(recovery.turn(two, { deadline: 300 }))
    assert.instanceOf(failure, RecoveryDeadlineExceeded)
    const odd = await failureOf((async () => recovery.turn(two, { deadlin: 300 } as TurnOptions))())
    assert.propertyVal(odd, "field", "deadlin")
    await recovery.close()
  })

  it("is not failed by a listener that throws or rejects", async () => {
    for (const onEvent of [
      () => {
        throw new Error("broken listener")
      },
      () => Promise.reject(new Error("broken listener"))
    ]) {
      const { recovery } = over([whole], { onEvent })
      assert.strictEqual((await recovery.complete(request)).text, "whole")
      await recovery.close()
    }
  })

  it("summarises with the summarizer it was given", async () => {
    const summarizer = Layer.succeed(
      Summarizer,
      Summarizer.of({
        summarize: () =>
          Effect.succeed({
            text: "in short",
            usage: {
              promptTokens: null,
              completionTokens: null,
              cachedTokens: null,
              cacheWriteTokens: null,
              reasoningTokens: null
            }
          })
      })
    )
    const tooLong: ScriptedModel.Step = { fail: { kind: "prompt_too_long", status: 400, code: "prompt_too_long" } }
    const { recovery, requests } = over([tooLong, whole], {
      summarizer,
      policy: { routes: [{ model: "m" }], compaction: { keepRecentMessages: 1 } }
    })
    const messages = ["a", "b", "c"].map((content) => ({ role: "user" as const, content }))
    await recovery.complete({ messages })
    assert.include(JSON.stringify(requests[1]?.messages), "in short")
    await recovery.close()
  })

  it("is held up by the route health it shares, and not with one of its own", async () => {
    const sick = [overloaded, overloaded, overloaded, whole, whole]
    const policy = { ...RecoveryPolicy.broad, ...quick, routes: [{ model: "large" }, { model: "small" }] }
    const first = async (health: "shared" | "own"): Promise<string | undefined> => {
      const one = ScriptedModel.make(sick)
      const client = { ...one.client, identity: `route health ${health}` }
      const before = createRecovery({ policy, client, health })
      await before.complete(request)
      const after = createRecovery({ policy, client, health })
      await after.complete(request)
      await Promise.all([before.close(), after.close()])
      return one.requests.at(-1)?.model
    }
    assert.strictEqual(await first("shared"), "small")
    assert.strictEqual(await first("own"), "large")
  })
})

it("says so when a stream is read twice", async () => {
  const { recovery, requests } = over([whole, whole])
  const stream = recovery.stream(request)
  assert.strictEqual((await read(stream)).at(-1), "Finish")
  assert.propertyVal(await failureOf(read(stream)), "field", "stream")
  assert.strictEqual(requests.length, 1)
  await recovery.close()
})

it("tells the usage of every request of a joined reply, which itself has the last one's", async () => {
  const usageOf = (promptTokens: number, completionTokens: number) => ({
    promptTokens,
    completionTokens,
    cachedTokens: null,
    cacheWriteTokens: null,
    reasoningTokens: null
  })
  const seen: Array<readonly [number | null, number | null]> = []
  const { recovery } = over(
    [
      { reply: { text: "Once ", finishReason: "length", usage: usageOf(10, 100) } },
      { reply: { text: "Once upon ", finishReason: "length", usage: usageOf(10, 200) } },
      { reply: { text: "a time", usage: usageOf(220, 5) } }
    ],
    {
      policy: {
        routes: [{ model: "m", prices: { inputPerM: 1, outputPerM: 10 } }],
        initialMaxTokens: 100,
        escalatedMaxTokens: 200
      },
      onEvent: (event) => {
        if (event._tag === "UsageSeen") seen.push([event.usage.completionTokens, event.costUsd])
      }
    }
  )
  const reply = await recovery.complete(request)
  assert.deepStrictEqual([reply.text, reply.usage.completionTokens], ["Once upon a time", 5])
  assert.deepStrictEqual(
    seen.map(([tokens]) => tokens),
    [100, 200, 5]
  )
  for (const [, cost] of seen) assert.isNumber(cost)
  await recovery.close()
})

it("refuses an option nobody knows, or of another kind, before anything is sent", async () => {
  // As JavaScript brings them.
  const loose = (options: object): object => options
  for (const [field, options] of Object.entries({
    onEvnt: { onEvnt: () => {} },
    health: { health: "onw" }
  }))
    assert.throws(() => over([], loose(options)), ConfigurationError, field)
  const { recovery, requests } = over([whole])
  for (const [field, options] of Object.entries({
    deadlin: { deadlin: "1 second" },
    maxAttempts: { maxAttempts: 1 },
    signal: { signal: 3 }
  })) {
    for (const failed of [
      await failureOf(recovery.complete(request, loose(options))),
      await failureOf(read(recovery.stream(request, loose(options))))
    ])
      assert.isTrue(failed instanceof ConfigurationError && failed.field === field)
  }
  assert.strictEqual(requests.length, 0)
  await recovery.close()
})
