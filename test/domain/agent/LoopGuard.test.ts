import { assert, describe, it } from "@effect/vitest"
import * as Guard from "../../../src/domain/agent/LoopGuard.ts"

interface Played {
  readonly warnings: ReadonlyArray<{ readonly at: number; readonly detector: string }>
  readonly broke: { readonly at: number; readonly detector: string } | null
}

type Call = readonly [name: string, args: string, result: string, polling?: boolean]

/** Judges, runs and notes calls one by one, as the loop does. */
const playCalls = (calls: ReadonlyArray<Call>): Played => {
  const warnings: Array<{ at: number; detector: string }> = []
  let state = Guard.initial
  for (const [name, args, result, polling = false] of calls) {
    const call = { name, arguments: args, polling }
    const verdict = Guard.judge(state, call)
    if (verdict._tag === "Break")
      return { warnings, broke: { at: verdict.finding.atCall, detector: verdict.finding.detector } }
    const noted = Guard.note(state, call, { isFailure: false, kind: "ok", errorTag: null, content: result })
    state = noted.state
    if (noted.warning !== null) warnings.push({ at: noted.warning.atCall, detector: noted.warning.detector })
    if (noted.broken !== null) return { warnings, broke: { at: noted.broken.atCall, detector: noted.broken.detector } }
  }
  return { warnings, broke: null }
}

const times = (n: number, make: (i: number) => Call): ReadonlyArray<Call> =>
  Array.from({ length: n }, (_, i) => make(i))

/** A small generator of its own: properties are the same in every run. */
const random = (seed: number) => {
  let state = seed + 1
  return (below: number): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return Math.floor((state / 0x80000000) * below)
  }
}

describe("fingerprints", () => {
  it.each([
    ['{"a":1,"b":2}', '{"b":2,"a":1}'],
    ['{"a":1.0}', '{"a":1}'],
    ['{"a":{"x":1,"y":[]}}', ' { "a" : {"y":[],"x":1} } ']
  ])("are equal for %s and %s", (left, right) => {
    assert.strictEqual(Guard.fingerprint("t", left), Guard.fingerprint("t", right))
  })
  it.each([
    ['{"a":[1,2]}', '{"a":[2,1]}'],
    ['{"a":"1"}', '{"a":1}'],
    ['{"id":9007199254740992}', '{"id":9007199254740993}'],
    [`{"text":"${"x".repeat(500)}1"}`, `{"text":"${"x".repeat(500)}2"}`],
    ["{cut", "{cut2"]
  ])("differ for %s and %s", (left, right) => {
    assert.notStrictEqual(Guard.fingerprint("t", left), Guard.fingerprint("t", right))
  })
  it("differ for two tools with the same arguments", () => {
    assert.notStrictEqual(Guard.fingerprint("a", "{}"), Guard.fingerprint("b", "{}"))
  })
})

describe("repeat", () => {
  it("warns at the 5th equal call and breaks at the 8th, whatever the results", () => {
    assert.deepStrictEqual(playCalls(times(20, (i) => ["t", "{}", `result ${i}`])), {
      warnings: [{ at: 5, detector: "repeat" }],
      broke: { at: 8, detector: "repeat" }
    })
  })
  it("counts whatever lies between", () => {
    const calls = times(30, (i): Call => (i % 3 === 0 ? ["t", "{}", "same"] : ["read", `{"n":${i}}`, "other"]))
    assert.deepStrictEqual(playCalls(calls), {
      warnings: [{ at: 13, detector: "repeat" }],
      broke: { at: 22, detector: "repeat" }
    })
  })
  it("forgets what has left the window of 30 calls", () => {
    const calls = times(300, (i): Call => (i % 8 === 0 ? ["t", "{}", `${i}`] : ["read", `{"n":${i}}`, "x"]))
    assert.deepStrictEqual(playCalls(calls), { warnings: [], broke: null })
  })
})

describe("ping-pong", () => {
  it.each([
    [2, 6, 8],
    [3, 6, 9],
    [4, 8, 12],
    [5, 10, 15]
  ])("of a cycle of %i warns at call %i and breaks at call %i", (length, warns, breaks) => {
    const calls = times(40, (i) => ["t", `{"n":${i % length}}`, `result ${i % length}`])
    assert.deepStrictEqual(playCalls(calls), {
      warnings: [{ at: warns, detector: "ping_pong" }],
      broke: { at: breaks, detector: "ping_pong" }
    })
  })
  it("is no cycle when the results change", () => {
    const played = playCalls(times(8, (i) => ["t", `{"n":${i % 2}}`, `result ${i}`]))
    assert.deepStrictEqual(played, { warnings: [], broke: null })
  })
  it("takes two failures as equal when kind and tag are, whatever their text", () => {
    const result = (text: string) => ({ isFailure: true, kind: "failed", errorTag: "NoMatch", content: text })
    assert.strictEqual(Guard.resultFingerprint(result("one")), Guard.resultFingerprint(result("two")))
    assert.notStrictEqual(
      Guard.resultFingerprint(result("one")),
      Guard.resultFingerprint({ ...result("one"), errorTag: "Other" })
    )
  })
})

describe("no progress", () => {
  it("breaks with the 10th equal result of a polling tool, and not before", () => {
    assert.deepStrictEqual(playCalls(times(9, () => ["status", "{}", "10%", true])), { warnings: [], broke: null })
    assert.deepStrictEqual(playCalls(times(30, () => ["status", "{}", "10%", true])), {
      warnings: [],
      broke: { at: 10, detector: "no_progress" }
    })
  })
  it("runs the call alone whose result may end the run", () => {
    let state = Guard.initial
    const call = { name: "status", arguments: "{}", polling: true }
    for (let i = 0; i < 9; i += 1) {
      assert.strictEqual(Guard.judge(state, call)._tag, "Run")
      state = Guard.note(state, call, { isFailure: false, kind: "ok", errorTag: null, content: "10%" }).state
    }
    assert.strictEqual(Guard.judge(state, call)._tag, "Alone")
  })
})

it("keeps a state that survives JSON", () => {
  let state = Guard.initial
  const call = { name: "t", arguments: '{"a":[3,1,2]}', polling: false }
  for (let i = 0; i < 6; i += 1)
    state = Guard.note(state, call, { isFailure: false, kind: "ok", errorTag: null, content: "x" }).state
  const copy = JSON.parse(JSON.stringify(state)) as Guard.LoopGuardState
  assert.deepStrictEqual(copy, state)
  assert.deepStrictEqual(Guard.judge(copy, call), Guard.judge(state, call))
  assert.strictEqual(call.arguments, '{"a":[3,1,2]}')
})

const legitimate: ReadonlyArray<(seed: number) => ReadonlyArray<Call>> = [
  // reading many files
  () => times(200, (i) => ["read", `{"path":"f${i}"}`, "text"]),
  // polling declared as such, with changing results
  () => times(60, (i) => ["status", "{}", `${i}%`, true]),
  // edit and test, the test declared polling
  () => times(60, (i): Call => (i % 2 === 0 ? ["edit", `{"n":${i}}`, "done"] : ["test", "{}", `${i} failures`, true])),
  // edit, read, test with fewer than five equal calls in the window
  (seed) => {
    const next = random(seed)
    const every = 8 + next(5)
    return times(200, (i): Call =>
      i % every === 0
        ? ["test", "{}", `run ${i}`]
        : next(2) === 0
          ? ["edit", `{"at":${i}}`, "ok"]
          : ["read", `{"path":"f${i}","from":${next(100)}}`, "text"]
    )
  },
  // the same files read again now and then
  (seed) => {
    const files = 9 + random(seed)(20)
    return times(28, (i) => ["read", `{"path":"f${i % files}"}`, `text ${i}`])
  }
]

it("raises no alarm on 1,000 legitimate patterns", () => {
  for (let seed = 0; seed < 1_000; seed += 1) {
    const calls = legitimate[seed % legitimate.length]?.(seed) ?? []
    assert.deepStrictEqual(playCalls(calls), { warnings: [], broke: null }, `pattern ${seed}`)
  }
})

it("finds every loop of cycle length 1 to 5, after any prelude", () => {
  for (let seed = 0; seed < 1_000; seed += 1) {
    const next = random(seed)
    const length = 1 + (seed % 5)
    const prelude = times(next(40), (i) => ["read", `{"path":"p${seed}-${i}"}`, "text"])
    const loop = times(60, (i) => [`tool${i % length}`, `{"x":${i % length},"s":${seed}}`, "same"])
    const played = playCalls([...prelude, ...loop])
    const expected = length === 1 ? 8 : Guard.cycleBreaksAt(length)
    assert.strictEqual(played.broke?.at, prelude.length + expected, `seed ${seed}`)
    assert.strictEqual(played.warnings.length, 1, `seed ${seed}`)
  }
})
