import { assert, it } from "@effect/vitest"
import { snapshot } from "../../../src/domain/chat/snapshot.ts"

it("is not reached by later changes, however deep", () => {
  const given = { messages: [{ role: "user", content: [{ type: "text", text: "a" }] }], params: { stop: ["x"] } }
  const taken = snapshot(given)
  const before = structuredClone(given)
  given.messages[0]?.content.push({ type: "text", text: "b" })
  given.params.stop[0] = "y"
  given.messages.pop()
  assert.deepStrictEqual(taken, before)
})

it("leaves objects of a class as they are, and ends on a circle", () => {
  const circle: Record<string, unknown> = { at: new Date(0) }
  circle["self"] = circle
  assert.strictEqual(snapshot(circle)["at"], circle["at"])
})
