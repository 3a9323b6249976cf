/** Where recovery tells what it does. Optional: without the service nothing is built or sent. */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { RecoveryEvent } from "../domain/recovery/RecoveryEvent.ts"

/** `emit` never fails a request. Telemetry, progress display and logs subscribe to `events`. */
export class RecoveryEvents extends Context.Service<
  RecoveryEvents,
  {
    readonly emit: (event: RecoveryEvent) => Effect.Effect<void>
    readonly events: Stream.Stream<RecoveryEvent>
  }
>()("holdfast/services/RecoveryEvents") {}
