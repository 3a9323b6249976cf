/** Chunks of one stream of OpenAI's chat wire, as they come. */
import { isObject, isText, type Json } from "../chat/json.ts"
import type { FinishReason, ModelPart, ModelReply } from "../chat/ModelReply.ts"
import * as Usage from "../chat/Usage.ts"
import { finishReasonOf, type Verdict } from "../provider/classify.ts"
import type { EventReader } from "./EventReader.ts"
import { EventDataReader } from "./eventData.ts"
import { SameForm } from "./SameForm.ts"
import { withPieces, type Fields } from "./furtherFields.ts"
import { CallFragments } from "./openAiCalls.ts"
import {
  furtherOf,
  addFurtherOfBody,
  furtherOfChoice,
  isLegacyCall,
  readContent,
  readThoughts,
  readUsage,
  textAt,
  toReply
} from "./openAiMessage.ts"
import {
  Deviations,
  flaw,
  flawOfCalls,
  isFlaw,
  unknownFinish,
  type Flaw,
  type HeaderMap,
  type ReadContext
} from "./wireReply.ts"

/** The text of a chunk that says nothing else; null = it does, or has none. What stands in the body itself is the same each time. */
const textAlone = (chunk: unknown): string | null => {
  const choices = isObject(chunk) && (chunk["usage"] ?? null) === null ? chunk["choices"] : null
  const choice: unknown = Array.isArray(choices) ? choices[0] : null
  const delta = isObject(choice) && isNothingOf(choice, "delta", "index") ? choice["delta"] : null
  if (!isObject(delta) || !isNothingOf(delta, "content", "role")) return null
  const { content } = delta
  return isText(content) && content !== "" ? content : null
}

/** All but these fields are null. */
const isNothingOf = (object: Json, first: string, second: string): boolean => {
  for (const key in object) if (key !== first && key !== second && object[key] !== null) return false
  return true
}

class ChunkReader implements EventReader {
  private readonly context: ReadContext
  private readonly events: EventDataReader
  private readonly deviations = new Deviations()
  private readonly form = new SameForm("content")
  readonly parts: Array<ModelPart> = []
  private text: string | null = null
  private thoughts: { readonly field: string; text: string } | null = null
  private refusal = ""
  private readonly calls: CallFragments
  finishReason: FinishReason | null = null
  usage: Usage.Usage | null = null
  private servedModel: string | null = null
  private answerId = ""
  private readonly extra: Fields = {}
  private readonly choiceFields: Fields = {}
  private readonly bodyFields: Fields = {}
  /** `[DONE]` was read. */
  done = false

  constructor(context: ReadContext, headers: HeaderMap) {
    this.context = context
    this.events = new EventDataReader(context, headers)
    this.calls = new CallFragments(() => ({ context, deviations: this.deviations, answerId: this.answerId }))
  }

  reply(finishReason: FinishReason): ModelReply | Flaw {
    if (finishReason !== "length" && this.calls.hasOverrun) return flaw("tool_call_not_whole", this.usage)
    const toolCalls = this.calls.calls()
    const faulty = flawOfCalls(toolCalls, finishReason, this.usage)
    if (faulty !== null) return faulty
    if (finishReason !== "length") this.announce(true)
    return toReply(this.context, {
      text: this.text,
      refusal: this.refusal === "" ? null : this.refusal,
      thoughts: this.thoughts,
      toolCalls,
      finishReason,
      usage: this.usage,
      servedModel: this.servedModel,
      warnings: this.deviations.sentences(),
      extra: this.extra,
      details: { ...this.bodyFields, ...this.choiceFields }
    })
  }

  private announce(isOver: boolean): void {
    for (const call of this.calls.announced(isOver)) this.parts.push({ _tag: "ToolCall", call })
  }

  /** The same flaw with the usage seen so far. */
  private told(problem: Flaw): Flaw {
    return { ...problem, usage: this.usage }
  }

  onEvent(name: string | undefined, data: string): Flaw | Verdict | null {
    const same = this.form.textIn(name, data)
    if (same !== null) return this.onText({ content: same })
    if (data.trim() === "[DONE]") {
      this.done = true
      return null
    }
    const read = this.events.read(name, data, this.usage)
    if (read._tag === "Problem") return read.problem
    if (read._tag === "Nothing") return null
    const problem = this.onChunk(read.value)
    const text = problem === null ? textAlone(read.value) : null
    if (text !== null) this.form.remember(name, data, text)
    return problem
  }

  private onChunk(chunk: unknown): Flaw | null {
    if (!isObject(chunk)) return flaw("chunk_not_an_object", this.usage)
    const { model, id } = chunk
    if (isText(model) && model !== "") this.servedModel = model
    if (isText(id) && this.answerId === "") this.answerId = id
    addFurtherOfBody(this.bodyFields, chunk)
    const usage = readUsage(this.context, this.deviations, chunk["usage"])
    if (isFlaw(usage)) return this.told(usage)
    if (usage !== null) {
      this.usage = this.usage === null ? usage : Usage.update(this.usage, usage)
      this.parts.push({ _tag: "Usage", usage: this.usage })
    }
    const choices = chunk["choices"]
    if (choices === undefined || choices === null) return null
    if (!Array.isArray(choices)) return flaw("choices_not_a_list", this.usage)
    if (choices.length === 0) return null
    const choice: unknown = choices[0]
    if (choices.length > 1 || !isObject(choice)) return flaw("several_choices", this.usage)
    if (choice["index"] !== undefined && choice["index"] !== 0) return flaw("several_choices", this.usage)
    return this.onChoice(choice)
  }

  private onChoice(choice: Json): Flaw | null {
    withPieces(this.choiceFields, furtherOfChoice(choice))
    const problem = this.onDelta(this.deltaOf(choice))
    if (problem !== null) return this.told(problem)
    const reason = choice["finish_reason"]
    if (reason === undefined || reason === null || reason === "") return null
    const finishReason = isText(reason) ? finishReasonOf(this.context.profile, reason) : null
    if (finishReason === null) return unknownFinish(reason, this.usage)
    this.finishReason ??= finishReason
    return null
  }

  /** Some servers put the whole message where the first delta belongs. */
  private deltaOf(choice: Json): unknown {
    const { delta, message } = choice
    const isFirst = this.text === null && this.calls.isEmpty && this.thoughts === null
    return (delta === undefined || delta === null) && !this.context.profile.exact && isFirst ? message : delta
  }

  private onDelta(delta: unknown): Flaw | null {
    if (delta === undefined || delta === null) return null
    if (!isObject(delta)) return flaw("delta_not_an_object")
    const { role } = delta
    if (role !== undefined && role !== null && role !== "" && role !== "assistant") return flaw("role_not_assistant")
    if (isLegacyCall(this.context, delta["function_call"])) return flaw("legacy_function_call")
    withPieces(this.extra, furtherOf(delta))
    return this.onText(delta) ?? this.onCalls(delta["tool_calls"])
  }

  private onText(delta: Json): Flaw | null {
    const thoughts = readThoughts(delta)
    if (thoughts !== null) this.think(thoughts.field, thoughts.text)
    const content = readContent(this.context, this.deviations, delta["content"])
    if (isFlaw(content)) return content
    this.think("reasoning_content", content.thinking)
    if (content.others.length > 0) withPieces(this.extra, { content_parts: content.others })
    if (content.text !== null) this.text = (this.text ?? "") + content.text
    if (content.text !== null && content.text !== "") this.parts.push({ _tag: "Text", text: content.text })
    const refusal = textAt(delta, "refusal")
    if (refusal === undefined) return flaw("refusal_not_text")
    if (refusal !== null) this.refusal += refusal
    return null
  }

  private think(field: string, text: string): void {
    if (text === "") return
    this.thoughts = { field: this.thoughts?.field ?? field, text: (this.thoughts?.text ?? "") + text }
    this.parts.push({ _tag: "Reasoning", text })
  }

  private onCalls(raw: unknown): Flaw | null {
    if (raw === undefined || raw === null) return null
    if (!Array.isArray(raw)) return flaw("tool_calls_not_a_list")
    for (const call of raw) {
      const problem = this.calls.take(call)
      if (problem !== null) return problem
      this.parts.push({ _tag: "ToolCallDelta" })
    }
    this.announce(false)
    return null
  }
}

/** Assembles the chunks of one stream. */
export const eventReaderOf = (context: ReadContext, headers: HeaderMap): EventReader =>
  new ChunkReader(context, headers)
