import { assert, it } from "@effect/vitest"
import { giveUp, type RejectionStatus } from "../../../../src/programs/commands/simulate/Behaviour.ts"
import { peerBehaviour, type PeerName } from "../../../../src/programs/commands/simulate/Peers.ts"

/** Waits of one request that fails again and again; the last one is the end. */
const waits = (name: PeerName, status: RejectionStatus, hintMillis: number, chance: number): ReadonlyArray<number> => {
  const behaviour = peerBehaviour(name, 1, () => chance)
  const found: Array<number> = []
  do found.push(behaviour.failed(0, status, hintMillis, 0))
  while (found.at(-1) !== giveUp && found.length < 20)
  return found
}

it.each([
  { peer: "openai", chance: 0, then: [500, 1_000, giveUp] },
  { peer: "openai", chance: 1, then: [375, 750, giveUp] },
  { peer: "anthropic", chance: 0, then: [500, 1_000, giveUp] },
  { peer: "anthropic", chance: 1, then: [375, 750, giveUp] },
  { peer: "ai", chance: 0, then: [2_000, 4_000, giveUp] },
  { peer: "ai", chance: 1, then: [2_000, 4_000, giveUp] },
  { peer: "langchain", chance: 0, then: [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, giveUp] },
  { peer: "langchain", chance: 1, then: [2_000, 4_000, 8_000, 16_000, 32_000, 64_000, giveUp] },
  { peer: "litellm", chance: 0, then: [500, 1_000, giveUp] },
  { peer: "litellm", chance: 1, then: [1_250, 1_750, giveUp] }
] as const)("$peer waits $then at an overload with chance $chance", ({ peer, chance, then }) => {
  assert.deepStrictEqual(waits(peer, 529, -1, chance), then)
})

it.each([
  { peer: "openai", hint: 60_000, first: 60_000 },
  { peer: "openai", hint: 60_001, first: 500 },
  { peer: "anthropic", hint: 86_400_000, first: 86_400_000 },
  { peer: "anthropic", hint: 2 ** 31 - 1, first: 2 ** 31 - 1 },
  { peer: "anthropic", hint: 2 ** 31, first: 500 },
  { peer: "ai", hint: 59_999, first: 59_999 },
  { peer: "ai", hint: 60_000, first: 2_000 },
  { peer: "langchain", hint: 10_000, first: 1_000 },
  { peer: "litellm", hint: 60_000, first: 60_000 },
  { peer: "litellm", hint: 60_001, first: 500 },
  { peer: "openai", hint: -1, first: 500 },
  { peer: "litellm", hint: -1, first: 500 },
  { peer: "langchain", hint: -1, first: giveUp }
] as const)("$peer told to wait $hint ms by a 429 waits $first ms", ({ peer, hint, first }) => {
  assert.strictEqual(waits(peer, 429, hint, 0)[0], first)
})

it("litellm spreads a hint over three quarters of a second, the others follow it to the millisecond", () => {
  assert.strictEqual(waits("litellm", 429, 10_000, 0.5)[0], 10_375)
  for (const peer of ["openai", "anthropic", "ai"] as const)
    assert.strictEqual(waits(peer, 429, 10_000, 0.5)[0], 10_000)
})
