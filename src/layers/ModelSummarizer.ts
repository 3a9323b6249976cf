/**
 * A Summarizer on the raw client: one request per window of old messages, folded into one text. It never waits and never
 * retries a fault; when its own input is too long it folds in smaller windows.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { head, tail } from "../domain/chat/codePoints.ts"
import { isAssistant, textOf, type Message } from "../domain/chat/Message.ts"
import { groupsOf } from "../domain/chat/MessageGroups.ts"
import { makeModelError } from "../domain/failure/ModelError.ts"
import type { ModelReply } from "../domain/chat/ModelReply.ts"
import type { WireRequest } from "../domain/chat/ModelRequest.ts"
import { ofMessage } from "../domain/chat/TokenEstimate.ts"
import * as Usage from "../domain/chat/Usage.ts"
import { ModelClient } from "../services/ModelClient.ts"
import { Summarizer, type SummaryRequest } from "../services/Summarizer.ts"
import { refuseUnknown } from "../domain/failure/unknownOptions.ts"

export interface SummarizerOptions {
  /** The model that writes summaries. */
  readonly model: string
  /** Replaces the instructions the model gets. */
  readonly instructions?: string
}

const optionNames: ReadonlyArray<string> = ["model", "instructions"] satisfies ReadonlyArray<keyof SummarizerOptions>

/** What a model is told that summarises. */
export const defaultInstructions =
  "Summarise the conversation below so that an assistant can go on with the work from your summary alone. Keep goals, rules, decisions, file names, identifiers, open questions and results of tools. Leave out pleasantries. Write plain text."

/** How often the input is halved when even a summary request is too long. */
const maxHalvings = 3
const charsPerToken = 4

/** One message as a line of a transcript. Tool calls and results become text, so no pairing can break. */
const render = (message: Message): string => {
  if (message.role === "tool") return `tool result ${message.tool_call_id}: ${textOf(message)}`
  const calls = isAssistant(message)
    ? (message.tool_calls ?? []).map((call) => `\n  calls ${call.function.name}(${call.function.arguments})`).join("")
    : ""
  return `${message.role}: ${textOf(message)}${calls}`
}

const cutMark = " [...] "

/** A text cut in the middle to a number of characters: beginning and end say most. */
const trimMiddle = (text: string, limit: number): string => {
  if (text.length <= limit) return text
  const half = Math.max(1, Math.floor((limit - cutMark.length) / 2))
  return `${head(text, half)}${cutMark}${tail(text, half)}`
}

/** Units packed into windows of at most so many tokens; a larger unit is trimmed. */
const windowsOf = (messages: ReadonlyArray<Message>, maxTokens: number): ReadonlyArray<string> => {
  const windows: Array<string> = []
  let current = ""
  let tokens = 0
  for (const group of groupsOf(messages)) {
    const size = group.reduce((sum, message) => sum + ofMessage(message), 0)
    if (tokens > 0 && tokens + size > maxTokens) {
      windows.push(current)
      current = ""
      tokens = 0
    }
    current += `${current === "" ? "" : "\n\n"}${trimMiddle(group.map(render).join("\n"), maxTokens * charsPerToken)}`
    tokens += size
  }
  return current === "" ? windows : [...windows, current]
}

/** A summary that is cut, refused or empty must never replace history. */
const flawOf = (reply: ModelReply): string | null => {
  if (reply.refusal !== null) return "summary_refused"
  if (reply.finishReason === "length" || reply.finishReason === "window_full") return "summary_truncated"
  if (reply.finishReason === "content_filter") return "summary_filtered"
  return reply.text === null || reply.text.trim() === "" ? "summary_empty" : null
}

export const make = (client: (typeof ModelClient)["Service"], options: SummarizerOptions) => {
  refuseUnknown(options, optionNames)
  const ask = Effect.fnUntraced(function* (request: SummaryRequest, before: string, window: string) {
    const wire: WireRequest = {
      messages: [
        { role: "system", content: options.instructions ?? defaultInstructions },
        {
          role: "user",
          content: before === "" ? window : `Summary of what came before:\n${before}\n\nWhat follows it:\n${window}`
        }
      ],
      model: options.model,
      maxOutputTokens: request.maxOutputTokens,
      role: "summarizer"
    }
    const call = client.generate(wire)
    const reply = yield* request.book === undefined ? call : request.book(wire, call)
    const flaw = flawOf(reply)
    if (flaw !== null)
      return yield* Effect.fail(
        makeModelError({ kind: "malformed_response", status: 200, code: flaw, model: options.model })
      )
    return { text: reply.text ?? "", usage: reply.usage }
  })

  const fold = Effect.fnUntraced(function* (request: SummaryRequest, maxTokens: number) {
    let text = ""
    let usage = Usage.unknown
    for (const window of windowsOf(request.messages, maxTokens)) {
      const summary = yield* ask(request, text, window)
      text = summary.text
      usage = Usage.sum(usage, summary.usage)
    }
    return { text, usage }
  })

  return Summarizer.of({
    summarize: (request) => {
      const estimate = request.messages.reduce((sum, message) => sum + ofMessage(message), 0)
      const attempt = (maxTokens: number, halvings: number): ReturnType<typeof fold> =>
        fold(request, maxTokens).pipe(
          Effect.catchTag("ModelPromptTooLongError", (error) =>
            halvings < maxHalvings
              ? attempt(Math.max(1, Math.floor(Math.min(maxTokens, estimate) / 2)), halvings + 1)
              : Effect.fail(error)
          )
        )
      return attempt(request.maxInputTokens, 0)
    }
  })
}

/** Summaries by `options.model` through the ModelClient of the context. */
export const layer = (options: SummarizerOptions): Layer.Layer<Summarizer, never, ModelClient> => {
  refuseUnknown(options, optionNames)
  return Layer.effect(
    Summarizer,
    Effect.map(ModelClient, (client) => make(client, options))
  )
}
