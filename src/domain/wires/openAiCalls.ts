/** Tool calls of OpenAI's chat wire, whole or in fragments. */
import { isCount, isObject, isText, type Json } from "../chat/json.ts"
import type { ProviderMeta } from "../chat/Message.ts"
import type { ToolCall } from "../chat/ModelReply.ts"
import { further, someOf, withPieces, type Fields } from "./furtherFields.ts"
import { JsonScanner } from "./jsonScanner.ts"
import { flaw, isFlaw, madeCallId, type CallReading, type Flaw, type ReadContext } from "./wireReply.ts"

/** Fields of a call that have a place of their own; all others belong to the model that made it. */
const known = new Set(["id", "type", "function", "index"])

/** Arguments as text; null = something that is none. An object is one that a server has parsed already. */
const argumentsOf = (reading: CallReading, raw: unknown): string | null => {
  if (isText(raw)) return raw
  if (reading.context.profile.exact) return null
  if (raw === undefined || raw === null) {
    reading.deviations.note("call_without_arguments")
    return "{}"
  }
  if (!isObject(raw)) return null
  reading.deviations.note("arguments_not_text")
  return JSON.stringify(raw)
}

/** The id as text, empty for none; null = something that is none. A number counts the calls of one answer and is no id. */
const idOf = ({ context }: CallReading, raw: unknown): string | null => {
  if (raw === undefined || raw === null) return ""
  if (isText(raw)) return raw
  return typeof raw === "number" && !context.profile.exact ? "" : null
}

const metaOf = (context: ReadContext, fields: Json): { readonly providerMeta?: ProviderMeta } =>
  someOf(fields) === undefined ? {} : { providerMeta: { ...fields, model: context.model } }

const ownName = (context: ReadContext, name: string): string => context.ownName?.(name) ?? name

const readCall = (reading: CallReading, raw: unknown, at: number): ToolCall | Flaw => {
  const notWhole = flaw("tool_call_not_whole")
  const { context } = reading
  if (!isObject(raw) || !isObject(raw["function"])) return notWhole
  const name = raw["function"]["name"] ?? ""
  const args = argumentsOf(reading, raw["function"]["arguments"])
  const id = idOf(reading, raw["id"])
  if (!isText(name) || id === null || args === null) return notWhole
  return {
    id: id === "" && !context.profile.exact ? madeCallId(reading, at, name, args) : id,
    name: ownName(context, name),
    arguments: args,
    ...metaOf(context, further(raw, known))
  }
}

/** The calls of a whole message. */
export const readCalls = (reading: CallReading, raw: unknown): ReadonlyArray<ToolCall> | Flaw => {
  if (raw === undefined || raw === null) return []
  if (!Array.isArray(raw)) return flaw("tool_calls_not_a_list")
  const calls: Array<ToolCall> = []
  for (const [at, entry] of raw.entries()) {
    const call = readCall(reading, entry, at)
    if (isFlaw(call)) return call
    const isTaken = !reading.context.profile.exact && calls.some((one) => one.id === call.id)
    calls.push(isTaken ? { ...call, id: madeCallId(reading, at, call.name, call.arguments) } : call)
  }
  return calls
}

/** One call as its fragments come. */
interface Slot {
  id: string
  name: string
  args: string
  /** Its arguments came, be it as an empty text. */
  sawArgs: boolean
  announced: boolean
  readonly extra: Fields
  readonly scanner: JsonScanner
}

interface Fragment {
  readonly id: string
  readonly name: string
  /** null = none in this fragment. */
  readonly args: string | null
}

/**
 * Calls of one stream. An index is a hint and no name: relays send 0 for every call. Another id, or another call's name
 * once a value has closed, begins another call. Calls are announced in the order they have in the reply.
 */
export class CallFragments {
  private readonly reading: () => CallReading
  private readonly slots: Array<Slot> = []
  /** The call an index stands for now. */
  private readonly byIndex = new Map<number, Slot>()

  constructor(reading: () => CallReading) {
    this.reading = reading
  }

  get isEmpty(): boolean {
    return this.slots.length === 0
  }

  /** Text followed a value that had closed: nobody knows whose it is. */
  get hasOverrun(): boolean {
    return this.slots.some((slot) => slot.scanner.overrun)
  }

  calls(): ReadonlyArray<ToolCall> {
    return this.slots.map((slot, at) => this.callOf(slot, at))
  }

  /** Calls that can be announced now; with `isOver` also those whose value never closed. */
  announced(isOver: boolean): ReadonlyArray<ToolCall> {
    const news: Array<ToolCall> = []
    for (const [at, slot] of this.slots.entries()) {
      if (slot.announced) continue
      if (!isOver && !this.isWhole(slot)) break
      slot.announced = true
      news.push(this.callOf(slot, at))
    }
    return news
  }

  private isWhole(slot: Slot): boolean {
    const hasId = slot.id !== "" || !this.reading().context.profile.exact
    return slot.scanner.closed && !slot.scanner.overrun && hasId && slot.name !== ""
  }

  private callOf(slot: Slot, at: number): ToolCall {
    const reading = this.reading()
    const { context } = reading
    const args = slot.sawArgs || context.profile.exact ? slot.args : (argumentsOf(reading, undefined) ?? "")
    // Known only now: an id may come behind the arguments.
    if (slot.id === "" && slot.name !== "" && !context.profile.exact) slot.id = madeCallId(reading, at, slot.name, args)
    return { id: slot.id, name: ownName(context, slot.name), arguments: args, ...metaOf(context, slot.extra) }
  }

  /** One entry of a delta's `tool_calls`. */
  take(raw: unknown): Flaw | null {
    if (!isObject(raw)) return flaw("tool_call_not_an_object")
    const fn = raw["function"] ?? {}
    const id = idOf(this.reading(), raw["id"])
    if (!isObject(fn) || id === null) return flaw("tool_call_not_whole")
    const name = fn["name"] ?? ""
    const rawArgs = fn["arguments"] ?? null
    const args = rawArgs === null ? null : argumentsOf(this.reading(), rawArgs)
    if (!isText(name) || (args === null && rawArgs !== null)) return flaw("tool_call_not_whole")
    const fragment = { id, name, args }
    const slot = this.slotFor(raw["index"], fragment)
    if (isFlaw(slot)) return slot
    if (slot !== null) this.add(slot, fragment, raw)
    return slot?.announced === true && slot.scanner.overrun ? flaw("tool_call_not_whole") : null
  }

  private add(slot: Slot, { id, name, args }: Fragment, raw: Json): void {
    // An id that another call has already stands for both: this one gets its own.
    const isTaken = !this.reading().context.profile.exact && this.slots.some((one) => one !== slot && one.id === id)
    if (slot.id === "" && !isTaken) slot.id = id
    if (slot.name === "") slot.name = name
    withPieces(slot.extra, further(raw, known))
    if (args === null) return
    slot.sawArgs = true
    slot.args += args
    slot.scanner.feed(args)
  }

  /** The call a fragment belongs to; null = it says again what is there. */
  private slotFor(index: unknown, fragment: Fragment): Slot | Flaw | null {
    const current = this.currentOf(index, fragment)
    if (current === undefined) return this.begin(index)
    const whose = this.whose(current, fragment)
    if (whose === "next") return this.begin(index)
    if (whose === "mixed") return flaw("tool_call_not_whole")
    if (whose === "again") this.reading().deviations.note("call_repeated")
    return whose === "again" ? null : current
  }

  private currentOf(index: unknown, { id }: Fragment): Slot | undefined {
    if (isCount(index)) return this.byIndex.get(index)
    // Providers that send no index begin a new call with a new id.
    return id === "" ? this.slots.at(-1) : this.slots.find((slot) => slot.id === id)
  }

  private begin(index: unknown): Slot {
    const slot: Slot = {
      id: "",
      name: "",
      args: "",
      sawArgs: false,
      announced: false,
      extra: {},
      scanner: new JsonScanner()
    }
    this.slots.push(slot)
    if (isCount(index)) this.byIndex.set(index, slot)
    return slot
  }

  private whose(slot: Slot, { id, name, args }: Fragment): "this" | "next" | "again" | "mixed" {
    const isOtherName = name !== "" && slot.name !== "" && name !== slot.name
    const { closed } = slot.scanner
    // Some servers number every fragment anew: without a name it goes on with what is open.
    if (id !== "" && slot.id !== "" && id !== slot.id) return name === "" && !closed ? "this" : "next"
    if (closed && isOtherName) return "next"
    if (closed && name !== "" && args !== null && args.trim() !== "")
      return id !== "" && args === slot.args ? "again" : "next"
    if (!isOtherName) return "this"
    return slot.args.trim() === "" && id === "" ? "next" : "mixed"
  }
}
