import { assert, describe, it } from "@effect/vitest"
import { turnTaken } from "../../../src/domain/agent/turnTaken.ts"

const owner = "process 7 on here"

describe("taking a turn up", () => {
  it.each([
    { what: "a new turn", holder: null, restarts: 0, kept: 0, facts: 0, then: [false, 0, false] },
    {
      what: "a turn that was put down in order",
      holder: null,
      restarts: 4,
      kept: 3,
      facts: 3,
      then: [false, 0, false]
    },
    { what: "a death with nothing new", holder: owner, restarts: 0, kept: 3, facts: 3, then: [true, 1, false] },
    { what: "a death after a new fact", holder: owner, restarts: 9, kept: 3, facts: 4, then: [true, 0, false] },
    {
      what: "a death after facts were forgotten",
      holder: owner,
      restarts: 9,
      kept: 3,
      facts: 2,
      then: [true, 0, false]
    },
    { what: "the ninth death in a row", holder: owner, restarts: 8, kept: 3, facts: 3, then: [true, 9, false] },
    { what: "the tenth death in a row", holder: owner, restarts: 9, kept: 3, facts: 3, then: [true, 10, true] },
    { what: "one more after that", holder: owner, restarts: 10, kept: 3, facts: 3, then: [true, 11, true] }
  ])("$what -> restarted, restarts, stuck: $then", ({ holder, restarts, kept, facts, then }) => {
    const taken = turnTaken({ holder, restarts, facts: kept }, facts)
    assert.deepStrictEqual([taken.restarted, taken.restarts, taken.isStuck], then)
  })
})
