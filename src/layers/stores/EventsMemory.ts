/** RecoveryEvents in memory: every subscriber of `events` gets what is emitted from then on. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as PubSub from "effect/PubSub"
import * as Stream from "effect/Stream"
import type { RecoveryEvent } from "../../domain/recovery/RecoveryEvent.ts"
import { RecoveryEvents } from "../../services/RecoveryEvents.ts"

/** Events a slow subscriber may be behind; older ones are dropped for it, a request never waits for a log. */
const backlog = 4_096

export const layer: Layer.Layer<RecoveryEvents> = Layer.effect(
  RecoveryEvents,
  Effect.map(PubSub.sliding<RecoveryEvent>(backlog), (hub) =>
    RecoveryEvents.of({ emit: (event) => Effect.asVoid(PubSub.publish(hub, event)), events: Stream.fromPubSub(hub) })
  )
)

/** Hands every event to a function, in order; the function must not fail. */
export const layerTo = (receive: (event: RecoveryEvent) => Effect.Effect<void>): Layer.Layer<RecoveryEvents> =>
  Layer.succeed(RecoveryEvents, RecoveryEvents.of({ emit: receive, events: Stream.empty }))
