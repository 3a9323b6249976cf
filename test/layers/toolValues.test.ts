import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as ToolText from "../../src/domain/agent/ToolText.ts"
import * as ToolResult from "../../src/domain/agent/ToolResult.ts"
import { fromJsonSchema, make, tool } from "../../src/layers/ToolboxLive.ts"

const ran = async (run: () => unknown): Promise<ToolResult.ToolResult> => {
  const box = await Effect.runPromise(
    make([
      tool({ name: "t", description: "d", parameters: Schema.Struct({}), run, timeout: "5 seconds" })
    ]) as Effect.Effect<Effect.Success<ReturnType<typeof make>>>
  )
  return Effect.runPromise(box.run({ id: "c", name: "t", arguments: "{}" }))
}

class Point {
  readonly x = 1
}

const cycle: Record<string, unknown> = { name: "a" }
cycle["self"] = { back: cycle }
const deep = Array.from({ length: 5_000 }).reduce<unknown>((inner) => [inner], 0)
const unfolding = Array.from({ length: 40 }).reduce<unknown>((inner) => [inner, inner], 0)

describe("a tool may give back", () => {
  it.each<readonly [string, () => unknown, string]>([
    ["a text", () => "fine", "fine"],
    ["an empty text", () => "", ""],
    ["nothing", () => undefined, ToolText.nothing],
    ["null", () => null, "null"],
    ["a number", () => 42, "42"],
    ["a truth", () => false, "false"],
    ["an object", () => ({ a: [1, { b: null }] }), '{"a":[1,{"b":null}]}'],
    ["a list", () => ["x", 1], '["x",1]'],
    ["an object without a prototype", () => Object.assign(Object.create(null) as object, { a: 1 }), '{"a":1}'],
    ["an instance with fields", () => new Point(), '{"x":1}'],
    ["a date", () => new Date(0), '"1970-01-01T00:00:00.000Z"'],
    ["a value that is left out", () => ({ a: 1, b: undefined }), '{"a":1}'],
    [
      "the same thing twice",
      () => {
        const one = { x: 1 }
        return [one, one]
      },
      '[{"x":1},{"x":1}]'
    ],
    ["a promise", () => Promise.resolve({ a: 1 }), '{"a":1}'],
    ["a promise of nothing", async () => undefined, ToolText.nothing],
    ["an effect", () => Effect.succeed(["x"]), '["x"]'],
    ["an effect of nothing", () => Effect.void, ToolText.nothing],
    ["an effect of a promise", () => Effect.succeed(Promise.resolve("fine")), "fine"],
    ["a promise of an effect", async () => Effect.succeed("fine"), "fine"],
    ["half an emoji", () => "a\ud83d", "a\ufffd"],
    ["half an emoji in an object", () => ({ a: "\ude00b" }), '{"a":"\\ude00b"}']
  ])("%s", async (_, run, content) => {
    assert.deepStrictEqual(await ran(run), { kind: "ok", content, errorTag: null })
  })
})

describe("what cannot be text is a failure", () => {
  it.each<readonly [string, () => unknown, RegExp]>([
    ["a cycle", () => cycle, /a cycle/],
    ["a BigInt", () => ({ n: 1n }), /a bigint/],
    ["a function", () => () => 1, /a function/],
    ["a function inside", () => ({ a: [() => 1] }), /a function/],
    ["a symbol", () => Symbol("s"), /a symbol/],
    ["a map", () => new Map([["a", 1]]), /a Map/],
    ["a set inside", () => ({ a: new Set([1]) }), /a Set/],
    ["bytes", () => Buffer.from("abc"), /bytes/],
    ["an answer of fetch", () => new Response("x"), /a Response/],
    ["no number", () => ({ a: Number.NaN }), /the number NaN/],
    ["levels without end", () => deep, /levels/],
    ["a value that unfolds", () => unfolding, /values/],
    ["a text that is huge", () => "x".repeat(1_000_001), /1000001 characters/],
    ["a value that is huge", () => ["x".repeat(1_000_001)], /characters/],
    [
      "a getter that throws",
      () => ({
        get a() {
          throw new Error("no")
        }
      }),
      /cannot be read/
    ],
    [
      "a toJSON that throws",
      () => ({
        toJSON: () => {
          throw new Error("no")
        }
      }),
      /no JSON value/
    ],
    ["an error as a value", () => new TypeError("odd"), /odd/],
    [
      "a throw",
      () => {
        throw new Error("thrown")
      },
      /thrown/
    ],
    [
      "a throw of a text",
      () => {
        throw "words"
      },
      /words/
    ],
    ["a rejection", () => Promise.reject(new Error("rejected")), /rejected/],
    ["a rejection with nothing", () => Promise.reject(undefined), /unknown failure/],
    ["a failed effect", () => Effect.fail(new Error("failed")), /failed/],
    ["a defect", () => Effect.die("died"), /died/]
  ])("%s", async (_, run, words) => {
    const result = await ran(run)
    assert.deepStrictEqual([result.kind, words.test(result.content)], ["failed", true])
    assert.isTrue(result.content.isWellFormed())
  })
})

it("a promise that never comes is timed out", async () => {
  const slow = fromJsonSchema({ type: "function", function: { name: "t" } }, () => new Promise(() => undefined), {
    timeout: 50
  })
  const box = await Effect.runPromise(make([slow]))
  assert.strictEqual((await Effect.runPromise(box.run({ id: "c", name: "t", arguments: "" }))).kind, "timed_out")
})

it.each(["timeOut", "concurrent", "Repeat"])("an option nobody reads is refused: %s", (name) => {
  const options = { [name]: 1 }
  const made = () => tool({ name: "t", description: "d", parameters: Schema.Struct({}), run: () => "x", ...options })
  assert.throws(made, new RegExp(`^${name} is not an option`))
  assert.throws(
    () => fromJsonSchema({ type: "function", function: { name: "t" } }, () => "x", options),
    new RegExp(`^${name} is`)
  )
})

it.each([undefined, 7, null, { a: 1 }, "a\ud83d", [true]])(
  "a toolbox of somebody else's cannot bend the history: %j",
  (content) => {
    const sound = ToolResult.sound({ kind: "ok", content: content as unknown as string, errorTag: null })
    assert.isString(sound.content)
    assert.isTrue(sound.content.isWellFormed())
  }
)
