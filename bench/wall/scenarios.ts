/**
 * The sixteen faults and how a recovery layer is judged in each: whether the whole answer came, and its conduct towards
 * the provider. Seconds are those of a full run; a fast run shrinks them all alike.
 */
import { wholeText, type WireName } from "./answers.ts"
import type { Heard } from "./client.ts"
import type { Asked, Provider } from "./provider.ts"

export type Verdict = "pass" | "partial" | "safe" | "fail"

export interface Judged {
  readonly verdict: Verdict
  /** Why it is no pass. */
  readonly reasons: ReadonlyArray<string>
}

/** Asks the subject for a model under a fault. `fallback`: the model it may go to. */
export type Ask = (model: string, fallback: string) => Promise<Heard>

/** What was seen of one scenario. */
export interface Seen {
  readonly heard: ReadonlyArray<Heard>
  readonly asked: ReadonlyArray<Asked>
  /** When the first request of the subject came, milliseconds of the provider. */
  readonly beganAt: number
  /** Milliseconds of one second of the wall. */
  readonly unit: number
}

interface Rule {
  readonly says: string
  readonly holds: (seen: Seen) => boolean
}

export interface Scenario {
  readonly id: string
  readonly fault: string
  readonly fallback?: string
  /** `answer`: the whole text. `error`: the provider's own reason. */
  readonly wants: "answer" | "error"
  /** A call may not take longer, in seconds: a longer one hangs. */
  readonly within: number
  readonly rules: ReadonlyArray<Rule>
  /** Missing one is only partial. */
  readonly advisory: ReadonlyArray<Rule>
  readonly play?: (ask: Ask, unit: number, scenario: Scenario, provider: Provider) => Promise<ReadonlyArray<Heard>>
}

const sleep = (millis: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, millis))

const primary = (seen: Seen): ReadonlyArray<Asked> => seen.asked.filter(({ model }) => !model.startsWith("fb-"))
const secondsOf = (seen: Seen, one: Asked): number => (one.at - seen.beganAt) / seen.unit
const tookSeconds = (seen: Seen): number => Math.max(...seen.heard.map(({ millis }) => millis)) / seen.unit

const rule = (says: string, holds: (seen: Seen) => boolean): Rule => ({ says, holds })
const atMost = (count: number): Rule =>
  rule(`at most ${count} requests to the primary`, (seen) => primary(seen).length <= count)
const exactly = (count: number): Rule =>
  rule(`exactly ${count} request to the primary`, (seen) => primary(seen).length === count)
const takes = (seconds: number): Rule => rule(`at most ${seconds} s`, (seen) => tookSeconds(seen) <= seconds)
const byTheFallback = rule("answered by the fallback", (seen) =>
  seen.asked.some(({ model }) => model.startsWith("fb-"))
)

/** A healthy call after the trouble: the process lives and nothing is stuck. */
const thenHealthy: Scenario["play"] = async (ask, _unit, scenario) => [
  await ask(scenario.fault, scenario.fallback ?? "fb-ok"),
  await ask("ok", "fb-ok")
]

/** Twenty requests, one every four seconds, through an outage of sixty. */
const throughOutage: Scenario["play"] = async (ask, unit, scenario) => {
  const calls: Array<Promise<Heard>> = []
  for (let index = 0; index < 20; index += 1) {
    calls.push(ask(scenario.fault, scenario.fallback ?? "fb-ok"))
    if (index < 19) await sleep(4 * unit)
  }
  return Promise.all(calls)
}

const answered = (id: string, rest: Partial<Scenario> = {}): Scenario => ({
  id,
  fault: id.toLowerCase(),
  wants: "answer",
  within: 100,
  rules: [],
  advisory: [],
  ...rest
})

export const scenarios: ReadonlyArray<Scenario> = [
  answered("S01", {
    rules: [
      rule("at most 2 requests in 1.5 s", (seen) => seen.asked.filter((one) => secondsOf(seen, one) < 1.5).length <= 2)
    ],
    advisory: [
      rule("a second request to the primary, no sooner than 1.8 s", (seen) => {
        const second = primary(seen)[1]
        return second !== undefined && secondsOf(seen, second) >= 1.8
      })
    ]
  }),
  answered("S02", {
    within: 40,
    rules: [
      byTheFallback,
      rule("at most 4 requests in 3 s", (seen) => primary(seen).filter((one) => secondsOf(seen, one) < 3).length <= 4),
      atMost(6)
    ]
  }),
  answered("S03", {
    within: 20,
    advisory: [rule("the retry goes to the same provider", (seen) => primary(seen).length === 2)]
  }),
  answered("S04", { within: 40, rules: [byTheFallback, atMost(6)] }),
  answered("S05", { within: 20 }),
  answered("S06", {
    rules: [byTheFallback],
    advisory: [rule("a silent route is tried once", (seen) => primary(seen).length === 1)]
  }),
  answered("S07", { advisory: [takes(15)] }),
  answered("S08"),
  answered("S09", { within: 45, play: thenHealthy }),
  answered("S10", { play: thenHealthy }),
  answered("S11", {
    within: 8,
    advisory: [rule("usage is reported", (seen) => seen.heard.every(({ hasUsage }) => hasUsage))]
  }),
  answered("S12", { rules: [byTheFallback, exactly(1)] }),
  answered("S13", {
    wants: "error",
    rules: [
      exactly(1),
      rule("not routed around", (seen) => seen.asked.every(({ model }) => !model.startsWith("fb-"))),
      rule("the provider's reason is told", (seen) =>
        seen.heard.every(({ error }) => error?.includes("content_policy_violation") === true)
      )
    ]
  }),
  answered("S14", { fallback: "fb-no-prefill" }),
  answered("S15", {
    play: throughOutage,
    rules: [
      byTheFallback,
      rule(
        "few probes: at most 25 requests to the primary in the outage",
        (seen) => primary(seen).filter((one) => secondsOf(seen, one) < 60).length <= 25
      ),
      rule("the primary is back within 30 s", (seen) => primary(seen).some((one) => secondsOf(seen, one) >= 60))
    ]
  }),
  answered("S16", {
    within: 40,
    rules: [
      byTheFallback,
      atMost(6),
      rule("the reply names the fallback and carries usage", (seen) =>
        seen.heard.every(({ model, hasUsage }) => model?.startsWith("fb-") === true && hasUsage)
      )
    ]
  })
]

const isAnswered = (heard: Heard): boolean => heard.isWhole && heard.text === wholeText

/** A cut answer as success, or a hang, is a fail whatever else holds; a clean and bounded error is safe. */
export const judge = (scenario: Scenario, seen: Seen): Judged => {
  const broken = scenario.rules.filter(({ holds }) => !holds(seen)).map(({ says }) => says)
  const missed = scenario.advisory.filter(({ holds }) => !holds(seen)).map(({ says }) => says)
  const lies = seen.heard.filter((heard) => heard.isWhole && heard.text !== wholeText)
  if (lies.length > 0) return { verdict: "fail", reasons: [`${lies.length} cut or changed answers as success`] }
  const doubled = seen.heard.filter((heard) => !heard.isWhole && !wholeText.startsWith(heard.text))
  if (doubled.length > 0) return { verdict: "fail", reasons: ["shown text is not the beginning of the answer"] }
  if (tookSeconds(seen) > scenario.within) return { verdict: "fail", reasons: [`longer than ${scenario.within} s`] }
  if (scenario.wants === "error") {
    if (seen.heard.some(({ isWhole }) => isWhole))
      return { verdict: "fail", reasons: ["an answer in the place of the refusal"] }
    return broken.length === 0 ? { verdict: "pass", reasons: [] } : { verdict: "fail", reasons: broken }
  }
  if (!seen.heard.every(isAnswered))
    return {
      verdict: "safe",
      reasons: seen.heard.filter((heard) => !isAnswered(heard)).map(({ error }) => error ?? "no end")
    }
  if (broken.length > 0) return { verdict: "fail", reasons: broken }
  return missed.length > 0 ? { verdict: "partial", reasons: missed } : { verdict: "pass", reasons: [] }
}

/** Plays one scenario against a subject and judges it. */
export const playScenario = async (
  scenario: Scenario,
  ask: Ask,
  provider: Provider,
  unit: number
): Promise<Judged & { readonly seen: Seen }> => {
  provider.begin()
  const heard = await (scenario.play ?? (async (one) => [await one(scenario.fault, scenario.fallback ?? "fb-ok")]))(
    ask,
    unit,
    scenario,
    provider
  )
  const seen: Seen = { heard, asked: [...provider.asked], beganAt: provider.asked[0]?.at ?? 0, unit }
  return { ...judge(scenario, seen), seen }
}

export type { WireName }
