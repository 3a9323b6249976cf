/** Which rule of the loop guard has spoken. */
import * as Schema from "effect/Schema"

export const Detector = Schema.Literals(["repeat", "ping_pong", "no_progress"])
export type Detector = typeof Detector.Type
