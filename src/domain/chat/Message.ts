/**
 * Messages and tools in the shape of OpenAI's chat API, whatever the adapter. Unknown fields and content parts are kept
 * and sent as they are: mapping is lossless.
 *
 * Three kinds of fields belong to holdfast and never travel as themselves: `reasoning_parts` (sent only to the model
 * that made them), `provider_meta` on a tool call (the same), and `usage` (never sent).
 */
import type { Usage } from "./Usage.ts"

/** A part of a message's content: text, image, audio, file or what a provider adds. Unknown parts pass through. */
export interface ContentPart {
  readonly type: string
  readonly [field: string]: unknown
}

/** Thinking bound to the model that produced it. `signature` is opaque. */
export interface ReasoningPart {
  readonly model: string
  readonly text: string
  readonly signature?: string
  readonly [field: string]: unknown
}

/** Data a provider attached to a tool call or a message, bound to `model`: what it wants back goes to that model only. */
export interface ProviderMeta {
  readonly model: string
  readonly [field: string]: unknown
}

/** A tool call inside an assistant message. `arguments` is the JSON text exactly as the model wrote it. */
export interface MessageToolCall {
  readonly id: string
  readonly type: "function"
  readonly function: { readonly name: string; readonly arguments: string }
  readonly provider_meta?: ProviderMeta
  readonly [field: string]: unknown
}

interface MessageFields {
  readonly [field: string]: unknown
}

/** Rules that come first and stay first: `system`, or `developer` where the provider calls it so. */
export interface SystemMessage extends MessageFields {
  readonly role: "system" | "developer"
  readonly content: string | ReadonlyArray<ContentPart>
}

export interface UserMessage extends MessageFields {
  readonly role: "user"
  readonly content: string | ReadonlyArray<ContentPart>
}

/** A reply in the history. `usage` is the usage of the request that produced it: the base of the token estimate. */
export interface AssistantMessage extends MessageFields {
  readonly role: "assistant"
  readonly content?: string | null | ReadonlyArray<ContentPart>
  readonly refusal?: string | null
  readonly tool_calls?: ReadonlyArray<MessageToolCall>
  readonly reasoning_parts?: ReadonlyArray<ReasoningPart>
  readonly provider_meta?: ProviderMeta
  readonly usage?: Usage
}

/** The result of one tool call, paired with its call by adjacency and `tool_call_id`. */
export interface ToolMessage extends MessageFields {
  readonly role: "tool"
  readonly tool_call_id: string
  readonly content: string | ReadonlyArray<ContentPart>
}

export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage

/** A tool as the model sees it: name, description and a JSON Schema of the arguments. */
export interface ToolSpec {
  readonly type: "function"
  readonly function: {
    readonly name: string
    readonly description?: string
    readonly parameters?: unknown
    readonly [field: string]: unknown
  }
  readonly [field: string]: unknown
}

interface PartInput {
  readonly type: string
}

type ToolCallInput =
  | {
      readonly id: string
      readonly type: "function"
      readonly function: { readonly name: string; readonly arguments: string }
    }
  | { readonly id: string; readonly type: "custom"; readonly custom: object }

/**
 * What is accepted as a message: ours, and those typed by the `openai` package, whose interfaces have no place for
 * unknown fields. A legacy function message and a custom tool call have a type there and are refused before they are sent.
 */
export type MessageInput =
  | Message
  | { readonly role: "system" | "developer" | "user"; readonly content: string | ReadonlyArray<PartInput> }
  | {
      readonly role: "assistant"
      readonly content?: string | null | ReadonlyArray<PartInput>
      readonly refusal?: string | null
      readonly tool_calls?: ReadonlyArray<ToolCallInput>
    }
  | {
      readonly role: "tool"
      readonly tool_call_id: string
      readonly content: string | ReadonlyArray<PartInput>
    }
  | { readonly role: "function"; readonly name: string; readonly content: string | null }

/** What is accepted as a tool: ours, and those typed by the `openai` package. A custom tool is refused before it is sent. */
export type ToolInput =
  | ToolSpec
  | {
      readonly type: "function"
      readonly function: {
        readonly name: string
        readonly description?: string
        readonly parameters?: object
        readonly strict?: boolean | null
      }
    }
  | { readonly type: "custom"; readonly custom: object }

const roles: ReadonlySet<unknown> = new Set(["system", "developer", "user", "assistant", "tool"])

/** Whether a JSON value has the shape of a message; unknown fields are fine. */
export const isMessage = (value: unknown): value is Message => {
  if (typeof value !== "object" || value === null || !("role" in value) || !roles.has(value.role)) return false
  const content = "content" in value ? value.content : undefined
  const isEmpty = content === undefined || content === null
  if (!(typeof content === "string" || Array.isArray(content) || (isEmpty && value.role === "assistant"))) return false
  return value.role !== "tool" || ("tool_call_id" in value && typeof value.tool_call_id === "string")
}

/** Whether a JSON value has the shape of a tool the model can be told of. */
export const isToolSpec = (value: unknown): value is ToolSpec =>
  typeof value === "object" &&
  value !== null &&
  "type" in value &&
  value.type === "function" &&
  "function" in value &&
  typeof value.function === "object" &&
  value.function !== null &&
  "name" in value.function &&
  typeof value.function.name === "string"

export const isSystem = (message: Message): message is SystemMessage =>
  message.role === "system" || message.role === "developer"

export const isAssistant = (message: Message): message is AssistantMessage => message.role === "assistant"

/** The visible text of a message; content parts without text count as nothing. */
export const textOf = (message: Message): string => {
  const content = message.content
  if (typeof content === "string") return content
  if (content === null || content === undefined) return ""
  return content.map((part) => (typeof part["text"] === "string" ? part["text"] : "")).join("")
}

/** Messages without any thinking, for a model that does not take it back. */
export const withoutThinking = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> =>
  messages.map((message) => {
    if (!isAssistant(message) || message.reasoning_parts === undefined) return message
    const { reasoning_parts: _, ...rest } = message
    return rest
  })

const isForeign = (bound: { readonly model: string } | undefined, model: string): boolean =>
  bound !== undefined && bound.model !== model

/**
 * Messages without the parts that are bound to another model: thinking and tool-call data of a model that is not asked
 * now. Messages without such parts are the same objects; the history keeps everything.
 */
export const withoutForeign = (messages: ReadonlyArray<Message>, model: string): ReadonlyArray<Message> =>
  messages.map((message) => {
    if (!isAssistant(message)) return message
    const parts = message.reasoning_parts
    const calls = message.tool_calls
    const hasForeignPart = parts?.some((part) => isForeign(part, model)) === true
    const hasForeignCall = calls?.some((call) => isForeign(call.provider_meta, model)) === true
    const isForeignMessage = isForeign(message.provider_meta, model)
    if (!hasForeignPart && !hasForeignCall && !isForeignMessage) return message
    const { reasoning_parts: _, provider_meta: meta, ...rest } = message
    const own = parts?.filter((part) => part.model === model) ?? []
    return {
      ...rest,
      ...(own.length === 0 ? {} : { reasoning_parts: own }),
      ...(meta === undefined || isForeignMessage ? {} : { provider_meta: meta }),
      ...(calls === undefined
        ? {}
        : {
            tool_calls: calls.map((call) => {
              if (!isForeign(call.provider_meta, model)) return call
              const { provider_meta: __, ...plain } = call
              return { ...plain, id: call.id, type: call.type, function: call.function }
            })
          })
    }
  })
