import { assert, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Tracer from "effect/Tracer"
import { inspect } from "node:util"
import { canonical } from "../../../../src/domain/agent/CanonicalJson.ts"
import { fingerprint } from "../../../../src/domain/agent/LoopGuard.ts"
import { RecoveryPolicy } from "../../../../src/domain/recovery/RecoveryPolicy.ts"
import { renderFailure } from "../../../../src/domain/failure/renderFailure.ts"
import * as EventsMemory from "../../../../src/layers/stores/EventsMemory.ts"
import * as ModelSummarizer from "../../../../src/layers/ModelSummarizer.ts"
import * as OpenAiModelClient from "../../../../src/layers/provider/OpenAiModelClient.ts"
import * as RecoveryLive from "../../../../src/layers/RecoveryLive.ts"
import { Recovery } from "../../../../src/services/Recovery.ts"

it.live("D-SE-01: no key and no header is in the failure, its causes, the events, the log or a span", () =>
  Effect.gen(function* () {
    const secret = "sk-test-SECRET123456"
    const seen: Array<string> = []
    const spans: Array<Tracer.Span> = []
    const tracer = Tracer.make({
      span: (options) => {
        const span = new Tracer.NativeSpan(options)
        spans.push(span)
        return span
      }
    })
    const log = Logger.make((options) => {
      seen.push(inspect(options.message, { depth: 20 }))
    })
    // The provider quotes the key and the header back.
    const fetch = async (_input: unknown, init?: RequestInit): Promise<Response> =>
      new Response(
        JSON.stringify({
          error: {
            message: `key ${secret}, header ${new Headers(init?.headers).get("authorization")}`,
            type: "server_error"
          }
        }),
        { status: 500, headers: { "set-cookie": secret, "x-request-id": "r-1" } }
      )
    const layer = RecoveryLive.layer(new RecoveryPolicy({ routes: [{ model: "m" }] })).pipe(
      Layer.provide(ModelSummarizer.layer({ model: "m" })),
      Layer.provide(OpenAiModelClient.layer({ apiKey: secret, fetch })),
      Layer.provide(EventsMemory.layerTo((event) => Effect.sync(() => seen.push(inspect(event, { depth: 20 })))))
    )
    const failure = yield* Effect.gen(function* () {
      const recovery = yield* Recovery
      return yield* Effect.flip(
        Effect.tapError(recovery.complete({ messages: [{ role: "user", content: "a private prompt" }] }), (error) =>
          Effect.logError(error)
        )
      )
    }).pipe(Effect.provide(layer), Effect.provide(Logger.layer([log])), Effect.withTracer(tracer))
    assert.strictEqual(failure._tag, "ModelServerError")
    seen.push(
      renderFailure(failure, { providerMessage: true }),
      inspect(failure, { depth: 20, showHidden: false }),
      JSON.stringify(failure),
      Cause.pretty(Cause.fail(failure)),
      ...spans.map((span) => inspect([span.name, [...span.attributes]], { depth: 20 }))
    )
    assert.isAbove(spans.length, 0)
    assert.isAbove(seen.length, 6)
    for (const text of seen)
      for (const word of ["SECRET123456", "Bearer sk", "a private prompt"]) assert.notInclude(text, word)
  })
)

it("D-LP-04: a fingerprint ignores the order of keys, keeps the order of lists, and leaves its input alone", () => {
  assert.strictEqual(fingerprint("q", '{"a":1,"b":2}'), fingerprint("q", '{"b":2,"a":1.0}'))
  assert.notStrictEqual(fingerprint("q", '{"a":[1,2]}'), fingerprint("q", '{"a":[2,1]}'))
  const value = { a: [3, 1, 2] }
  canonical(value)
  assert.deepStrictEqual(value, { a: [3, 1, 2] })
})
