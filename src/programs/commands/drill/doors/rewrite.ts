/**
 * A fault script for another door: its answers in the form of another API, as a body or as a stream, and what is expected
 * without what only the script's own form can say.
 */
import { isObject, parsedObject, type Json } from "../../../../domain/chat/json.ts"
import type { Door } from "./Door.ts"
import type { AnswerWriter } from "./AnswerWriter.ts"
import { chatBody, ChatWriter } from "./ChatWriter.ts"
import { messagesBody, MessagesWriter } from "./MessagesWriter.ts"
import { responsesBody, ResponsesWriter } from "./ResponsesWriter.ts"
import { readBody, readChunk, type Pieces } from "./Telling.ts"
import type { Adapter, Scenario } from "../Scenario.ts"

/** A script as the door can play it, or why it cannot. */
export type Rewritten =
  | { readonly _tag: "Script"; readonly script: Json }
  | { readonly _tag: "NoLike"; readonly why: string }

const noLike = (why: string): Rewritten => ({ _tag: "NoLike", why })

interface Form {
  readonly adapter: Adapter
  readonly streams: boolean
  /** Read by the API's own SDK. */
  readonly isClient: boolean
}

const bodies: { readonly [A in Adapter]: (pieces: Pieces) => Json } = {
  openai: chatBody,
  responses: responsesBody,
  anthropic: messagesBody
}

const writers: { readonly [A in Adapter]: () => AnswerWriter } = {
  openai: () => new ChatWriter(),
  responses: () => new ResponsesWriter(),
  anthropic: () => new MessagesWriter()
}

const listOf = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

/** The script's own API when it names none. */
const own: Adapter = "openai"

const headersWith = (step: Json, type: string): Json => {
  const headers = isObject(step["headers"]) ? step["headers"] : {}
  return { ...headers, "content-type": type }
}

/** Items of a stream, repeats spelled out. */
const spelled = (items: ReadonlyArray<unknown>): ReadonlyArray<unknown> =>
  items.flatMap((item) => {
    if (!isObject(item) || !Array.isArray(item["seq"])) return [item]
    const times = typeof item["repeat"] === "number" ? item["repeat"] : 1
    return Array.from({ length: times }, () => spelled(listOf(item["seq"]))).flat()
  })

/** The answers of a stream: an event of the script stays one network read. */
const streamItems = (step: Json, writer: AnswerWriter): ReadonlyArray<Json> | null => {
  const items: Array<Json> = []
  for (const item of spelled(listOf(step["sse"]))) {
    if (!isObject(item) || item["raw"] !== undefined) return null
    if (item["data"] === undefined) {
      items.push(item)
      continue
    }
    const pieces = readChunk(item["data"])
    if (pieces === null) return null
    const raw = writer.write(pieces)
    if (raw !== "") items.push({ raw })
  }
  const rest = (step["end"] ?? "close") === "close" ? writer.end() : ""
  return rest === "" ? items : [...items, { raw: rest }]
}

/** The chat SDK's own accumulator refuses a stream that never says whose words it brings. */
const withRole = (step: Json): Json => {
  if (JSON.stringify(step["sse"]).includes('"role"')) return step
  const role = { object: "chat.completion.chunk", choices: [{ index: 0, delta: { role: "assistant" } }] }
  const items = spelled(listOf(step["sse"]))
  const at = items.findIndex((item) => isObject(item) && isObject(item["data"]))
  return at === -1 ? step : { ...step, sse: [...items.slice(0, at), { data: role }, ...items.slice(at)] }
}

const toStream = (step: Json, form: Form): Json | null => {
  if (form.adapter === own) return form.isClient ? withRole(step) : step
  const sse = streamItems(step, writers[form.adapter]())
  return sse === null ? null : { ...step, sse }
}

const bodyAsStream = (step: Json, pieces: Pieces, form: Form): Json => {
  const { body: _, ...rest } = step
  const writer = writers[form.adapter]()
  const raw = writer.write(pieces) + writer.end()
  return { ...rest, headers: headersWith(step, "text/event-stream"), sse: [{ raw }], end: "close" }
}

/** A stream as one body: whole, or cut in its midst as the stream was; null = a body cannot do that. */
const streamAsBody = (step: Json, form: Form): Json | null => {
  const { sse, end, ...rest } = step
  const pieces: Array<Pieces[number]> = []
  for (const item of spelled(listOf(sse))) {
    if (!isObject(item) || item["data"] === undefined) return null
    const read = readChunk(item["data"])
    if (read === null) return null
    pieces.push(...read)
  }
  if (end === "hang") return null
  const headers = headersWith(step, "application/json")
  const isWhole = pieces.some(({ _tag }) => _tag === "Finish" || _tag === "Error")
  const body = bodies[form.adapter](pieces)
  if (isWhole) return { ...rest, headers, body }
  const text = JSON.stringify(body)
  return { ...rest, headers, sse: [{ raw: text.slice(0, text.length / 2) }], end: "reset" }
}

/** A step of the provider in another form; null = it has no like there. */
const stepFor = (step: unknown, form: Form): Json | null => {
  if (!isObject(step)) return null
  if (Array.isArray(step["cycle"])) {
    const cycle = step["cycle"].map((inner) => stepFor(inner, form))
    return cycle.includes(null) ? null : { ...step, cycle }
  }
  const streams = form.streams && (step["role"] ?? "main") === "main"
  const status = step["http"]
  if (step["generate"] !== undefined || status === undefined) return step
  if (typeof status === "number" && status >= 400) return step
  if (Array.isArray(step["sse"])) return streams ? toStream(step, form) : streamAsBody(step, form)
  const pieces = step["rawBody"] === undefined ? readBody(step["body"]) : null
  const isOwn = form.adapter === own
  // What is no reply of any API stays what it is, where it was written for.
  if (pieces === null) return isOwn ? step : null
  if (streams) return bodyAsStream(step, pieces, form)
  return isOwn ? step : { ...step, body: bodies[form.adapter](pieces) }
}

/** Messages in the chat API's shape: what is expected of a request on that API only. */
const chatKeys = new Set(["firstMessage", "lastMessage", "systemCount", "messageCount", "requestTails"])
const itemKeys = new Set([...chatKeys, "lastRoleOfEachRequest", "sameMessagesAcrossRequests"])
/** What the consumer of a stream gets, part by part. */
const partKeys = new Set(["partsInOrder", "textAfterLastReset", "resets"])
/** What a client's own stream has no word for. */
const takenBackKeys = new Set(["partsInOrder", "resets"])

const droppedFor = (door: Door): ReadonlySet<string> =>
  new Set([
    ...(door.adapter === "anthropic" ? chatKeys : door.adapter === "responses" ? itemKeys : []),
    ...(door.surface === "complete" ? partKeys : door.surface === "client" ? takenBackKeys : [])
  ])

/** Arguments come back as an object on the messages API and are written anew: the spaces between are not the model's. */
const compact = (value: string): unknown => {
  const args = parsedObject(value)
  return args === null ? value : JSON.stringify(args)
}

/** Only a stream has something to take back. */
const withoutResets = (events: unknown): ReadonlyArray<unknown> =>
  listOf(events).filter((event) => !isObject(event) || event["_tag"] !== "AttemptReset")

const expectFor = (value: unknown, door: Door, dropped: ReadonlySet<string>): unknown => {
  if (Array.isArray(value)) return value.map((entry) => expectFor(entry, door, dropped))
  const isMessages = door.adapter === "anthropic"
  if (!isObject(value)) return isMessages && value === "OpenAIResponseError" ? "AnthropicResponseError" : value
  // A refusal is a stop reason of its own there.
  const isRefusal = isMessages && value["refusal"] !== undefined
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, inner]) => {
      if (key === "eventsInOrder" && door.surface === "complete") return [[key, withoutResets(inner)]]
      if (dropped.has(key) || (isRefusal && key === "finishReason")) return []
      if (isMessages && key === "arguments" && typeof inner === "string") return [[key, compact(inner)]]
      return [[key, expectFor(inner, door, dropped)]]
    })
  )
}

const callsOf = (raw: Json): ReadonlyArray<unknown> => [
  ...(isObject(raw["request"]) ? [raw["request"]] : []),
  ...listOf(raw["parallel"]),
  ...listOf(raw["script"]).flatMap((entry) => (isObject(entry) && entry["call"] !== undefined ? [entry["call"]] : []))
]

/** Whether the script's own calls are streams. */
export const streamsAtHome = (raw: Json): boolean =>
  callsOf(raw).some((call) => isObject(call) && call["stream"] === true)

const withStream = (call: unknown, stream: boolean): unknown => (isObject(call) ? { ...call, stream } : call)

const callsFor = (raw: Json, stream: boolean): Json => ({
  ...(raw["request"] === undefined ? {} : { request: withStream(raw["request"], stream) }),
  ...(raw["parallel"] === undefined
    ? {}
    : { parallel: listOf(raw["parallel"]).map((call) => withStream(call, stream)) }),
  ...(raw["script"] === undefined
    ? {}
    : {
        script: listOf(raw["script"]).map((entry) =>
          isObject(entry) && entry["call"] !== undefined ? { ...entry, call: withStream(entry["call"], stream) } : entry
        )
      })
})

/** Why a script says nothing at a door; null = it does. */
const boundTo = (raw: Json, door: Door, home: Adapter): string | null => {
  if (home !== door.adapter && raw["adapter"] !== undefined)
    return `its steps are in the form of the adapter ${String(raw["adapter"])}`
  if (home !== door.adapter && raw["profile"] !== undefined)
    return `it is about the provider profile ${String(raw["profile"])}`
  const config = isObject(raw["config"]) ? raw["config"] : {}
  if (config["env"] !== undefined) return "it is about the command's variables"
  if (home !== door.adapter && config["budgetParam"] !== undefined) return "it is about a field of the chat API"
  return null
}

/** The one function that writes a script for a door. */
export const rewrite = (raw: Json, door: Door): Rewritten => {
  const home = (raw["adapter"] as Scenario["adapter"]) ?? own
  const why = boundTo(raw, door, home)
  if (why !== null) return noLike(why)
  const isClient = door.surface === "client"
  const streams = isClient ? streamsAtHome(raw) : door.surface === "stream"
  const isSame = home === door.adapter && streams === streamsAtHome(raw)
  if (!isSame && home !== own) return noLike(`its steps are in the form of the adapter ${home}`)
  const form = { adapter: door.adapter, streams, isClient }
  const provider =
    isSame && !(isClient && streams && home === own)
      ? listOf(raw["provider"])
      : listOf(raw["provider"]).map((step) => stepFor(step, form))
  if (provider.includes(null))
    return noLike(
      streamsAtHome(raw) && !streams ? "a body cannot do what its stream does" : "an answer has no like on this API"
    )
  return {
    _tag: "Script",
    script: {
      ...raw,
      ...callsFor(raw, streams),
      adapter: door.adapter,
      ...(door.adapter === "anthropic" ? { profile: raw["profile"] ?? "anthropic" } : {}),
      provider,
      ...(raw["expect"] === undefined ? {} : { expect: expectFor(raw["expect"], door, droppedFor(door)) })
    }
  }
}
