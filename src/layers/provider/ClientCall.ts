/** One call of an API's own client. */
import type { Json } from "../../domain/chat/json.ts"
import type { Fetch } from "./undiciFetch.ts"

export interface ClientOptions {
  readonly apiKey: string
  readonly baseURL: string
  readonly fetch: Fetch
  readonly defaultHeaders: Readonly<Record<string, string>>
  /** What is made of the client before it is asked. */
  readonly wrap: <C extends object>(client: C) => C
}

/** Told of every piece of text as the SDK's own accumulator tells it. */
export type OnText = (text: string) => void

/** What the SDK gives back; with `onText` as the end of a stream. */
export type ClientCall = (
  options: ClientOptions,
  body: Json,
  signal: AbortSignal,
  onText: OnText | null
) => Promise<unknown>
