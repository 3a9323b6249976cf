/** One fault script through every door, and whether each does what the script's own door does. */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { isObject, type Json } from "../../../../domain/chat/json.ts"
import { isSame, show } from "../differences.ts"
import { play } from "../play.ts"
import type { PlayedLine, ResultLine } from "../ResultLine.ts"
import { parseScenario } from "../Scenario.ts"
import { checkLine } from "../scenarioExpect.ts"
import { doors, type Door } from "./Door.ts"
import { rewrite } from "./rewrite.ts"
import { surfaceRuleOf } from "./surfaceRules.ts"

export type Passage =
  /** All that is expected holds, and the trail is that of the script's own door. */
  | { readonly _tag: "Same" }
  /** The surface has a rule of its own that this script meets. */
  | { readonly _tag: "Otherwise"; readonly rule: string; readonly found: ReadonlyArray<string> }
  /** The script says nothing at this door. */
  | { readonly _tag: "NoLike"; readonly why: string }
  | { readonly _tag: "Differs"; readonly found: ReadonlyArray<string> }

export interface Passed {
  readonly id: string
  readonly area: string
  readonly door: Door
  readonly passage: Passage
}

/** What was decided after each attempt: tags, models, waits. */
const decided = (line: PlayedLine): ReadonlyArray<Json> =>
  line.events
    .filter(({ _tag }) => _tag === "Transitioned")
    .map((event) => {
      const outcome = isObject(event["outcome"]) ? event["outcome"] : {}
      const action = isObject(event["action"]) ? event["action"] : {}
      return {
        outcome: outcome["_tag"],
        kind: outcome["kind"] ?? null,
        action: action["_tag"],
        delayMillis: action["delayMillis"] ?? null,
        reason: action["reason"] ?? null
      }
    })

/** What must be the same through every door. */
const trailOf = (line: PlayedLine): Readonly<Record<string, unknown>> => ({
  requests: line.requests.map(({ role, model, maxOutputTokens, atMs }) => ({ role, model, maxOutputTokens, atMs })),
  decided: decided(line)
})

const trailDifferences = (home: PlayedLine, line: PlayedLine): ReadonlyArray<string> => {
  const [want, have] = [trailOf(home), trailOf(line)]
  return Object.keys(want).flatMap((key) =>
    isSame(want[key], have[key])
      ? []
      : [`${key}: ${show(have[key])} where the script's own door has ${show(want[key])}`]
  )
}

const playRaw = (raw: Json, isClient: boolean): Effect.Effect<ResultLine> => {
  const scenario = parseScenario(raw, 0)
  return Result.isFailure(scenario)
    ? Effect.succeed({ id: scenario.failure.field, status: "unsupported" as const, why: scenario.failure.reason })
    : play(scenario.success, { live: false, isClient })
}

const passageOf = Effect.fnUntraced(function* (raw: Json, home: ResultLine, door: Door): Effect.fn.Return<Passage> {
  const rewritten = rewrite(raw, door)
  if (rewritten._tag === "NoLike") return rewritten
  const line = yield* playRaw(rewritten.script, door.surface === "client")
  if (line.status === "unsupported") return { _tag: "NoLike", why: line.why }
  const found = [
    ...checkLine(rewritten.script, { ...line }),
    ...(home.status === "ran" ? trailDifferences(home, line) : [])
  ]
  if (found.length === 0) return { _tag: "Same" }
  const rule = home.status === "ran" ? surfaceRuleOf({ raw, home, door }) : null
  return rule === null ? { _tag: "Differs", found } : { _tag: "Otherwise", rule, found }
})

/** A script as it stands, then through each of the doors. */
export const playDoors = Effect.fnUntraced(function* (
  raw: Json,
  through: ReadonlyArray<Door> = doors
): Effect.fn.Return<ReadonlyArray<Passed>> {
  const id = String(raw["id"])
  const area = String(raw["area"] ?? "-")
  const home = yield* playRaw(raw, false)
  const passed: Array<Passed> = []
  for (const door of through) passed.push({ id, area, door, passage: yield* passageOf(raw, home, door) })
  return passed
})
