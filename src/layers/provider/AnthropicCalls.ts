/** Anthropic's own client asked as a program asks it: a body goes in, what the SDK gives back comes out. */
import Anthropic from "@anthropic-ai/sdk"
import type { ClientCall } from "./ClientCall.ts"

export const messages: ClientCall = async ({ wrap, fetch, ...options }, body, signal, onText) => {
  const client = wrap(new Anthropic({ ...options, fetch: fetch as never }))
  // A body of the wire's own making is what the SDK's types describe.
  if (onText === null) return client.messages.create(body as never, { signal })
  const stream = client.messages.stream(body as never, { signal })
  stream.on("text", onText)
  return stream.finalMessage()
}
