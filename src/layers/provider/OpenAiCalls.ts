/** OpenAI's own client asked as a program asks it, for both of its APIs: a body goes in, what the SDK gives back comes out. */
import OpenAI from "openai"
import type { Json } from "../../domain/chat/json.ts"
import type { ClientCall } from "./ClientCall.ts"

const clientOf = ({ wrap, fetch, ...options }: Parameters<ClientCall>[0]): OpenAI =>
  wrap(new OpenAI({ ...options, fetch: fetch as never }))

/** A body of the wire's own making is what the SDK's types describe; no call narrows it further. */
const given = (body: Json): never => body as never

export const chat: ClientCall = async (options, body, signal, onText) => {
  const { completions } = clientOf(options).chat
  if (onText === null) return completions.create(given(body), { signal })
  const stream = completions.stream(given(body), { signal })
  stream.on("content", onText)
  return stream.finalChatCompletion()
}

export const responses: ClientCall = async (options, body, signal, onText) => {
  const client = clientOf(options)
  if (onText === null) return client.responses.create(given(body), { signal })
  const stream = client.responses.stream(given(body), { signal })
  stream.on("response.output_text.delta", ({ delta }) => onText(delta))
  return stream.finalResponse()
}
