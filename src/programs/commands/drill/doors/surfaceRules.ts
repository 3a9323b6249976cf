/** Rules of single surfaces under which a fault script ends otherwise than at its own door. */
import { isObject, type Json } from "../../../../domain/chat/json.ts"
import type { PlayedLine } from "../ResultLine.ts"
import type { Door } from "./Door.ts"
import { streamsAtHome } from "./rewrite.ts"

interface Met {
  readonly raw: Json
  /** What happened at the script's own door. */
  readonly home: PlayedLine
  readonly door: Door
}

interface SurfaceRule {
  readonly says: string
  readonly applies: (met: Met) => boolean
}

const hasPart = (home: PlayedLine, tag: string): boolean => home.parts.some(({ _tag }) => _tag === tag)

const hasDecided = (home: PlayedLine, field: "outcome" | "action", key: string, value: string): boolean =>
  home.events.some((event) => {
    const found = event[field]
    return event._tag === "Transitioned" && isObject(found) && found[key] === value
  })

const errorOf = (home: PlayedLine): unknown => home.results[0]?.["error"]

const rules: ReadonlyArray<SurfaceRule> = [
  {
    says: "a client's stream takes nothing back: what was shown is gone on from, one request later",
    applies: ({ home, door }) => door.surface === "client" && hasPart(home, "Reset")
  },
  {
    says: "text that a stream has shown is continued, never set aside for a larger budget",
    applies: ({ raw, home, door }) =>
      door.surface === "stream" && !streamsAtHome(raw) && hasDecided(home, "action", "_tag", "Escalate")
  },
  {
    says: "only a stream is watched for silence",
    applies: ({ raw, home, door }) =>
      door.surface === "stream" && !streamsAtHome(raw) && hasDecided(home, "outcome", "kind", "timeout")
  },
  {
    says: "usage stands at the end of an answer, and this one has none",
    applies: ({ raw, home, door }) =>
      streamsAtHome(raw) && !home.usageTotal.known && (door.surface === "complete" || door.adapter === "responses")
  },
  {
    says: "thinking that is bound to a model has another form on this API",
    applies: ({ raw, door }) => door.adapter === "responses" && JSON.stringify(raw).includes('"reasoning_parts"')
  },
  {
    says: "a client gets what came, also where a part of it is not known",
    applies: ({ home, door }) => door.surface === "client" && errorOf(home) === "OpenAIResponseError"
  },
  {
    says: "only OpenAI's own counts are taken to the letter",
    applies: ({ home, door }) => door.adapter === "anthropic" && errorOf(home) === "OpenAIResponseError"
  },
  {
    says: "a client's request does not tell what the replies before it cost",
    applies: ({ home, door }) => door.surface === "client" && errorOf(home) === "BudgetExceeded"
  }
]

/** The rule of the door that a script meets; null = everything has to be as it is at its own door. */
export const surfaceRuleOf = (met: Met): string | null => rules.find(({ applies }) => applies(met))?.says ?? null
