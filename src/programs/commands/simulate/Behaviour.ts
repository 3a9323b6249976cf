/** What a fleet's clients do: the world asks before every attempt and tells what came of it. Requests are numbers. */

/** Answers of `ask` and `failed` that are no instant and no wait. */
export const send = 0
export const giveUp = -1

/** Status of a rejection in the simulated world. */
export type RejectionStatus = 429 | 500 | 529

export interface Behaviour {
  readonly arrive: (request: number, process: number, background: boolean, now: number) => void
  /** Before an attempt: `send`, `giveUp`, or the later instant at which to ask again. */
  readonly ask: (request: number, now: number) => number
  /** The route of the attempt that is sent: 0 = primary. */
  readonly routeOf: (request: number) => number
  /** The provider took the call. */
  readonly accepted: (request: number, now: number) => void
  /** Milliseconds to wait before asking again, or `giveUp`. `hintMillis` is -1 without a hint. */
  readonly failed: (request: number, status: RejectionStatus, hintMillis: number, now: number) => number
  /** The reply is complete, or the time is over. */
  readonly ended: (request: number, completed: boolean, now: number) => void
  /** Instant after which a reply counts no more; Infinity = only the world's own limit. */
  readonly endOf: (request: number) => number
  /** Breakers of a route that are open now, over all processes. */
  readonly openBreakers: (route: number) => number
}
