/**
 * What a reader of a stream is told, over any number of processes: the text that is kept is told again at once; what the
 * model then says is compared with it and told from where it goes beyond, or there is one Reset.
 */
import * as Effect from "effect/Effect"
import type { ReplyPart } from "../../domain/chat/ReplyPart.ts"
import type { JournalShape } from "../../services/Journal.ts"
import { orEnd } from "./journaled.ts"

/** Kept so often while it streams. */
const tellMillis = 1_000
const tellLength = 2_000

type Show = (part: ReplyPart) => Effect.Effect<void>

export interface KeptStream {
  /** Tells what a process before has told, `goesOnFrom` being where the request stands that is taken up. */
  readonly showAgain: (goesOnFrom: string) => Effect.Effect<void>
  readonly see: Show
  /** Keeps what has not been kept. */
  readonly flush: Effect.Effect<void>
  /** Never ends. */
  readonly everySecond: Effect.Effect<never>
}

const text = (part: string): ReadonlyArray<ReplyPart> => (part === "" ? [] : [{ _tag: "TextDelta", text: part }])

/** What one reader has been told. */
interface Told {
  readonly journal: JournalShape
  readonly key: string
  readonly show: Show
  /** Told, and not kept yet. */
  pending: string
  /** What the reader has of the reply that is to be repeated; null = there is nothing to compare with. */
  expected: string | null
  /** What has come of it: told again behind a Reset if it turns out to be another one. */
  held: Array<ReplyPart>
  /** Text the reader has that stays, whatever comes. */
  base: string
}

const flush = (told: Told): Effect.Effect<void> =>
  Effect.suspend(() => {
    const more = told.pending
    told.pending = ""
    return more === "" ? Effect.void : orEnd(told.journal.tell(told.key, more))
  })

/** What is kept of the stream so far is dropped. */
const forget = (told: Told): Effect.Effect<void> =>
  Effect.suspend(() => {
    told.pending = ""
    return orEnd(told.journal.tell(told.key, null))
  })

const tell = (told: Told, part: ReplyPart): Effect.Effect<void> => {
  if (part._tag !== "TextDelta") return told.show(part)
  told.pending += part.text
  return told.pending.length < tellLength ? told.show(part) : Effect.andThen(flush(told), told.show(part))
}

/** It is another reply: the reader drops the one before, and has this one from its beginning. */
const beginAgain = (told: Told): Effect.Effect<void> =>
  Effect.suspend(() => {
    const parts = [...text(told.base), ...told.held]
    told.expected = null
    told.held = []
    return forget(told).pipe(
      Effect.andThen(told.show({ _tag: "Reset" })),
      Effect.andThen(Effect.forEach(parts, (part) => tell(told, part), { discard: true }))
    )
  })

/** Text that the reader has already is not told again; from where it goes beyond it is. */
const compareText = (told: Told, more: string, awaited: string): Effect.Effect<void> => {
  told.held.push({ _tag: "TextDelta", text: more })
  const common = awaited.slice(0, more.length)
  if (!more.startsWith(common)) return beginAgain(told)
  const rest = awaited.slice(common.length)
  told.expected = rest === "" ? null : rest
  if (rest !== "") return Effect.void
  told.held = []
  const beyond = more.slice(common.length)
  return beyond === "" ? Effect.void : tell(told, { _tag: "TextDelta", text: beyond })
}

const compare = (told: Told, part: ReplyPart, awaited: string): Effect.Effect<void> => {
  switch (part._tag) {
    case "TextDelta":
      return compareText(told, part.text, awaited)
    case "Reset":
      told.expected = null
      told.held = []
      return Effect.andThen(forget(told), told.show(part))
    // It is over, or goes on with something else, and was shorter.
    case "Finish":
      return Effect.andThen(beginAgain(told), told.show(part))
    case "ReasoningDelta":
      told.held.push(part)
      return told.show(part)
    case "ToolCallReady":
      told.held.push(part)
      return beginAgain(told)
    default:
      return told.show(part)
  }
}

const see = (told: Told, part: ReplyPart): Effect.Effect<void> => {
  if (told.expected !== null) return compare(told, part, told.expected)
  return part._tag === "Reset" ? Effect.andThen(forget(told), told.show(part)) : tell(told, part)
}

const showText = (told: Told, kept: string): Effect.Effect<void> =>
  kept === "" ? Effect.void : told.show({ _tag: "TextDelta", text: kept })

const showAgain = (told: Told, goesOnFrom: string): Effect.Effect<void> =>
  Effect.suspend(() => {
    const before = told.journal.told(told.key)
    const again = showText(told, before)
    if (before.startsWith(goesOnFrom)) {
      told.base = goesOnFrom
      told.expected = before === goesOnFrom ? null : before.slice(goesOnFrom.length)
      return again
    }
    told.pending = goesOnFrom
    const dropped = Effect.andThen(told.show({ _tag: "Reset" }), orEnd(told.journal.tell(told.key, null)))
    return again.pipe(Effect.andThen(before === "" ? Effect.void : dropped), Effect.andThen(showText(told, goesOnFrom)))
  })

export const makeKeptStream = (journal: JournalShape, key: string, show: Show): KeptStream => {
  const told: Told = { journal, key, show, pending: "", expected: null, held: [], base: "" }
  return {
    flush: flush(told),
    everySecond: Effect.forever(Effect.andThen(Effect.sleep(tellMillis), flush(told))),
    see: (part) => see(told, part),
    showAgain: (goesOnFrom) => showAgain(told, goesOnFrom)
  }
}
