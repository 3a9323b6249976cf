/**
 * A history as the next provider takes it: ids and names of calls in its spelling, arguments that are one JSON object,
 * texts well-formed, nothing empty, and of what came beyond the known fields only what goes back to this model. The
 * history itself keeps everything. Pure; the same history is always mapped the same.
 */
import { wellFormed } from "../chat/codePoints.ts"
import { digest } from "../chat/digest.ts"
import { isObject, isText, parsedObject, type Json } from "../chat/json.ts"
import {
  isAssistant,
  withoutForeign,
  type AssistantMessage,
  type Message,
  type MessageToolCall,
  type ToolSpec
} from "../chat/Message.ts"
import type { ModelRequest } from "../chat/ModelRequest.ts"
import { wordIds, type ProviderProfile, type Spelling } from "../provider/ProviderProfile.ts"

const isSpelled = (spelling: Spelling, text: string): boolean =>
  text.length >= spelling.minLength &&
  text.length <= spelling.maxLength &&
  (spelling.alphabet === "word" ? /^[A-Za-z0-9_-]+$/ : /^[A-Za-z0-9]+$/).test(text)

/** Letters and digits that stand for a text, as many as are asked for. */
const sign = (text: string, length: number): string => {
  let signs = ""
  for (let round = 0; signs.length < length; round += 1) signs += digest(`${round}:${text}`)
  return signs.slice(0, length)
}

/** A spelling of a text that reads like it, as far as there is room for that. */
const spelled = (spelling: Spelling, text: string): string => {
  if (spelling.alphabet === "alphanumeric")
    return sign(text, Math.max(spelling.minLength, Math.min(9, spelling.maxLength)))
  const readable = text.replaceAll(/[^A-Za-z0-9_-]+/g, "_").replaceAll(/^_+|_+$/g, "")
  return readable !== "" && readable.length <= spelling.maxLength
    ? readable
    : `${readable.slice(0, Math.max(0, spelling.maxLength - 9))}_${sign(text, 8)}`
}

/** Own texts and what stands for each on the wire; two never share one. */
class Spellings {
  private readonly wire = new Map<string, string>()
  private readonly own = new Map<string, string>()

  /** Stands for itself. */
  keep(text: string): void {
    this.bind(text, text)
  }

  private bind(text: string, wire: string): void {
    this.wire.set(text, wire)
    this.own.set(wire, text)
  }

  /** Call after everything that stands for itself has been kept. */
  map(spelling: Spelling, text: string): void {
    if (this.wire.has(text)) return
    for (let round = 0; ; round += 1) {
      const wire = spelled(spelling, round === 0 ? text : `${sign(`${round}:${text}`, 8)} ${text}`)
      if (this.own.has(wire)) continue
      this.bind(text, wire)
      return
    }
  }

  wireOf(text: string): string {
    return this.wire.get(text) ?? text
  }

  ownOf(wire: string): string {
    return this.own.get(wire) ?? wire
  }
}

/** Names of the tools that are offered and of those a model called without being offered them. */
const namesOf = (request: Pick<ModelRequest, "messages" | "tools">, profile: ProviderProfile): Spellings => {
  const names = new Spellings()
  const offered = (request.tools ?? []).map((tool) => tool.function.name)
  const called = request.messages.flatMap((message) =>
    isAssistant(message) ? (message.tool_calls ?? []).map((call) => call.function.name) : []
  )
  const spelling = profile.toolNames ?? wordIds
  // Without a spelling of its own a server takes the names it is offered; an invented one is safe as a word.
  const isKept = (name: string): boolean =>
    isSpelled(spelling, name) || (profile.toolNames === null && name.isWellFormed() && offered.includes(name))
  const all = [...offered, ...called]
  for (const name of all) if (isKept(name)) names.keep(name)
  for (const name of all) if (!isKept(name)) names.map(spelling, name)
  return names
}

/** Ids as the wire takes them; an id that comes again in a later step gets another one, for calls and results alike. */
class CallIds {
  private readonly used = new Set<string>()
  private readonly current = new Map<string, string>()
  private readonly spelling: Spelling | null

  constructor(spelling: Spelling | null) {
    this.spelling = spelling
  }

  /** The wire's id of a call. */
  begin(id: string): string {
    // Two ids with different halves of a code point are two, also when both are mended.
    const fits = this.spelling === null ? id !== "" && id.isWellFormed() : isSpelled(this.spelling, id)
    for (let round = 0; ; round += 1) {
      const wire = round === 0 && fits ? id : this.made(id, round)
      if (this.used.has(wire)) continue
      this.used.add(wire)
      this.current.set(id, wire)
      return wire
    }
  }

  private made(id: string, round: number): string {
    const text = round === 0 ? id : `${id} ${round}`
    return spelled(this.spelling ?? wordIds, text === "" ? "call" : text)
  }

  /** The wire's id of the call that a result answers: the last one of this id. */
  answered(id: string): string {
    return this.current.get(id) ?? (this.spelling === null || isSpelled(this.spelling, id) ? id : this.made(id, 0))
  }
}

/** The text of a call's arguments as one JSON object. What the model broke, its tool's result tells. */
const argumentsText = (text: string): string => (parsedObject(text) === null ? "{}" : text)

const isCustom = (call: MessageToolCall): boolean => call.provider_meta?.["custom"] === true

/** A custom tool takes any text; on a wire without such tools its call is one like any other, with the text as a field. */
const inputText = (call: MessageToolCall, { returns }: ProviderProfile): string => {
  const { arguments: text } = call.function
  if (!isCustom(call)) return argumentsText(text)
  return returns.call.includes("custom") ? text : JSON.stringify({ input: text })
}

/** Another model's calls lose their mark: the text of a custom one is a field before that. */
const withPlainCalls = (messages: ReadonlyArray<Message>, model: string): ReadonlyArray<Message> => {
  const isOther = (call: MessageToolCall): boolean => isCustom(call) && call.provider_meta?.model !== model
  return messages.map((message) => {
    if (!isAssistant(message) || message.tool_calls?.some(isOther) !== true) return message
    const calls = message.tool_calls.map((call) =>
      isOther(call)
        ? { ...call, function: { ...call.function, arguments: JSON.stringify({ input: call.function.arguments }) } }
        : call
    )
    return { ...message, tool_calls: calls }
  })
}

/** Fields of an answer that no request takes, whoever put them into the history. */
const outputOnly = new Set([
  "annotations",
  "executed_tools",
  "images",
  "logprobs",
  "reasoning",
  "reasoning_content",
  "reasoning_details",
  "reasoning_text",
  "reasoning_opaque",
  "thinking_blocks",
  "provider_specific_fields",
  "extra_content"
])

/** What a provider takes back of the fields it sent; a sound goes back by its id. */
const returned = (fields: Json, names: ReadonlyArray<string>): Json =>
  Object.fromEntries(
    names.flatMap((name) => {
      const value = fields[name]
      if (value === undefined || value === null) return []
      return [[name, name === "audio" && isObject(value) ? { id: value["id"] } : value] as const]
    })
  )

const isBlank = (content: Message["content"]): boolean =>
  content === null ||
  content === undefined ||
  (isText(content)
    ? content.trim() === ""
    : content.every((part) => part.type === "text" && isText(part["text"]) && part["text"].trim() === ""))

/** A turn that says nothing: no text, no call, no refusal. */
const isEmptyTurn = (message: Message): boolean => {
  if (message.role === "user") return isBlank(message.content)
  if (!isAssistant(message)) return false
  const { audio } = message.provider_meta ?? message
  return (
    isBlank(message.content) &&
    isBlank(message.refusal) &&
    (message.tool_calls ?? []).length === 0 &&
    (audio === undefined || audio === null)
  )
}

/** Strings of a JSON value made well-formed; a value without a fault is the same object. */
export const wellFormedJson = <A>(value: A): A => mended(value, 0) as A

const deepestMended = 512

const mended = (value: unknown, depth: number): unknown => {
  if (isText(value)) return wellFormed(value)
  if (typeof value !== "object" || value === null || depth > deepestMended) return value
  if (Array.isArray(value)) {
    const list = value.map((entry: unknown) => mended(entry, depth + 1))
    return list.some((entry, at) => entry !== value[at]) ? list : value
  }
  if (Object.getPrototypeOf(value) !== Object.prototype) return value
  const entries = Object.entries(value)
  const news = entries.map(([key, entry]) => [wellFormed(key), mended(entry, depth + 1)] as const)
  return news.some(([key, entry], at) => key !== entries[at]?.[0] || entry !== entries[at][1])
    ? Object.fromEntries(news)
    : value
}

/** A request as one provider takes it. */
export interface Fitted {
  readonly messages: ReadonlyArray<Message>
  readonly tools: ReadonlyArray<ToolSpec>
  /** The wire's name of a tool. */
  readonly wireName: (own: string) => string
  /** The caller's name of a tool that a reply names. */
  readonly ownName: (wire: string) => string
}

/**
 * Words in place of thoughts that are another model's, or were never told. They name the calls: the same words before
 * every call are soon repeated by the model.
 */
const thoughtsBeside = (calls: ReadonlyArray<MessageToolCall>, names: Spellings): string =>
  `Next: ${calls.map((call) => names.wireOf(call.function.name)).join(", ")}.`

/** The fields that go back with an assistant message. Thoughts as text go beside the calls they led to. */
const boundFields = (message: AssistantMessage, { returns, standIns }: ProviderProfile, names: Spellings): Json => {
  const own: Json = message.provider_meta ?? message
  const calls = message.tool_calls ?? []
  if (calls.length === 0) return returned(own, returns.message)
  const fields = returned(own, [...returns.message, ...returns.thoughts])
  const field = standIns?.thoughts
  const isMissing = field !== undefined && (fields[field] === undefined || fields[field] === "")
  return isMissing ? { ...fields, [field]: thoughtsBeside(calls, names) } : fields
}

/** Fields the first call of a message needs when no call has its own; another model's calls never have. */
const standInFor = (calls: ReadonlyArray<Json>, model: string, { standIns }: ProviderProfile): Json => {
  const { models, fields } = standIns?.call ?? { models: [], fields: {} }
  const isMeant = models.some((word) => model.includes(word))
  const hasOwn = Object.keys(fields).some((field) => calls.some((call) => (call[field] ?? null) !== null))
  return isMeant && !hasOwn ? fields : {}
}

/** What the messages of one request are fitted with. */
interface Fitting {
  readonly profile: ProviderProfile
  readonly names: Spellings
  readonly ids: CallIds
  readonly model: string
}

const fitCall = (call: MessageToolCall, { profile, names, ids }: Fitting): MessageToolCall => {
  const { provider_meta: meta, ...plain } = call
  return {
    ...Object.fromEntries(Object.entries(plain).filter(([key]) => !outputOnly.has(key))),
    id: ids.begin(call.id),
    type: call.type,
    function: { ...call.function, name: names.wireOf(call.function.name), arguments: inputText(call, profile) },
    ...returned(meta ?? plain, profile.returns.call)
  }
}

const fitCalls = (calls: ReadonlyArray<MessageToolCall>, fitting: Fitting): ReadonlyArray<MessageToolCall> => {
  const fitted = calls.map((call) => fitCall(call, fitting))
  const standIn = standInFor(fitted, fitting.model, fitting.profile)
  return fitted.map((call, at) => (at === 0 ? { ...call, ...standIn } : call))
}

const fitAssistant = (message: AssistantMessage, fitting: Fitting): AssistantMessage => {
  const { provider_meta: _, usage: __, tool_calls: calls, ...rest } = message
  const plain = Object.fromEntries(Object.entries(rest).filter(([key]) => !outputOnly.has(key)))
  const isWhite = isText(message.content) && message.content !== "" && message.content.trim() === ""
  return {
    ...plain,
    role: "assistant",
    ...(isWhite ? { content: "" } : {}),
    ...(calls === undefined || calls.length === 0 ? {} : { tool_calls: fitCalls(calls, fitting) }),
    ...boundFields(message, fitting.profile, fitting.names)
  }
}

const fitMessage = (message: Message, fitting: Fitting): Message => {
  if (isAssistant(message)) return fitAssistant(message, fitting)
  if (message.role === "tool") return { ...message, tool_call_id: fitting.ids.answered(message.tool_call_id) }
  return message
}

const fitTool = (tool: ToolSpec, names: Spellings): ToolSpec => {
  const name = names.wireOf(tool.function.name)
  return name === tool.function.name ? tool : { ...tool, function: { ...tool.function, name } }
}

/** The names alone: what a reply's reader needs. */
export const ownNames = (
  request: Pick<ModelRequest, "messages" | "tools">,
  profile: ProviderProfile
): ((wire: string) => string) => {
  let names: Spellings | null = null
  return (wire) => (names ??= namesOf(request, profile)).ownOf(wire)
}

/** Turns that say nothing stay behind; the last one stays, whatever it is. */
const withoutEmptyTurns = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> =>
  messages.filter((message, at) => at === messages.length - 1 || !isEmptyTurn(message))

export const fit = (
  request: Pick<ModelRequest, "messages" | "tools"> & { readonly model: string },
  profile: ProviderProfile
): Fitted => {
  const names = namesOf(request, profile)
  const fitting: Fitting = { profile, names, ids: new CallIds(profile.callIds), model: request.model }
  const own = withoutEmptyTurns(withoutForeign(withPlainCalls(request.messages, request.model), request.model))
  return {
    messages: own.map((message) => wellFormedJson(fitMessage(message, fitting))),
    tools: (request.tools ?? []).map((tool) => wellFormedJson(fitTool(tool, names))),
    wireName: (name) => names.wireOf(name),
    ownName: (wire) => names.ownOf(wire)
  }
}
