import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { fromJsonSchema, jsonSchemaOf, tool, type RunOptions } from "../../../src/programs/agent/tool.ts"

const call = (args: string) => ({ id: "c", name: "t", arguments: args })

const made = (options: RunOptions = {}) => [
  tool({ name: "t", description: "d", parameters: Schema.Struct({}), run: () => "ran", ...options }),
  fromJsonSchema({ type: "function", function: { name: "t", parameters: {} } }, () => "ran", options)
]

describe("a tool", () => {
  it("runs alone, is judged by repetition, never runs again, asks nobody and has all the time it wants, unless told", () => {
    for (const one of made()) {
      assert.deepStrictEqual(one.traits, { parallel: false, polling: false, repeat: "never" })
      assert.isNull(one.timeoutMillis)
      assert.isFalse("settle" in one)
    }
  })

  it("has the traits that it is given", () => {
    const options = { parallel: true, polling: true, repeat: "keyed", approval: true, timeout: "2 seconds" } as const
    for (const one of made(options)) {
      assert.deepStrictEqual(one.traits, { parallel: true, polling: true, repeat: "keyed", approval: true })
      assert.strictEqual(one.timeoutMillis, 2_000)
    }
    for (const one of made({ approval: false })) assert.isFalse("approval" in one.traits)
  })

  it.effect("tells what became of a call by the key of the call, however it says so", () =>
    Effect.gen(function* () {
      for (const settle of [
        (key: string) => `done ${key}`,
        (key: string) => Effect.succeed(`done ${key}`),
        async (key: string) => `done ${key}`
      ])
        for (const one of made({ settle })) assert.strictEqual(yield* one.settle?.("k") ?? Effect.void, "done k")
      const throwing = () => {
        throw new Error("not known")
      }
      for (const one of made({ settle: throwing }))
        assert.include(String(yield* Effect.flip(one.settle?.("k") ?? Effect.void)), "not known")
    })
  )

  it.effect("gives back effects in promises in effects, as deep as five; deeper ones are values", () =>
    Effect.gen(function* () {
      const nested = (levels: number): unknown => (levels === 0 ? "found" : Effect.sync(() => nested(levels - 1)))
      const outOf = (value: unknown) => {
        const one = tool({ name: "t", description: "", parameters: Schema.Struct({}), run: () => value })
        return Effect.flatten(Effect.fromResult(one.begin(call("{}"))) as Effect.Effect<Effect.Effect<unknown>>)
      }
      assert.strictEqual(yield* outOf(nested(6)), "found")
      assert.isTrue(Effect.isEffect(yield* outOf(nested(7))))
      // A field of that name makes no promise.
      assert.deepStrictEqual(yield* outOf({ then: "later" }), { then: "later" })
    })
  )
})

describe("the arguments of a tool", () => {
  const even = Schema.Int.check(Schema.makeFilter((n) => n % 2 === 0, { message: "not\n  an even\nnumber" }))
  const strict = tool({ name: "t", description: "d", parameters: Schema.Struct({ n: even }), run: ({ n }) => n })

  it("are decoded by its schema; what is wrong with them is one line", () => {
    const fault = strict.begin(call('{"n":3}'))
    assert.isTrue(Result.isFailure(fault))
    if (!Result.isFailure(fault)) return
    assert.include(fault.failure, "not an even number")
    assert.notInclude(fault.failure, "\n")
    assert.isTrue(Result.isSuccess(strict.begin(call('{"n":4}'))))
  })

  it("are checked before the handler runs, and read where they are no JSON at all", () => {
    const named = { type: "object", properties: { n: { type: "integer" } }, required: ["n"] }
    const plain = fromJsonSchema({ type: "function", function: { name: "t", parameters: named } }, ({ n }) => n)
    for (const one of [strict, plain])
      for (const bad of ['{"n":"many"}', "{}", "[1]", '{"n":'])
        assert.isTrue(Result.isFailure(one.begin(call(bad))), bad)
  })

  it("are told to the model with the definitions they refer to, and without an empty list of them", () => {
    interface Tree {
      readonly below: ReadonlyArray<Tree>
    }
    const Tree = Schema.Struct({
      below: Schema.Array(Schema.suspend((): Schema.Codec<Tree> => Tree))
    }).annotate({ identifier: "Tree" })
    assert.property(jsonSchemaOf(Schema.Struct({ tree: Tree })), "$defs")
    assert.notProperty(jsonSchemaOf(Schema.Struct({ n: Schema.Int })), "$defs")
  })
})
