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

export const makeKeptStream = (journal: JournalShape, key: string, show: Show): KeptStream => {
  /** Told, and not kept yet. */
  let pending = ""
  /** What the reader has of the reply that is to be repeated; null = there is nothing to compare with. */
  let expected: string | null = null
  /** What has come of it: told again behind a Reset if it turns out to be another one. */
  let held: Array<ReplyPart> = []
  /** Text the reader has that stays, whatever comes. */
  let base = ""

  const showAll = (parts: ReadonlyArray<ReplyPart>): Effect.Effect<void> =>
    parts.length === 0 ? Effect.void : Effect.forEach(parts, show, { discard: true })

  const flush = Effect.suspend(() => {
    const more = pending
    pending = ""
    return more === "" ? Effect.void : orEnd(journal.tell(key, more))
  })

  const forget = Effect.suspend(() => {
    pending = ""
    return orEnd(journal.tell(key, null))
  })

  const told = (part: ReplyPart): Effect.Effect<void> => {
    if (part._tag !== "TextDelta") return show(part)
    pending += part.text
    return pending.length < tellLength ? show(part) : Effect.andThen(flush, show(part))
  }

  /** It is another reply: the reader drops the one before, and has this one from its beginning. */
  const beginAgain = Effect.suspend(() => {
    const parts = [...text(base), ...held]
    expected = null
    held = []
    return forget.pipe(
      Effect.andThen(show({ _tag: "Reset" })),
      Effect.andThen(Effect.forEach(parts, told, { discard: true }))
    )
  })

  const compare = (part: ReplyPart, awaited: string): Effect.Effect<void> => {
    switch (part._tag) {
      case "TextDelta": {
        held.push(part)
        const common = awaited.slice(0, part.text.length)
        if (!part.text.startsWith(common)) return beginAgain
        const rest = awaited.slice(common.length)
        expected = rest === "" ? null : rest
        if (rest !== "") return Effect.void
        held = []
        const beyond = part.text.slice(common.length)
        return beyond === "" ? Effect.void : told({ _tag: "TextDelta", text: beyond })
      }
      case "Reset":
        expected = null
        held = []
        return Effect.andThen(forget, show(part))
      // It is over, or goes on with something else, and was shorter.
      case "Finish":
        return Effect.andThen(beginAgain, show(part))
      case "ReasoningDelta":
        held.push(part)
        return show(part)
      case "ToolCallReady":
        held.push(part)
        return beginAgain
      default:
        return show(part)
    }
  }

  return {
    flush,
    everySecond: Effect.forever(Effect.andThen(Effect.sleep(tellMillis), flush)),
    see: (part) => {
      if (expected !== null) return compare(part, expected)
      return part._tag === "Reset" ? Effect.andThen(forget, show(part)) : told(part)
    },
    showAgain: (goesOnFrom) =>
      Effect.suspend(() => {
        const before = journal.told(key)
        const again = showAll(text(before))
        if (before.startsWith(goesOnFrom)) {
          base = goesOnFrom
          expected = before === goesOnFrom ? null : before.slice(goesOnFrom.length)
          return again
        }
        pending = goesOnFrom
        return again.pipe(
          Effect.andThen(
            before === "" ? Effect.void : Effect.andThen(show({ _tag: "Reset" }), orEnd(journal.tell(key, null)))
          ),
          Effect.andThen(showAll(text(goesOnFrom)))
        )
      })
  }
}
