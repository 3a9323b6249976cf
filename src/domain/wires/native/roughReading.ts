/**
 * Answers that the strict readers do not know in every part: several choices, sound, a finish reason of tomorrow. What
 * recovery needs is whether the answer is whole; the rest is the client's business.
 */
import * as Result from "effect/Result"
import { isObject, parsedObject, textOr, type Json } from "../../chat/json.ts"
import type { FinishReason, ModelPart, ModelReply } from "../../chat/ModelReply.ts"
import * as Usage from "../../chat/Usage.ts"
import { finishReasonOf, type Verdict } from "../../provider/classify.ts"
import { EventDataReader } from "../eventData.ts"
import type { EventReader } from "../EventReader.ts"
import { readUsage } from "../openAiMessage.ts"
import { Deviations, flaw, isFlaw, type Flaw, type ReadContext } from "../wireReply.ts"
import type { NativeWire } from "./NativeWire.ts"
import { objectsIn } from "./patch.ts"

type HeaderMap = Readonly<Record<string, string>>

/** A reply of which nothing more is known than that it is whole. */
export const roughReply = (
  context: ReadContext,
  text: string,
  finishReason: FinishReason,
  usage: Usage.Usage | null
): ModelReply => ({
  text: text === "" ? null : text,
  refusal: null,
  reasoning: null,
  reasoningParts: [],
  toolCalls: [],
  finishReason,
  usage: usage ?? Usage.unknown,
  model: context.model,
  servedModel: null,
  providerRequestId: context.requestId,
  warnings: []
})

const isWord = (value: unknown): boolean => typeof value === "string" && value !== ""

/** Whether a body is a whole answer of its API, whatever is in it. */
const isWhole: { readonly [Name in NativeWire["name"]]: (body: Json) => boolean } = {
  chat: (body) => {
    const choices = objectsIn(body["choices"])
    return (
      choices.length > 0 && choices.every((choice) => isObject(choice["message"]) && isWord(choice["finish_reason"]))
    )
  },
  messages: (body) => body["type"] === "message" && Array.isArray(body["content"]) && isWord(body["stop_reason"]),
  responses: (body) =>
    body["object"] === "response" &&
    Array.isArray(body["output"]) &&
    (body["status"] === "completed" || body["status"] === "incomplete")
}

/** What is still no answer, however roughly it is read. */
const isHopeless = (problem: Flaw): boolean =>
  problem.kind !== "malformed_response" || problem.code === "tool_call_not_whole"

/** Reads a body strictly, and roughly when only a part of it is not known. */
export const readBodyRoughly = (
  wire: NativeWire,
  context: ReadContext,
  text: string,
  headers: HeaderMap
): Result.Result<ModelReply, Flaw | Verdict> => {
  const strict = wire.readBody(context, text, headers)
  if (Result.isSuccess(strict) || !isFlaw(strict.failure) || isHopeless(strict.failure)) return strict
  const body = parsedObject(text)
  return body !== null && isWhole[wire.name](body)
    ? Result.succeed(roughReply(context, "", "stop", strict.failure.usage))
    : strict
}

/** Flaws of events that say nothing against the stream as a whole. */
const tolerated: ReadonlySet<string> = new Set([
  "finish_reason_unknown",
  "role_not_assistant",
  "usage_not_a_count",
  "usage_not_an_object",
  "legacy_function_call",
  "content_block_unknown"
])

/** A strict reader that passes over what it does not know. */
class TolerantReader implements EventReader {
  private readonly inner: EventReader
  private readonly context: ReadContext
  private isOdd = false
  private unknownFinish: FinishReason | null = null

  constructor(inner: EventReader, context: ReadContext) {
    this.inner = inner
    this.context = context
  }

  get parts(): Array<ModelPart> {
    return this.inner.parts
  }
  get usage(): Usage.Usage | null {
    return this.inner.usage
  }
  get done(): boolean {
    return this.inner.done
  }
  get finishReason(): FinishReason | null {
    return this.inner.finishReason ?? this.unknownFinish
  }

  onEvent(name: string | undefined, data: string): Flaw | Verdict | null {
    const problem = this.inner.onEvent(name, data)
    if (problem === null || !isFlaw(problem)) return problem
    // A finish word that nobody knows stands behind the code.
    const [code = ""] = problem.code.split(":")
    if (!tolerated.has(code)) return problem
    this.isOdd = true
    if (code === "finish_reason_unknown") this.unknownFinish = "stop"
    return null
  }

  reply(finishReason: FinishReason): ModelReply | Flaw {
    const reply = this.inner.reply(finishReason)
    if (!isFlaw(reply) || !this.isOdd || isHopeless(reply)) return reply
    return roughReply(this.context, "", finishReason, this.usage)
  }
}

/** Chunks of a chat stream with several choices, sound or calls of other kinds. */
class ChoicesReader implements EventReader {
  private readonly context: ReadContext
  private readonly events: EventDataReader
  private readonly choices: number
  private readonly finished = new Set<unknown>()
  private lastReason: FinishReason = "stop"
  private text = ""
  readonly parts: Array<ModelPart> = []
  usage: Usage.Usage | null = null
  done = false

  constructor(context: ReadContext, headers: HeaderMap, choices: number) {
    this.context = context
    this.events = new EventDataReader(context, headers)
    this.choices = choices
  }

  get finishReason(): FinishReason | null {
    return this.finished.size >= this.choices ? this.lastReason : null
  }

  onEvent(name: string | undefined, data: string): Flaw | Verdict | null {
    if (data.trim() === "[DONE]") {
      this.done = true
      return null
    }
    const read = this.events.read(name, data, this.usage)
    if (read._tag === "Problem") return read.problem
    if (read._tag === "Nothing") return null
    const chunk = read.value
    if (!isObject(chunk)) return flaw("chunk_not_an_object", this.usage)
    const usage = readUsage(this.context, new Deviations(), chunk["usage"])
    if (!isFlaw(usage) && usage !== null) {
      this.usage = usage
      this.parts.push({ _tag: "Usage", usage })
    }
    for (const choice of objectsIn(chunk["choices"])) this.onChoice(choice)
    return null
  }

  private onChoice(choice: Json): void {
    const delta = isObject(choice["delta"]) ? choice["delta"] : {}
    const content = textOr(delta, "content") ?? ""
    this.text += content
    if (content !== "" || isObject(delta["audio"])) this.parts.push({ _tag: "Text", text: content })
    if (Array.isArray(delta["tool_calls"]) || isObject(delta["function_call"]))
      this.parts.push({ _tag: "ToolCallDelta" })
    const reason = textOr(choice, "finish_reason") ?? ""
    if (reason === "") return
    this.finished.add(choice["index"] ?? 0)
    this.lastReason = finishReasonOf(this.context.profile, reason) ?? "stop"
  }

  reply(finishReason: FinishReason): ModelReply | Flaw {
    return roughReply(this.context, this.text, finishReason, this.usage)
  }
}

/** The reader for a stream: `choices` = how many are asked for; null = the wire's own, strict reader will do. */
export const readerOf = (
  wire: NativeWire,
  context: ReadContext,
  headers: HeaderMap,
  choices: number | null
): EventReader =>
  wire.name === "chat" && choices !== null
    ? new ChoicesReader(context, headers, choices)
    : new TolerantReader(wire.eventReaderOf(context, headers), context)
