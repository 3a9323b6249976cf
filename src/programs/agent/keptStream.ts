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

interface Awaited {
  /** What the reader has of it, and the model has not said again. */
  readonly text: string
  /** What the model has said of it: told again behind a Reset if it turns out to be another reply. */
  readonly held: Array<ReplyPart>
}

/** What one reader has been told. */
interface Told {
  readonly journal: JournalShape
  readonly key: string
  readonly show: Show
  /** Told, and not kept yet. */
  pending: string
  /** The reply that is to be repeated; null = there is nothing to compare with. */
  awaited: Awaited | null
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
const beginAgain = Effect.fnUntraced(function* (told: Told, { held }: Awaited) {
  told.awaited = null
  yield* forget(told)
  yield* told.show({ _tag: "Reset" })
  for (const part of [...text(told.base), ...held]) yield* tell(told, part)
})

/** Text that the reader has already is not told again; from where it goes beyond it is. */
const compareText = (told: Told, more: string, awaited: Awaited): Effect.Effect<void> => {
  awaited.held.push({ _tag: "TextDelta", text: more })
  const common = awaited.text.slice(0, more.length)
  if (!more.startsWith(common)) return beginAgain(told, awaited)
  const rest = awaited.text.slice(common.length)
  told.awaited = rest === "" ? null : { ...awaited, text: rest }
  const [beyond] = text(more.slice(common.length))
  return beyond === undefined ? Effect.void : tell(told, beyond)
}

const compare = (told: Told, part: ReplyPart, awaited: Awaited): Effect.Effect<void> => {
  switch (part._tag) {
    case "TextDelta":
      return compareText(told, part.text, awaited)
    case "Reset":
      told.awaited = null
      return Effect.andThen(forget(told), told.show(part))
    // It is over, or goes on with something else, and was shorter.
    case "Finish":
      return Effect.andThen(beginAgain(told, awaited), told.show(part))
    case "ReasoningDelta":
      awaited.held.push(part)
      return told.show(part)
    case "ToolCallReady":
      awaited.held.push(part)
      return beginAgain(told, awaited)
    default:
      return told.show(part)
  }
}

const see = (told: Told, part: ReplyPart): Effect.Effect<void> => {
  if (told.awaited !== null) return compare(told, part, told.awaited)
  return part._tag === "Reset" ? Effect.andThen(forget(told), told.show(part)) : tell(told, part)
}

const showAgain = Effect.fnUntraced(function* (told: Told, goesOnFrom: string) {
  const before = told.journal.told(told.key)
  for (const part of text(before)) yield* told.show(part)
  if (before.startsWith(goesOnFrom)) {
    const rest = before.slice(goesOnFrom.length)
    told.base = goesOnFrom
    told.awaited = rest === "" ? null : { text: rest, held: [] }
    return
  }
  told.pending = goesOnFrom
  if (before !== "") {
    yield* told.show({ _tag: "Reset" })
    yield* orEnd(told.journal.tell(told.key, null))
  }
  for (const part of text(goesOnFrom)) yield* told.show(part)
})

export const makeKeptStream = (journal: JournalShape, key: string, show: Show): KeptStream => {
  const told: Told = { journal, key, show, pending: "", awaited: null, base: "" }
  return {
    flush: flush(told),
    everySecond: Effect.forever(Effect.andThen(Effect.sleep(tellMillis), flush(told))),
    see: (part) => see(told, part),
    showAgain: (goesOnFrom) => showAgain(told, goesOnFrom)
  }
}
