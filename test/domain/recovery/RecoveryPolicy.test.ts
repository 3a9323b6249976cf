import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { ConfigurationError } from "../../../src/domain/failure/ConfigurationError.ts"
import { describe as describePolicy, worstCaseWait } from "../../../src/domain/recovery/describe.ts"
import { presetNames } from "../../../src/domain/recovery/PolicyField.ts"
import { policyFieldNames } from "../../../src/domain/recovery/policyFields.ts"
import { wordsOf } from "../../../src/domain/recovery/policyWords.ts"
import {
  forBackground,
  presets,
  RecoveryPolicy,
  routeAt,
  type RecoveryPolicyInput
} from "../../../src/domain/recovery/RecoveryPolicy.ts"

const routes = [{ model: "large" }, { model: "small" }]

const fault = (run: () => unknown): ConfigurationError => {
  const result = Result.try(run)
  if (Result.isSuccess(result)) throw new Error("it was accepted")
  if (result.failure instanceof ConfigurationError) return result.failure
  throw result.failure
}

describe("a policy", () => {
  it("is strict where nothing is said", () => {
    const policy = new RecoveryPolicy({ routes: [{ model: "m" }] })
    assert.deepStrictEqual({ ...policy, routes: null }, {
      ...presets.strict,
      routes: null
    } as unknown as typeof policy & { routes: null })
    assert.strictEqual(policy.deadline, 300_000)
  })

  it("takes durations in any form and keeps milliseconds", () => {
    const policy = new RecoveryPolicy({
      routes,
      deadline: "2 minutes",
      hardCap: Duration.seconds(5),
      heartbeat: 250,
      backoff: { base: "1 second", cap: "10 seconds" },
      routeHealth: { coolDown: "3 seconds", ramp: 0 },
      idleTimeout: null
    })
    assert.deepStrictEqual(
      [
        policy.deadline,
        policy.hardCap,
        policy.heartbeat,
        policy.backoff.base,
        policy.backoff.cap,
        policy.backoff.factor,
        policy.routeHealth?.coolDown,
        policy.routeHealth?.ramp,
        policy.idleTimeout
      ],
      [120_000, 5_000, 250, 1_000, 10_000, 2, 3_000, 0, null]
    )
  })

  it.each<readonly [string, Record<string, unknown>]>([
    ["routes", { routes: [] }],
    ["routes[1]", { routes: [{ model: "m" }, { model: "m" }] }],
    ["routes[0].model", { routes: [{ model: "" }] }],
    ["maxAttempts", { maxAttempts: 0 }],
    ["maxAttempts", { maxAttempts: 1.5 }],
    ["deadline", { deadline: "soon" }],
    ["deadline", { deadline: 0 }],
    ["deadline", { deadline: Infinity }],
    ["initialMaxTokens", { initialMaxTokens: 70_000 }],
    ["escalatedMaxTokens", { routes: [{ model: "m", outputLimit: 32_000 }] }],
    ["initialMaxTokens", { routes: [{ model: "m", outputLimit: 4_000 }], raise: "never" }],
    ["backoff.base", { backoff: { base: "never" } }],
    ["backoff.cap", { backoff: { base: 1_000, cap: 500 } }],
    ["backoff.jitter", { backoff: { jitter: 2 } }],
    ["onCut", { onCut: "explode" }],
    ["retry[0]", { retry: ["everything"] }],
    ["compaction.keepRecentMessages", { compaction: { keepRecentMessages: 0 } }],
    ["fallbackAfter.overload", { fallbackAfter: { overload: 0 } }],
    ["maxAttemps", { maxAttemps: 3 }],
    ["fallbackAfter.overlaod", { fallbackAfter: { overlaod: 3 } }],
    ["backoff.max", { backoff: { max: 500 } }],
    ["compaction.keep", { compaction: { keep: 4 } }],
    ["minContinuationGain.token", { minContinuationGain: { token: 5 } }],
    ["routes[0].ouputLimit", { routes: [{ model: "m", ouputLimit: 32_000 }] }],
    ["routes[1]", { routes: [{ model: "m" }, null] }],
    ["backoff", { backoff: null }],
    ["compaction", { compaction: "off" }],
    ["minContinuationGain", { minContinuationGain: null }],
    ["fallbackAfter", { fallbackAfter: ["overload"] }],
    ["routeHealth", { routeHealth: 3 }],
    ["routeHealth.cooldown", { routeHealth: { cooldown: 5_000 } }],
    ["routeHealth.coolDown", { routeHealth: { coolDown: "soon" } }],
    ["routeHealth.coolDownMax", { routeHealth: { coolDownMax: "4 seconds" } }]
  ])("names %s when it is wrong", (field, input) => {
    const error = fault(() => new RecoveryPolicy({ routes, ...input } as RecoveryPolicyInput))
    assert.strictEqual(error.field, field)
    assert.include(error.message, field)
  })

  it("says what is wrong, and that null switches a span off only where it does", () => {
    const reason = (input: object) =>
      fault(() => new RecoveryPolicy({ routes, ...input } as RecoveryPolicyInput)).reason
    assert.include(reason({ deadline: -5 }), "null switches it off")
    assert.strictEqual(reason({ backoff: { base: -5 } }), "must be longer than 0 and finite")
    assert.strictEqual(reason({ routeHealth: { coolDown: -1 } }), "must be longer than 0 and finite")
    assert.strictEqual(reason({ fallbackAfter: { gone: 2 } }), "must be 1: what is gone is left at once")
    assert.strictEqual(reason({ routeHealth: { coolDwn: 3 } }), "is not a field that is known here")
  })

  it("lets a fallback's smaller limit only clamp", () => {
    const policy = new RecoveryPolicy({
      routes: [
        { model: "a", outputLimit: 64_000 },
        { model: "b", outputLimit: 1_000 }
      ]
    })
    assert.strictEqual(routeAt(policy, 1).outputLimit, 1_000)
    assert.strictEqual(routeAt(policy, 9).model, "a")
  })

  it("keeps what a spread of a preset says of every field", () => {
    for (const name of presetNames) {
      const { routes: _, ...rest } = new RecoveryPolicy({ ...presets[name], routes })
      assert.deepStrictEqual({ ...rest }, { ...presets[name] })
    }
  })

  it("has every field of the table, with words for each value of each preset", () => {
    assert.deepStrictEqual(Object.keys(new RecoveryPolicy({ routes })).sort(), ["routes", ...policyFieldNames].sort())
    for (const name of presetNames)
      for (const field of policyFieldNames) assert.isAbove(wordsOf(field, presets[name][field]).length, 0)
  })

  it("survives its own JSON", () => {
    const policy = new RecoveryPolicy({ ...RecoveryPolicy.broad, routes })
    const codec = Schema.toCodecJson(RecoveryPolicy)
    const json: unknown = JSON.parse(JSON.stringify(Schema.encodeUnknownSync(codec)(policy)))
    assert.deepStrictEqual({ ...Schema.decodeUnknownSync(codec)(json) }, { ...policy })
  })

  it("for background work has one route, no raise, no compaction, and sheds", () => {
    const policy = forBackground(new RecoveryPolicy({ ...RecoveryPolicy.broad, routes }))
    assert.deepStrictEqual(
      [policy.routes.length, policy.raise, policy.compaction.mode, policy.shedOnOverload, policy.maxAttempts],
      [1, "never", "off", true, 3]
    )
  })

  it("for background work has no more time than the caller's policy", () => {
    const deadlineOf = (deadline: Duration.Input | null) =>
      forBackground(new RecoveryPolicy({ ...RecoveryPolicy.broad, routes, deadline })).deadline
    assert.deepStrictEqual(
      [deadlineOf("10 seconds"), deadlineOf("10 minutes"), deadlineOf(null)],
      [10_000, 60_000, 60_000]
    )
  })

  it("is described with its delays and its longest wait", () => {
    const text = describePolicy(
      new RecoveryPolicy({
        routes: [
          { model: "large", contextWindow: 9 },
          { model: "small", client: "backup" }
        ]
      })
    )
    for (const part of [
      "large",
      "small (client backup)",
      "500 ms, 1 s, 2 s",
      "window 9",
      "overload 3",
      "5 min per turn"
    ])
      assert.include(text, part)
    const unattended = describePolicy(new RecoveryPolicy({ ...RecoveryPolicy.unattended, routes }))
    assert.match(unattended, /^maxAttempts +unlimited$/m)
    assert.match(unattended, /^longest backoff in all +unlimited$/m)
    assert.match(unattended, /^routeHealth +opens on overload; cool-down 5 s, at most 30 s$/m)
    assert.include(
      describePolicy(new RecoveryPolicy({ ...RecoveryPolicy.background, routes })),
      "gives up at the first"
    )
    assert.include(describePolicy(forBackground(new RecoveryPolicy({ routes }))), "never raised")
    assert.include(describePolicy(new RecoveryPolicy({ routes, deadline: "2 hours", hardCap: 1_500 })), "2 h")
  })

  it("knows the longest wait of its backoff", () => {
    assert.strictEqual(worstCaseWait(new RecoveryPolicy({ routes, maxAttempts: 3, deadline: null })), 1_875)
    assert.strictEqual(worstCaseWait(new RecoveryPolicy({ routes, deadline: 1_000 })), 1_000)
    assert.strictEqual(worstCaseWait(new RecoveryPolicy({ ...RecoveryPolicy.unattended, routes })), null)
  })
})
