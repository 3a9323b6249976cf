import { assert, describe, it } from "@effect/vitest"
import * as ByteSize from "effect/ByteSize"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { describe as describePolicy } from "../../../src/domain/recovery/describe.ts"
import { requestSettings, settingsOutline, withVariables } from "../../../src/programs/commands/Settings.ts"
import { outline, refuseUnknown, settings, type Variables } from "../../../src/programs/commands/variables.ts"

const good: Variables = { OPENAI_API_KEY: "sk-secret-value", OPENAI_MODEL: "large", OPENAI_FALLBACK_MODEL: "small" }

const resolved = (variables: Variables) => requestSettings("strict").pipe(withVariables(variables))

const none = Option.none()
const regularFile: FileSystem.File.Info = {
  type: "File",
  mtime: none,
  atime: none,
  birthtime: none,
  dev: 0n,
  ino: none,
  mode: 0o600,
  nlink: none,
  uid: none,
  gid: none,
  rdev: none,
  size: ByteSize.bytes(1),
  blksize: none,
  blocks: none
}

/** A working folder with this `.env`. */
const folder = (dotEnv: string) =>
  FileSystem.layerNoop({
    stat: (path) => (path === ".env" ? Effect.succeed(regularFile) : Effect.die(`no ${path}`)),
    readFileString: (path) => (path === ".env" ? Effect.succeed(dotEnv) : Effect.die(`no ${path}`))
  })

describe("settings", () => {
  it.effect("give the policy, the models and the limits", () =>
    Effect.gen(function* () {
      const found = yield* resolved({
        ...good,
        HOLDFAST_PRESET: "broad",
        HOLDFAST_DEADLINE: "90 seconds",
        HOLDFAST_IDLE_TIMEOUT: "none",
        HOLDFAST_HEARTBEAT: "500",
        HOLDFAST_RESET_CAP: "2 hours",
        HOLDFAST_MAX_ATTEMPTS: "4",
        HOLDFAST_MODEL_MAX_TOKENS: "64000",
        OPENAI_BASE_URL: "http://127.0.0.1:1/v1"
      })
      const { policy } = found
      assert.deepStrictEqual(
        policy.routes.map((route) => [route.model, route.outputLimit]),
        [
          ["large", 64_000],
          ["small", 64_000]
        ]
      )
      assert.deepStrictEqual(
        [policy.deadline, policy.idleTimeout, policy.heartbeat, policy.resetCap, policy.maxAttempts],
        [90_000, null, 500, 7_200_000, 4]
      )
      assert.deepStrictEqual([found.preset, found.baseUrl], ["broad", "http://127.0.0.1:1/v1"])
      assert.strictEqual(Redacted.value(found.apiKey), "sk-secret-value")
      const alone = yield* resolved({ ...good, OPENAI_FALLBACK_MODEL: "none" })
      assert.strictEqual(alone.policy.routes.length, 1)
    })
  )

  it.effect("give each model the price it has, and no other one", () =>
    Effect.gen(function* () {
      const prices = (value: string) =>
        Effect.map(resolved({ ...good, HOLDFAST_PRICES: value }), ({ policy }) =>
          policy.routes.map((route) => route.prices)
        )
      assert.deepStrictEqual(yield* prices("large=2/10/0.5, org/x=1/1"), [
        { inputPerM: 2, outputPerM: 10, cachedInputPerM: 0.5 },
        null
      ])
      assert.deepStrictEqual(yield* prices("small=0.1/0.4,"), [null, { inputPerM: 0.1, outputPerM: 0.4 }])
    })
  )

  it.effect.each<readonly [string, Variables]>([
    ["HOLDFAST_PRICES", { HOLDFAST_PRICES: "large=2" }],
    ["HOLDFAST_PRICES", { HOLDFAST_PRICES: "large=-2/10" }],
    ["HOLDFAST_PRICES", { HOLDFAST_PRICES: "2/10" }],
    ["OPENAI_API_KEY", { OPENAI_API_KEY: undefined }],
    ["OPENAI_API_KEY", { OPENAI_API_KEY: "  " }],
    ["OPENAI_MODEL", { OPENAI_MODEL: undefined }],
    ["OPENAI_FALLBACK_MODEL", { OPENAI_FALLBACK_MODEL: undefined }],
    ["OPENAI_FALLBACK_MODEL", { OPENAI_FALLBACK_MODEL: "large" }],
    ["OPENAI_BASE_URL", { OPENAI_BASE_URL: "file:///x" }],
    ["OPENAI_BASE_URL", { OPENAI_BASE_URL: "" }],
    ["OPENAI_BASE_URL", { OPENAI_BASE_URL: "localhost" }],
    ["HOLDFAST_PRESET", { HOLDFAST_PRESET: "wild" }],
    ["HOLDFAST_MAX_ATTEMPTS", { HOLDFAST_MAX_ATTEMPTS: "many" }],
    ["HOLDFAST_MAX_ATTEMPTS", { HOLDFAST_MAX_ATTEMPTS: "0" }],
    ["HOLDFAST_MAX_CONTINUATIONS", { HOLDFAST_MAX_CONTINUATIONS: "1.5" }],
    ["HOLDFAST_MODEL_MAX_TOKENS", { HOLDFAST_MODEL_MAX_TOKENS: "0" }],
    ["HOLDFAST_CONTEXT_WINDOW", { HOLDFAST_CONTEXT_WINDOW: "0" }],
    ["HOLDFAST_DEADLINE", { HOLDFAST_DEADLINE: "soon" }],
    ["HOLDFAST_DEADLINE", { HOLDFAST_DEADLINE: "0" }]
  ])("name %s when it is missing or wrong, and show no secret", ([name, changes]) =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(resolved({ ...good, ...changes }))
      assert.strictEqual(error.field, name)
      assert.notInclude(error.message, "secret")
    })
  )

  it.effect("name everything that is missing at once, before what is wrong", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(resolved({ OPENAI_MODEL: "large", OPENAI_BASE_URL: "localhost" }))
      assert.strictEqual(error.field, "OPENAI_API_KEY, OPENAI_FALLBACK_MODEL")
      assert.include(error.reason, "or the word none")
    })
  )

  it.effect("can be outlined when nothing is set, but not when something is wrong", () =>
    Effect.gen(function* () {
      const found = yield* settingsOutline("broad").pipe(withVariables({}))
      assert.deepStrictEqual(found.notSet, ["OPENAI_API_KEY", "OPENAI_MODEL", "OPENAI_FALLBACK_MODEL"])
      assert.include(describePolicy(found.policy), "(OPENAI_MODEL is not set)")
      assert.deepStrictEqual((yield* settingsOutline("strict").pipe(withVariables(good))).notSet, [])
      const error = yield* Effect.flip(settingsOutline("strict").pipe(withVariables({ OPENAI_BASE_URL: "localhost" })))
      assert.strictEqual(error.field, "OPENAI_BASE_URL")
    })
  )

  it.effect("take flags before the environment, the environment before .env, .env before defaults", () =>
    Effect.gen(function* () {
      const file = 'OPENAI_API_KEY=of-file\nexport OPENAI_MODEL = "of # file"\nHOLDFAST_HEARTBEAT=5 # rest\n'
      const environment = { ...good, OPENAI_MODEL: undefined, OPENAI_MODEL_OLD: "x", HOLDFAST_PRESET: "broad" }
      const found = yield* settings(environment, { HOLDFAST_PRESET: "background" }, "strict").pipe(
        Effect.provide(folder(file))
      )
      assert.strictEqual(Redacted.value(found.apiKey), "sk-secret-value")
      assert.deepStrictEqual(
        [found.preset, found.policy.routes[0].model, found.policy.heartbeat, found.policy.maxAttempts],
        ["background", "of # file", 5, 3]
      )
    })
  )

  it.effect("do without a .env, and let an empty value hide a weaker one", () =>
    Effect.gen(function* () {
      const none = FileSystem.layerNoop({})
      const bare = yield* outline({ ...good }, {}, "strict").pipe(Effect.provide(none))
      assert.deepStrictEqual(bare.notSet, [])
      const hidden = yield* outline({ ...good, OPENAI_MODEL: "" }, {}, "strict").pipe(
        Effect.provide(folder("OPENAI_MODEL=weaker"))
      )
      assert.deepStrictEqual(hidden.notSet, ["OPENAI_MODEL"])
    })
  )

  it.effect("refuse a variable that is misspelt, wherever it stands", () =>
    Effect.gen(function* () {
      const unknown = { ...good, PATH: "/bin", HOLDFAST_MAX_ATTEMTPS: "3" }
      const error = yield* Effect.flip(settings(unknown, {}, "strict").pipe(Effect.provide(folder(""))))
      assert.strictEqual(error.field, "HOLDFAST_MAX_ATTEMTPS")
      assert.include(error.reason, "HOLDFAST_MAX_ATTEMPTS")
      for (const name of ["HOLDFAST_DEADLIN", "HOLDFAST_DEADLINE_MS", "HOLDFAST_1", "HOLDFAST_"]) {
        const inFile = yield* Effect.flip(outline(good, {}, "strict").pipe(Effect.provide(folder(`${name}=1`))))
        assert.strictEqual(inFile.field, name)
      }
      yield* refuseUnknown(ConfigProvider.fromEnvRecord({ ...good, HOLDFAST_MAX_ATTEMPTS: "3", HOLDFASTS: "1" }))
    })
  )
})
