/**
 * A request's text with what one attempt changes of it. The three wires keep their items in one list, take the same plain
 * messages and have a model and a cap as fields: what differs is named by the caller. Everything else stays to the byte.
 */
import { isObject, type Json } from "../../chat/json.ts"
import type { ToolSpec } from "../../chat/Message.ts"
import { summaryMessage } from "../../chat/RequestWindow.ts"
import { arrayText, edited, elementsOf, fieldOf, setField, type Edit, type Span } from "./JsonText.ts"
import type { Change, RequestView } from "./NativeWire.ts"

export interface PatchPlan {
  /** The field of the items. */
  readonly itemsField: string
  /** The item as it may travel to another model or account; null = it stays behind; the same object = unchanged. */
  readonly away: (item: Json) => Json | null
  /** The item as it may travel at all; as `away`. */
  readonly clean: (item: Json) => Json | null
}

const fragmentTexts = (change: Change): ReadonlyArray<string> =>
  change.fragments.flatMap((fragment) => [
    JSON.stringify({ role: "assistant", content: fragment }),
    JSON.stringify({ role: "user", content: change.continuationPrompt })
  ])

/** Texts of the items, each as it stands or as it was changed; null = no item is different. */
const changedItems = (
  text: string,
  places: ReadonlyArray<Span>,
  items: ReadonlyArray<Json>,
  rule: (item: Json) => Json | null
): ReadonlyArray<string | null> | null => {
  let isChanged = false
  const texts = items.map((item, index) => {
    const next = rule(item)
    if (next !== item) isChanged = true
    const place = places[index]
    if (next === null) return null
    return next === item && place !== undefined ? text.slice(place.start, place.end) : JSON.stringify(next)
  })
  return isChanged ? texts : null
}

const itemsEdit = (text: string, view: RequestView, change: Change, plan: PatchPlan): Edit | null => {
  const rule = (item: Json): Json | null => {
    const clean = plan.clean(item)
    return clean !== null && change.leavesHome ? plan.away(clean) : clean
  }
  const isPlain = change.summary === null && change.fragments.length === 0
  // Nothing can be different: the list need not be looked at in the text.
  if (isPlain && view.items.every((item) => rule(item) === item)) return null
  const place = fieldOf(text, plan.itemsField)
  if (place === null) return null
  const isList = text[place.start] === "["
  const places = isList ? elementsOf(text, place) : []
  const texts =
    changedItems(text, places, view.items, rule) ??
    view.items.map((item, index) => {
      const at = places[index]
      return at === undefined ? JSON.stringify(item) : text.slice(at.start, at.end)
    })
  const kept = texts.map((value, index) => ({ value, index }))
  const { summary } = change
  const body =
    summary === null
      ? kept
      : [
          ...kept.slice(0, view.leading),
          { value: JSON.stringify(summaryMessage(summary.text)), index: -1 },
          ...kept.slice(summary.until)
        ]
  return {
    ...place,
    text: arrayText([...body.flatMap(({ value }) => (value === null ? [] : [value])), ...fragmentTexts(change)])
  }
}

export const patched = (text: string, view: RequestView, change: Change, plan: PatchPlan): string => {
  const edits: Array<Edit> = []
  const items = itemsEdit(text, view, change, plan)
  if (items !== null) edits.push(items)
  if (change.model !== null && view.model !== null && change.model !== view.model)
    edits.push(setField(text, "model", JSON.stringify(change.model)))
  if (change.maxOutputTokens !== null && change.maxOutputTokens !== view.cap)
    edits.push(setField(text, view.capField, String(change.maxOutputTokens)))
  return edits.length === 0 ? text : edited(text, edits)
}

/** Items at the front that hold rules. */
export const leadingRules = (items: ReadonlyArray<Json>): number => {
  const first = items.findIndex((item) => item["role"] !== "system" && item["role"] !== "developer")
  return first === -1 ? items.length : first
}

/** Bytes that only one account can resolve. */
export const filePins = (text: string): ReadonlyArray<string> => (/"file_id"\s*:\s*"/.test(text) ? ["file_id"] : [])

/** Fields of these names that hold something. */
export const presentAmong = (body: Json, fields: ReadonlyArray<string>): ReadonlyArray<string> =>
  fields.filter((field) => body[field] !== undefined && body[field] !== null && body[field] !== false)

export const objectsIn = (value: unknown): ReadonlyArray<Json> => (Array.isArray(value) ? value.filter(isObject) : [])

/** The model in the body; null = it stands elsewhere, or is none: the provider has the say. */
export const modelOf = (body: Json): string | null => {
  const { model } = body
  return typeof model === "string" && model !== "" ? model : null
}

export const capOf = (value: unknown): number | null =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 1 ? value : null

/** Items that belong together, as ranges: a model's own in a row and the results behind them are one. */
export const unitsOf = (
  items: ReadonlyArray<Json>,
  from: number,
  sideOf: (item: Json) => "model" | "result" | "other"
): ReadonlyArray<Span> => {
  const units: Array<{ start: number; end: number }> = []
  let before: "model" | "result" | "other" = "other"
  for (let at = from; at < items.length; at += 1) {
    const item = items[at]
    const side = item === undefined ? "other" : sideOf(item)
    const last = units.at(-1)
    const goesOn = side === "result" || (side === "model" && before === "model")
    if (goesOn && last !== undefined) last.end = at + 1
    else units.push({ start: at, end: at + 1 })
    before = side
  }
  return units
}

/** Index of the first item that stays when whole units from the end, at least `keep` items, are kept. */
export const keptFrom = (units: ReadonlyArray<Span>, keep: number, end: number): number => {
  let from = end
  let kept = 0
  for (const unit of units.toReversed()) {
    if (kept >= keep) break
    from = unit.start
    kept += unit.end - unit.start
  }
  return from
}

/** A tool in the form that an estimate counts: name, description and schema. */
export const toolSpec = (tool: Json, schema: "parameters" | "input_schema"): ToolSpec => {
  const { name, type, description } = tool
  return {
    type: "function",
    function: {
      name: typeof name === "string" ? name : String(type ?? ""),
      ...(typeof description === "string" ? { description } : {}),
      ...(tool[schema] === undefined ? {} : { parameters: tool[schema] })
    }
  }
}

const placeOf = (text: string, path: ReadonlyArray<string>): Span | null => {
  let place: Span | null = { start: 0, end: text.length }
  for (const field of path) {
    // Only an object has fields.
    if (place === null || !text.slice(place.start, place.end).trimStart().startsWith("{")) return null
    place = fieldOf(text, field, place.start)
  }
  return place
}

/** The text with other ids where it names earlier answers; `idOf` gives null for what stays. */
export const withIds = (
  text: string,
  references: ReadonlyArray<ReadonlyArray<string>>,
  idOf: (id: string) => string | null
): string => {
  const edits = references.flatMap((path): ReadonlyArray<Edit> => {
    const place = placeOf(text, path)
    if (place === null || text[place.start] !== '"') return []
    const id: unknown = JSON.parse(text.slice(place.start, place.end))
    const other = typeof id === "string" ? idOf(id) : null
    return other === null ? [] : [{ ...place, text: JSON.stringify(other) }]
  })
  return edited(text, edits)
}
