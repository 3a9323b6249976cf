/** How much of one answer is read, in bytes as they are after decompression: past it the connection is closed. */
export interface AnswerLimits {
  /** A whole answer, streamed or not. */
  readonly replyBytes: number
  /** One event of a stream. */
  readonly eventBytes: number
  /** The body of a failed answer; status and headers say enough when it is longer. */
  readonly errorBytes: number
}

const mebibyte = 1_048_576

/** Generous: pictures and sound fit, a bomb does not. */
export const answerLimits: AnswerLimits = {
  replyBytes: 64 * mebibyte,
  eventBytes: 16 * mebibyte,
  errorBytes: mebibyte
}
