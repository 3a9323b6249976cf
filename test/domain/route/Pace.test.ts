import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import {
  initialPace,
  isWaiting,
  onRefusal,
  onTaken,
  Pace,
  paceAt,
  placeIn,
  waitFor
} from "../../../src/domain/route/Pace.ts"
import { runs } from "../../support/runs.ts"

/** The pace after so many calls have taken a place at one instant. */
const taken = (pace: Pace, calls: number, now = 0): Pace => {
  const at = paceAt(pace, now, 0)
  return { ...at, last: at.last + calls }
}

/** How many of those that wait may have left at an instant. */
const gone = (pace: Pace, now: number): number => Math.min(pace.last, Math.floor(paceAt(pace, now, 0).clock + 1e-9))

interface Refused {
  readonly from: number
  readonly to: number
  readonly at: number
  readonly hintMillis?: number
  readonly isAgain?: boolean
}

/** The pace after the calls of these places, which left at one instant, were refused. */
const refused = (pace: Pace, { from, to, at, hintMillis = 1_000, isAgain = false }: Refused): Pace =>
  Array.from({ length: to - from + 1 }, (_, i) => from + i).reduce(
    (before, place) => onRefusal(paceAt(before, at, 0), { place, tookMillis: 0, hintMillis, isAgain }, at),
    pace
  )

const fresh = initialPace(0)
/** Two hundred at once, the first twenty taken and the next thirty refused. */
const limited = refused(taken(fresh, 200), { from: 21, to: 50, at: 30 })

describe("a burst", () => {
  it("of two dozen leaves at once, and of more doubles in a tenth of a second", () => {
    const burst = taken(fresh, 200)
    assert.deepStrictEqual(
      [0, 100, 200, 300, 400].map((now) => gone(burst, now)),
      [24, 48, 96, 192, 200]
    )
    assert.strictEqual(waitFor(burst, 24), 0)
    assert.approximately(waitFor(burst, 48), 100, 1e-6)
    assert.approximately(waitFor(burst, 200), 306, 1)
  })

  it("goes faster with every call that is taken", () => {
    const burst = taken(fresh, 200)
    assert.strictEqual(onTaken(burst).clock, burst.clock + 1)
    assert.strictEqual(onTaken(fresh), fresh)
  })

  it("is not used up by calls of which each is taken before the next one leaves, however fast they are", () => {
    let pace = fresh
    for (let call = 0; call < 1_000; call += 1) {
      const place = placeIn(pace, null)
      assert.strictEqual(waitFor(pace, place), 0, `call ${call}`)
      pace = onTaken({ ...pace, last: place })
    }
    assert.isAtMost(pace.clock - pace.last, 24)
  })

  it("is as large as what the route takes in a second", () => {
    const busy = paceAt(fresh, 1_000, 500)
    assert.isFalse(isWaiting({ ...busy, last: 500 }))
    assert.isTrue(isWaiting({ ...busy, last: 501 }))
  })

  it("is over when everybody has left: the next one begins anew", () => {
    const later = taken(paceAt(taken(fresh, 200), 10_000, 0), 200, 10_000)
    assert.strictEqual(gone(later, 10_000), 224)
    assert.strictEqual(gone(later, 10_100), 248)
  })

  it("never holds a steady load, however long", () => {
    let pace = fresh
    for (let now = 0; now < 60_000; now += 10) {
      pace = taken(pace, 1, now)
      assert.isFalse(isWaiting(pace))
    }
  })
})

describe("a limiter", () => {
  it("shows in refusals in a row behind calls that were taken, while others wait", () => {
    const burst = taken(fresh, 200)
    assert.isNull(refused(burst, { from: 21, to: 27, at: 30 }).limiter)
    assert.isNotNull(refused(burst, { from: 21, to: 28, at: 30 }).limiter)
    assert.isNull(refused(burst, { from: 1, to: 24, at: 30 }).limiter, "nobody was taken")
    const nobodyElse = taken(fresh, 24)
    assert.isNull(refused(nobodyElse, { from: 9, to: 24, at: 30 }).limiter, "nobody waits")
    assert.isNotNull(refused(nobodyElse, { from: 9, to: 24, at: 30, isAgain: true }).limiter)
  })

  it("shows in answers that come out of order, too, and not in refusals by chance", () => {
    const burst = taken(fresh, 200)
    const inOrder = (places: ReadonlyArray<number>): Pace =>
      places.reduce((pace, place) => refused(pace, { from: place, to: place, at: 30 }), burst)
    assert.isNotNull(inOrder([24, 21, 30, 22, 28, 23, 29, 25, 26, 27, 31, 32]).limiter)
    assert.isNull(inOrder([3, 7, 8, 12, 17, 18, 21, 25, 28, 33, 36, 40, 41, 44, 50]).limiter)
  })

  it("is asked once in the time it names, then twice as fast in every quarter of it, until it refuses", () => {
    const [before, after] = [1, 2].map((hints) => gone(limited, 30 + hints * 1_000) - gone(limited, 30))
    assert.isAtMost(before ?? 0, 6)
    assert.isAbove(after ?? 0, 60)
  })

  it("is measured by what it let through between two refusals", () => {
    // 30 calls left between the last refusal of the burst and this one, 1.5 s later.
    const measured = refused(limited, { from: 81, to: 81, at: 1_530 })
    assert.approximately(measured.rate, 19, 0.05)
    assert.isTrue(measured.limiter?.isMeasured)
  })

  it("is taken for the longest wait of a run, and a shorter one for a second at least", () => {
    const burst = taken(fresh, 200)
    const some = refused(burst, { from: 21, to: 24, at: 30, hintMillis: 10 })
    const all = refused(some, { from: 25, to: 30, at: 31, hintMillis: 50 })
    assert.deepInclude(all, { rate: 20, doubling: 250 })
  })

  it("goes no faster near the end of its queue", () => {
    const ending = refused(limited, { from: 81, to: 81, at: 1_530 })
    assert.isNotNull(paceAt(ending, 1_600, 0).doubling)
    assert.isNull(paceAt({ ...ending, clock: 185 }, 1_600, 0).doubling)
  })

  it("is none when all that leave after it showed are refused, and that is found within some of its hints", () => {
    let pace = refused(taken(fresh, 200), { from: 21, to: 50, at: 30 })
    let now = 30
    let place = Math.floor(pace.clock)
    while (pace.limiter !== null && now < 60_000) {
      now += 10
      const left = gone(pace, now)
      if (left > place) pace = refused(pace, { from: place + 1, to: left, at: now })
      place = Math.max(place, left)
    }
    assert.isBelow(now, 5_000)
  })

  it("is not looked for where only a few wait", () => {
    const few = taken(fresh, 31)
    assert.isNull(refused(few, { from: 13, to: 24, at: 0 }).limiter)
    assert.isNotNull(refused(taken(fresh, 32), { from: 13, to: 24, at: 0 }).limiter)
  })

  it("is forgotten after ten seconds without a refusal, once nobody waits", () => {
    const idle = { ...limited, clock: 200 }
    assert.isNotNull(paceAt(idle, 10_000, 0).limiter)
    assert.strictEqual(gone(taken(idle, 10, 10_000), 10_000), 201)
    assert.isNull(paceAt(idle, 10_031, 0).limiter)
    assert.isNotNull(paceAt({ ...limited, last: 1e12 }, 10_031, 0).limiter)
  })

  it("is none when going more slowly brings no fewer refusals", () => {
    let pace = limited
    let [place, at] = [50, 30]
    for (let round = 0; round < 8 && pace.limiter !== null; round += 1) {
      // Three of ten are refused, at any pace.
      for (let call = 1; call <= 10; call += 1) {
        at += 100
        place += 1
        if (call % 3 === 0) pace = refused(pace, { from: place, to: place, at })
      }
    }
    assert.isNull(pace.limiter)
    assert.isNull(refused(taken(pace, 200, at), { from: place + 1, to: place + 40, at }).limiter)
  })
})

describe("a place", () => {
  it("is the next one, or the one that was given, unless the memory that gave it is gone", () => {
    const pace = taken(fresh, 5)
    assert.deepStrictEqual([placeIn(pace, null), placeIn(pace, 3), placeIn(pace, 500)], [6, 3, 6])
  })
})

const Step = Schema.Struct({
  wait: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 5_000 })),
  calls: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 50 })),
  refused: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 30 })),
  hintMillis: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 5_000 })),
  isAgain: Schema.Boolean
})

it.effect.prop(
  "the clock never runs back, and every place comes up in the time that was said or is said anew",
  { steps: Schema.Array(Step).check(Schema.isMaxLength(40)) },
  ({ steps }) =>
    Effect.sync(() => {
      let pace = fresh
      let now = 0
      for (const step of steps) {
        // What nobody has used may go: a limiter that shows keeps no burst.
        const before = Math.min(pace.clock, pace.last)
        now += step.wait
        pace = taken(pace, step.calls, now)
        assert.isAtLeast(pace.clock, before)
        const from = Math.max(1, pace.last - step.refused)
        pace = refused(pace, { from, to: pace.last, at: now, hintMillis: step.hintMillis, isAgain: step.isAgain })
        assert.isTrue(Schema.is(Pace)(pace), JSON.stringify(pace))
        const wait = waitFor(pace, pace.last)
        assert.isTrue(Number.isFinite(wait) && wait >= 0)
        // Nothing that is asked again in steps of the wait goes on for ever.
        assert.isAtLeast(paceAt(pace, now + wait + 1, 0).clock + 1e-6, pace.last)
      }
    }),
  { arbitrary: { runs: runs(300) } }
)
