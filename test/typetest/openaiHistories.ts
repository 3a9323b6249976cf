/** Histories and tools typed by the `openai` package are taken as they are, and mistakes in literals still do not compile. */
import type OpenAI from "openai"
import type { ChatCompletionMessageParam, ChatCompletionTool } from "openai/resources/chat/completions"
import type * as Effect from "effect/Effect"
import { ConversationMemory, type Conversation } from "../../src/agent.ts"
import type { Message, ModelRequest, Recovery, RequestInput, ToolSpec } from "../../src/index.ts"
import type { PromiseRecovery } from "../../src/promise.ts"

declare const history: Array<ChatCompletionMessageParam>
declare const frozen: ReadonlyArray<ChatCompletionMessageParam>
declare const tools: Array<ChatCompletionTool>
declare const functions: Array<OpenAI.ChatCompletionFunctionTool>
declare const completion: OpenAI.ChatCompletion
declare const recovery: PromiseRecovery
declare const service: (typeof Recovery)["Service"]
declare const ours: ReadonlyArray<Message>
declare const specs: ReadonlyArray<ToolSpec>
declare const reply: OpenAI.ChatCompletionMessage
declare const user: OpenAI.ChatCompletionUserMessageParam
declare const assistant: OpenAI.ChatCompletionAssistantMessageParam
declare const result: OpenAI.ChatCompletionToolMessageParam
declare const system: OpenAI.ChatCompletionSystemMessageParam
declare const developer: OpenAI.ChatCompletionDeveloperMessageParam
declare const parts: Array<OpenAI.ChatCompletionContentPart>

export const requests: ReadonlyArray<RequestInput> = [
  { messages: history },
  { messages: frozen, tools },
  { messages: history, tools: functions, maxOutputTokens: 10, params: { temperature: 0 } },
  { messages: [...history, reply] },
  { messages: [system, developer, user, assistant, result, reply] },
  { messages: [{ role: "user", content: parts }] },
  { messages: completion.choices.map((choice) => choice.message) },
  { messages: [...ours, ...history], tools: [...specs, ...tools] },
  // Further fields of a provider travel with a literal, as they did.
  { messages: [{ role: "user", content: [{ type: "text", text: "go", cache_control: { type: "ephemeral" } }], x: 1 }] }
]

export const called: ReadonlyArray<unknown> = [
  recovery.complete({ messages: history, tools }),
  recovery.stream({ messages: history }),
  service.complete({ messages: history, tools }),
  service.stream({ messages: [...history, reply] })
]

export const inTurn = recovery.turn((turn) => turn.complete({ messages: history, tools }))
export const conversation: Effect.Effect<Conversation> = ConversationMemory.make(history)
export const narrow: RequestInput = {} as ModelRequest

// @ts-expect-error a role that nobody has
export const badRole: RequestInput = { messages: [{ role: "robot", content: "go" }] }
// @ts-expect-error a tool without its function
export const badTool: RequestInput = { messages: history, tools: [{ type: "function", name: "x" }] }
// @ts-expect-error a field of the provider's body belongs into params
export const badField: RequestInput = { messages: history, temperature: 0 }
// @ts-expect-error a result without the id of its call
export const badResult: RequestInput = { messages: [{ role: "tool", content: "done" }] }
const call = { id: "a", type: "function", function: { name: "n", arguments: {} } } as const
// @ts-expect-error a call whose arguments are no text
export const badCall: RequestInput = { messages: [{ role: "assistant", tool_calls: [call] }] }
