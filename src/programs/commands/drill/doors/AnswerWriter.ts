/** Writes what an answer tells as the bytes of one API's stream. */
import type { Pieces } from "./Telling.ts"

export interface AnswerWriter {
  readonly write: (pieces: Pieces) => string
  /** What is still to be said when the provider closes; "" = nothing. */
  readonly end: () => string
}
