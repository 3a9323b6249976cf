/** Calls a provider once. Never retries, never waits: that is Recovery's job. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { ModelError } from "../domain/failure/ModelError.ts"
import type { ModelPart, ModelReply } from "../domain/chat/ModelReply.ts"
import type { WireRequest } from "../domain/chat/ModelRequest.ts"

/**
 * Who may call it: Recovery for the main conversation; titles, memory and summaries directly, as side tasks. A stream
 * emits one array of parts per network read, then ends with an `End` part that holds the whole reply.
 */
export class ModelClient extends Context.Service<
  ModelClient,
  {
    readonly generate: (request: WireRequest) => Effect.Effect<ModelReply, ModelError>
    readonly stream: (request: WireRequest) => Stream.Stream<ModelPart, ModelError>
    /**
     * Names the provider and key it speaks for, never the key itself. Clients of one identity share the health of their
     * routes; without one a client shares it with no other object.
     */
    readonly identity?: string
    /** Name of the provider, for whoever traces: the profile's. */
    readonly provider?: string
  }
>()("holdfast/services/ModelClient") {}
