/** Keeps the messages as they were before a compaction. Optional; without the service nothing is kept. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { Message } from "../domain/chat/Message.ts"

export interface Snapshot {
  readonly requestId: string
  readonly messages: ReadonlyArray<Message>
}

/** `record` never fails a request: what cannot be written is reported in the log. */
export class Transcript extends Context.Service<
  Transcript,
  { readonly record: (snapshot: Snapshot) => Effect.Effect<void> }
>()("holdfast/services/Transcript") {}
