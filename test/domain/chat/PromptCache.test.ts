import { assert, it } from "@effect/vitest"
import type { Message, ToolSpec } from "../../../src/domain/chat/Message.ts"
import { latch, maxMarkers, noMarkers, place } from "../../../src/domain/chat/PromptCache.ts"

const tools: ReadonlyArray<ToolSpec> = [{ type: "function", function: { name: "t" } }]
const system: Message = { role: "system", content: "rules" }
const rounds = (n: number): ReadonlyArray<Message> =>
  Array.from({ length: n }, (_, i): ReadonlyArray<Message> => [
    { role: "user", content: `q${i}` },
    { role: "assistant", content: `a${i}` }
  ]).flat()
const ask: Message = { role: "user", content: "now" }

it("marks tools, system and the last two stretches, at most four in all", () => {
  const placed = place({ messages: [system, ...rounds(9), ask], tools }, { markers: true, ttl: "1h" })
  assert.deepStrictEqual(placed, {
    tools: "1h",
    system: "1h",
    messages: [
      { index: 17, ttl: "1h" },
      { index: 19, ttl: "1h" }
    ]
  })
})

it("never exceeds the cap, whatever is there", () => {
  for (const withTools of [[], tools])
    for (const withSystem of [[], [system]])
      for (let n = 0; n < 6; n += 1) {
        const placed = place(
          { messages: [...withSystem, ...rounds(n), ask], tools: withTools },
          { markers: true, ttl: "5m" }
        )
        const count = placed.messages.length + (placed.tools === null ? 0 : 1) + (placed.system === null ? 0 : 1)
        assert.isAtMost(count, maxMarkers)
        assert.isAtLeast(count, 1)
      }
})

it("marks nothing for a provider without markers, or without a lifetime", () => {
  assert.deepStrictEqual(place({ messages: [ask], tools }, { markers: false, ttl: "1h" }), noMarkers)
  assert.deepStrictEqual(place({ messages: [ask], tools }, { markers: true, ttl: null }), noMarkers)
})

it("keeps the lifetime the session began with", () => {
  assert.strictEqual(latch(latch(null, "5m"), "1h"), "5m")
  assert.strictEqual(latch(latch(null, null), "1h"), "1h")
})

it("marks the end of a stretch of the user's messages, not its middle", () => {
  const messages: ReadonlyArray<Message> = [ask, ask, { role: "assistant", content: "a" }, ask, ask, ask]
  assert.deepStrictEqual(place({ messages, tools: [] }, { markers: true, ttl: "5m" }).messages, [
    { index: 1, ttl: "5m" },
    { index: 5, ttl: "5m" }
  ])
})
