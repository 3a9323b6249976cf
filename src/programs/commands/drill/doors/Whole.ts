/** What an answer has told in all. */
import type { Json } from "../../../../domain/chat/json.ts"
import type { Finish, Pieces } from "./Telling.ts"

export interface Whole {
  readonly reasoning: string | null
  readonly text: string | null
  readonly refusal: string | null
  readonly calls: ReadonlyArray<{ readonly id: unknown; readonly name: unknown; readonly args: string }>
  readonly finish: Finish | null
  readonly usage: Json | null
  readonly error: Json | null
}

const joined = (before: string | null, text: string): string => (before ?? "") + text

export const wholeOf = (pieces: Pieces): Whole => {
  let whole: Omit<Whole, "calls"> = {
    reasoning: null,
    text: null,
    refusal: null,
    finish: null,
    usage: null,
    error: null
  }
  const calls = new Map<number, Whole["calls"][number]>()
  for (const piece of pieces)
    switch (piece._tag) {
      case "Reasoning":
        whole = { ...whole, reasoning: joined(whole.reasoning, piece.text) }
        break
      case "Text":
        whole = { ...whole, text: joined(whole.text, piece.text) }
        break
      case "Refusal":
        whole = { ...whole, refusal: joined(whole.refusal, piece.text) }
        break
      case "Call": {
        const { id, name, args } = piece
        const before = calls.get(piece.index)
        calls.set(piece.index, before === undefined ? { id, name, args } : { ...before, args: before.args + args })
        break
      }
      case "Finish":
        whole = { ...whole, finish: piece.reason }
        break
      case "Usage":
        whole = { ...whole, usage: piece.usage }
        break
      case "Error":
        whole = { ...whole, error: piece.error }
        break
      default:
    }
  return { ...whole, calls: [...calls.values()] }
}
