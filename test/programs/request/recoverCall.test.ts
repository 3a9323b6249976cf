import { APIError as AnthropicError } from "@anthropic-ai/sdk"
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import { APIConnectionError, APIError, APIUserAbortError } from "openai"
import { ConfigurationError } from "../../../src/domain/failure/ConfigurationError.ts"
import type { RecoveryEvent } from "../../../src/domain/recovery/RecoveryEvent.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import type { RecoverCallOptions } from "../../../src/programs/request/recoverCall.ts"
import { recoverTransient } from "../../../src/programs/request/singleRoad.ts"
import { RecoveryEvents } from "../../../src/services/RecoveryEvents.ts"

const policy = { ...RecoveryPolicy.broad, routes: [{ model: "embed" }] }

/** What the SDKs throw for an answer, made by the SDKs. */
const openAi = (status: number, error: object, headers: Record<string, string> = {}) =>
  APIError.generate(status, { error }, undefined, new Headers(headers))
const anthropic = (status: number, type: string, headers: Record<string, string> = {}) =>
  AnthropicError.generate(status, { type: "error", error: { type, message: "m" } }, undefined, new Headers(headers))

/** A call that fails with these errors in order and then gives its value. */
const failing = (...errors: ReadonlyArray<unknown>) => {
  const sent = { count: 0 }
  const call = Effect.suspend((): Effect.Effect<string, unknown> => {
    sent.count += 1
    return sent.count <= errors.length ? Effect.fail(errors[sent.count - 1]) : Effect.succeed("vector")
  })
  return { sent, call }
}

const ended = <A, E>(effect: Effect.Effect<A, E>, time: Duration.Input = "10 minutes") =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(Effect.result(effect))
    yield* TestClock.adjust(time)
    return yield* Fiber.join(fiber)
  })

describe("any call, recovered", () => {
  it.effect.each<{ readonly name: string; readonly error: unknown }>([
    { name: "429 of OpenAI", error: openAi(429, { code: "rate_limit_exceeded" }) },
    { name: "503 of OpenAI", error: openAi(503, {}) },
    { name: "529 of Anthropic", error: anthropic(529, "overloaded_error") },
    { name: "500 of Anthropic", error: anthropic(500, "api_error") },
    { name: "a lost line of an SDK", error: new APIConnectionError({ cause: new Error("other side closed") }) },
    { name: "a lost line of fetch", error: new TypeError("fetch failed", { cause: { code: "ECONNRESET" } }) },
    { name: "a time-out of a signal", error: new DOMException("late", "TimeoutError") },
    { name: "an error in an Effect's wrapping", error: new Cause.UnknownError(openAi(500, {})) },
    {
      name: "an answer of effect/http",
      error: { _tag: "HttpClientError", reason: { _tag: "StatusCodeError", response: { status: 503, headers: {} } } }
    },
    {
      name: "an answer as another client keeps it",
      error: { statusCode: 429, responseHeaders: { "retry-after": "1" }, responseBody: "{}" }
    }
  ])("sends again after $name", ({ error }) =>
    Effect.gen(function* () {
      const { call, sent } = failing(error)
      const result = yield* ended(recoverTransient(call, { policy }))
      assert.deepInclude(result, { _tag: "Success", success: "vector" })
      assert.strictEqual(sent.count, 2)
    })
  )

  it.effect.each<{ readonly name: string; readonly error: unknown }>([
    { name: "a bad key", error: openAi(401, { code: "invalid_api_key" }) },
    { name: "a bad request", error: openAi(400, { code: "invalid_value", param: "input" }) },
    { name: "a used-up quota", error: openAi(429, { code: "insufficient_quota" }) },
    { name: "an input that is too long", error: openAi(400, { code: "context_length_exceeded" }) },
    { name: "a mistake of a program", error: new TypeError("x is not a function") },
    { name: "a call its own caller took back", error: new APIUserAbortError() },
    { name: "a text that was thrown", error: "no" },
    { name: "nothing that was thrown", error: undefined }
  ])("hands on $name at once, unchanged", ({ error }) =>
    Effect.gen(function* () {
      const { call, sent } = failing(error)
      const result = yield* ended(recoverTransient(call, { policy }))
      assert.strictEqual(result._tag === "Failure" ? result.failure : "none", error)
      assert.strictEqual(sent.count, 1)
    })
  )

  it.effect("waits as long as the provider asked, to the millisecond", () =>
    Effect.gen(function* () {
      const { call, sent } = failing(openAi(429, { code: "rate_limit_exceeded" }, { "retry-after": "9" }))
      const exact = { ...RecoveryPolicy.strict, routes: [{ model: "embed" }] }
      const fiber = yield* Effect.forkChild(recoverTransient(call, { policy: exact }))
      yield* TestClock.adjust("8999 millis")
      assert.strictEqual(sent.count, 1)
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(sent.count, 2)
      assert.strictEqual(yield* Fiber.join(fiber), "vector")
    })
  )

  it.effect("gives up with a typed failure at the deadline and at the last attempt, with the trail", () =>
    Effect.gen(function* () {
      const many = Array.from({ length: 50 }, () => openAi(500, {}))
      const attempts = yield* ended(recoverTransient(failing(...many).call, { policy: { ...policy, maxAttempts: 3 } }))
      assert.deepInclude(attempts._tag === "Failure" ? attempts.failure : {}, {
        _tag: "RecoveryRetriesExhausted",
        attempts: 3
      })
      const late = yield* ended(
        recoverTransient(failing(...many).call, { policy: { ...policy, deadline: "5 seconds" } })
      )
      const failure = late._tag === "Failure" ? late.failure : null
      assert.deepInclude(failure, { _tag: "RecoveryDeadlineExceeded", lastStatus: 500 })
    })
  )

  it.effect("ends an attempt that takes too long, and the whole call at its deadline", () =>
    Effect.gen(function* () {
      let ends = 0
      const silent = Effect.onInterrupt(Effect.never, () =>
        Effect.sync(() => {
          ends += 1
        })
      )
      const given: RecoverCallOptions = { policy: { ...policy, attemptTimeout: "2 seconds", deadline: "15 seconds" } }
      const result = yield* ended(recoverTransient(silent, given))
      assert.deepInclude(result._tag === "Failure" ? result.failure : {}, { _tag: "RecoveryDeadlineExceeded" })
      assert.isAbove(ends, 1)
    })
  )

  it.effect("falls back to the next model after overloads, and gives the call its name", () =>
    Effect.gen(function* () {
      const models: Array<string> = []
      const call = ({ model }: { readonly model: string }) =>
        Effect.suspend(() => {
          models.push(model)
          return model === "large" ? Effect.fail(anthropic(529, "overloaded_error")) : Effect.succeed(model)
        })
      const routes = [{ model: "large" }, { model: "small" }]
      const result = yield* ended(recoverTransient(call, { policy: { ...RecoveryPolicy.strict, routes } }))
      assert.deepInclude(result, { success: "small" })
      assert.deepStrictEqual(models, ["large", "large", "large", "small"])
    })
  )

  it.effect("reads errors by a function of the caller's, and tells its events", () =>
    Effect.gen(function* () {
      const seen: Array<RecoveryEvent> = []
      const { call } = failing({ mine: 1 })
      const result = yield* ended(
        Effect.provideService(recoverTransient(call, { policy, errorOf: () => null }), RecoveryEvents, {
          emit: (event) => Effect.sync(() => void seen.push(event)),
          events: Stream.empty
        })
      )
      assert.deepStrictEqual(result._tag === "Failure" ? result.failure : null, { mine: 1 })
      assert.deepStrictEqual(
        seen.map(({ _tag }) => _tag).filter((tag) => tag !== "UsageSeen"),
        ["Started", "AttemptStarted", "Transitioned", "Finished"]
      )
    })
  )

  it("refuses what does not fit before anything is sent", () => {
    const fieldOf = (options: object): string => {
      try {
        void recoverTransient(Effect.void, options as RecoverCallOptions<never>)
        return "none"
      } catch (error) {
        return error instanceof ConfigurationError ? error.field : String(error)
      }
    }
    assert.strictEqual(fieldOf({ policy, profil: 1 }), "profil")
    assert.strictEqual(fieldOf({ policy: { ...policy, routes: [{ model: "a" }, { model: "b" }] } }), "routes")
    assert.strictEqual(fieldOf({ policy: { ...policy, deadline: -1 } }), "deadline")
  })

  it.effect("leaves interruption as it is", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(recoverTransient(Effect.never, { policy }))
      yield* TestClock.adjust("1 second")
      yield* Fiber.interrupt(fiber)
      const exit = yield* Fiber.await(fiber)
      assert.isTrue(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
    })
  )
})
