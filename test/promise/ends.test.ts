import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import type { ModelPart } from "../../src/domain/chat/ModelReply.ts"
import { RecoveryPolicy } from "../../src/domain/recovery/RecoveryPolicy.ts"
import type { ReplyPart } from "../../src/domain/chat/ReplyPart.ts"
import * as ScriptedModel from "../../src/layers/ScriptedModel.ts"
import { createRecovery, type CreateOptions } from "../../src/promise.ts"
import { ModelClient } from "../../src/services/ModelClient.ts"

const policy = { ...RecoveryPolicy.strict, routes: [{ model: "m" }] } as const
const request = { messages: [{ role: "user", content: "go" }] } as const

/** A provider that never comes to an end, and how many of its answers are open. */
const endless = () => {
  let open = 0
  const parts = Stream.concat(
    Stream.make<ReadonlyArray<ModelPart>>({ _tag: "Text", text: "a" }, { _tag: "Text", text: "b" }),
    Stream.never
  )
  const held = <A>(use: Effect.Effect<A>): Effect.Effect<A> =>
    Effect.acquireUseRelease(
      Effect.sync(() => {
        open += 1
      }),
      () => use,
      () =>
        Effect.sync(() => {
          open -= 1
        })
    )
  const client = ModelClient.of({
    generate: () => held(Effect.never),
    stream: () =>
      Stream.unwrap(
        Effect.as(
          Effect.acquireRelease(
            Effect.sync(() => {
              open += 1
            }),
            () =>
              Effect.sync(() => {
                open -= 1
              })
          ),
          parts
        )
      )
  })
  return { open: () => open, client: Layer.succeed(ModelClient, client) }
}

const make = ({ client }: Pick<CreateOptions, "client">) => createRecovery({ policy, client })

const tagOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => "ended",
    (error: { readonly _tag?: string }) => error._tag ?? String(error)
  )

const read = async (parts: AsyncIterable<ReplyPart>, each: (seen: number) => Promise<void> | void): Promise<void> => {
  let seen = 0
  for await (const _ of parts) await each((seen += 1))
}

describe("close", () => {
  it("cancels a stream that is being read, and waits for its provider", async () => {
    const provider = endless()
    const recovery = make(provider)
    const reading = tagOf(read(recovery.stream(request), () => undefined))
    while (provider.open() === 0) await new Promise((resolve) => setImmediate(resolve))
    await recovery.close()
    assert.strictEqual(provider.open(), 0)
    assert.strictEqual(await reading, "RecoveryCancelledError")
  })

  it("may be called from the loop over a stream, and with a stream that nobody reads on", async () => {
    const provider = endless()
    const recovery = make(provider)
    await recovery.stream(request)[Symbol.asyncIterator]().next()
    const reading = tagOf(read(recovery.stream(request), (seen) => (seen === 1 ? recovery.close() : undefined)))
    assert.strictEqual(await reading, "RecoveryCancelledError")
    assert.strictEqual(provider.open(), 0)
  })

  it("cancels a call without a stream", async () => {
    const provider = endless()
    const recovery = make(provider)
    const asking = tagOf(recovery.complete(request))
    while (provider.open() === 0) await new Promise((resolve) => setImmediate(resolve))
    await recovery.close()
    assert.deepStrictEqual([await asking, provider.open()], ["RecoveryCancelledError", 0])
  })
})

describe("a stream", () => {
  it.each(["left early", "aborted", "aborted while nobody reads"])("that is %s leaves nothing open", async (how) => {
    const provider = endless()
    const recovery = make(provider)
    const abort = new AbortController()
    const parts = recovery.stream(request, { signal: abort.signal })[Symbol.asyncIterator]()
    assert.deepInclude(await parts.next(), { done: false })
    if (how === "left early") await parts.return?.()
    else {
      const next = how === "aborted" ? (await parts.next(), tagOf(parts.next())) : null
      abort.abort()
      for (let turn = 0; turn < 100 && provider.open() > 0; turn += 1)
        await new Promise((resolve) => setImmediate(resolve))
      if (next !== null) assert.strictEqual(await next, "RecoveryCancelledError")
    }
    assert.strictEqual(provider.open(), 0)
    await recovery.close()
  })

  it("gives all parts in order, the last one Finish", async () => {
    const recovery = make({ client: ScriptedModel.layer([{ reply: { text: "one two three" } }]) })
    const seen: Array<ReplyPart> = []
    for await (const part of recovery.stream(request)) seen.push(part)
    assert.strictEqual(seen.map((part) => (part._tag === "TextDelta" ? part.text : "")).join(""), "one two three")
    assert.strictEqual(seen.at(-1)?._tag, "Finish")
    await recovery.close()
  })
})
