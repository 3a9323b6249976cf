/** The wait hints of an answer, as readings in order of authority: retry-after-ms, Retry-After, reset headers, the body. */
import type { FaultKind } from "../failure/FaultKind.ts"
import { type HintReading } from "../failure/Hint.ts"
import { valueAt, type Answer, type Code } from "./AnswerPlaces.ts"
import type { HintSource, ProviderProfile } from "./ProviderProfile.ts"
import { firstEpochMillis, firstEpochSeconds, httpDate, parseHint } from "./RetryAfter.ts"

const standardHints: ReadonlyArray<HintSource> = [
  { header: "retry-after-ms", pointer: null, format: "milliseconds", exhausted: null },
  { header: "x-ms-retry-after-ms", pointer: null, format: "milliseconds", exhausted: null },
  { header: "retry-after", pointer: null, format: "retry-after", exhausted: null }
]

const hintName = (source: HintSource, raw: string): string => {
  const name = source.label ?? source.header ?? `body ${source.pointer ?? ""}`
  // A bare number in a reset header: say how it was understood.
  if (source.format !== "reset" || !/^\d+$/.test(raw.trim())) return name
  const number = Number(raw)
  return number < firstEpochSeconds ? name : `${name} (epoch ${number < firstEpochMillis ? "seconds" : "milliseconds"})`
}

const readHint = (answer: Answer, body: unknown, source: HintSource): ReadonlyArray<HintReading> => {
  const raw = source.header === null ? valueAt(body, source.pointer ?? "") : answer.headers[source.header]
  if (raw === undefined || raw === null || typeof raw === "object") return []
  const date = answer.headers["date"]
  const name = hintName(source, String(raw))
  const value = parseHint(source.format, String(raw))
  switch (value._tag) {
    case "Delay":
      return [{ _tag: "Delay", source: name, millis: value.millis }]
    case "At":
      return [
        {
          _tag: "At",
          source: name,
          epochMillis: value.epochMillis,
          serverEpochMillis: date === undefined ? null : httpDate(date)
        }
      ]
    case "Invalid":
      return [{ _tag: "Invalid", source: name }]
  }
}

/**
 * Which of the profile's sources count. A reset header stands on every answer of some providers, so it counts on a limit
 * only, and only for a window that is used up: its remaining header is 0, or the code names it, or no other is there.
 */
const countingSources = (
  profile: ProviderProfile,
  answer: Answer,
  kind: FaultKind,
  codes: ReadonlyArray<Code>
): ReadonlyArray<HintSource> => {
  const isLimit = kind === "rate_limited" || kind === "quota_exhausted" || answer.status === 429
  const resets = profile.hints.filter(({ header }) => header !== null && answer.headers[header] !== undefined)
  const used = resets.filter(
    ({ exhausted, window }) =>
      exhausted === null || answer.headers[exhausted] === "0" || (window !== undefined && codes.includes(window))
  )
  const [only] = resets
  const lone = resets.length === 1 && only !== undefined ? [only] : []
  return [...(isLimit ? (used.length > 0 ? used : lone) : []), ...profile.hints.filter(({ header }) => header === null)]
}

/** Hints in order of authority: retry-after-ms, Retry-After, the profile's reset headers, the body. */
export const hintsOf = (
  profile: ProviderProfile,
  answer: Answer,
  body: unknown,
  kind: FaultKind,
  codes: ReadonlyArray<Code>
): ReadonlyArray<HintReading> =>
  [...standardHints, ...countingSources(profile, answer, kind, codes)].flatMap((source) =>
    readHint(answer, body, source)
  )
