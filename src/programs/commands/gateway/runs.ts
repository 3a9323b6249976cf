/**
 * Answers that a client can come back for: a request with a run id goes on when its client is gone, and whoever brings the
 * same id gets the same bytes from an offset. The provider is asked once. What is kept is bounded in time and in bytes.
 */
import { withLine } from "../../request/ByteSource.ts"
import type { Answer } from "./Answer.ts"
import { behindEvent } from "./behindEvent.ts"
import { behindBytes, Run } from "./Run.ts"

/** How long an answer is kept after its end. */
const keptMillis = 600_000
/** Bytes of one answer, and of all answers: what is older goes first. */
const keptBytes = 4 * 1024 * 1024
const allBytes = 64 * 1024 * 1024
/** Runs under one roof: more than an admission limit of requests needs. */
const keptRuns = 10_000
/** Old answers are looked for so often. */
const sweepMillis = 1_000

export interface RunLimits {
  readonly keptMillis: number
  readonly keptBytes: number
  readonly allBytes: number
  readonly keptRuns: number
}

const defaults: RunLimits = { keptMillis, keptBytes, allBytes, keptRuns }

/** What a client gets that comes for a run. */
export type Attached =
  | { readonly _tag: "Answer"; readonly answer: Answer }
  /** The id is another request's. */
  | { readonly _tag: "Other" }
  /** These bytes are not kept any more. */
  | { readonly _tag: "Gone" }
  /** The answer has ended before the offset. */
  | { readonly _tag: "Beyond" }

export interface Runs {
  /** Joins the run of this id, or begins it by asking. `digest` tells requests of one id apart. */
  readonly attach: (id: string, digest: string, offset: number, ask: () => Promise<Answer>) => Promise<Attached>
  /** The run of this id is also known by the id of its response. */
  readonly name: (id: string, response: string) => void
  /** The events of a response behind this one; null = no run has them all, or it failed: its provider may know more. */
  readonly rejoin: (response: string, after: number) => Promise<Answer | null>
  readonly bytes: () => number
  readonly count: () => number
}

const eventsBehind = async (run: Run | undefined, after: number): Promise<Answer | null> => {
  if (run === undefined || run.hasFailed || run.base > 0) return null
  const { status, lines } = await run.head
  return {
    status,
    lines,
    body: behindEvent(
      run.reader(0, () => undefined),
      after
    )
  }
}

export const makeRuns = (now: () => number, limits: RunLimits = defaults): Runs => {
  const runs = new Map<string, Run>()
  const responses = new Map<string, Run>()
  let bytes = 0
  let sweptAt = -Infinity

  const forget = (id: string, run: Run): void => {
    if (runs.get(id) === run) runs.delete(id)
    if (run.response !== null && responses.get(run.response) === run) responses.delete(run.response)
    bytes -= run.drop(Infinity)
  }

  const isFull = (): boolean => bytes > limits.allBytes || runs.size > limits.keptRuns

  /** The oldest of those that have ended and have no reader go first. */
  const sweep = (): void => {
    const at = now()
    if (!isFull() && at - sweptAt < sweepMillis) return
    sweptAt = at
    for (const [id, run] of runs) {
      const { endedAt } = run
      if (endedAt === null) continue
      if (at - endedAt > limits.keptMillis || (!run.isRead && isFull())) forget(id, run)
    }
  }

  const onHeld = (run: Run, by: number): void => {
    bytes += by
    if (run.isOver) run.endedAt ??= now()
    if (run.held > limits.keptBytes) bytes -= run.drop(run.held - limits.keptBytes)
    if (bytes <= limits.allBytes) return
    sweep()
    // All that is left is being read or written: the start of this one goes.
    if (bytes > limits.allBytes && run.held > behindBytes) bytes -= run.drop(run.held - behindBytes)
  }

  const begin = (id: string, digest: string, ask: () => Promise<Answer>): Run => {
    const run = new Run(digest, ask, onHeld)
    runs.set(id, run)
    run.head.catch(() => forget(id, run))
    return run
  }

  return {
    attach: async (id, digest, offset, ask) => {
      sweep()
      const found = runs.get(id)
      if (found !== undefined && found.digest !== digest) return { _tag: "Other" }
      const run = found ?? begin(id, digest, ask)
      const { status, lines } = await run.head
      if (offset < run.base) return { _tag: "Gone" }
      if (run.isOver && offset > run.end) return { _tag: "Beyond" }
      // A failure that was told is over: who asks again means a new request.
      const body = run.reader(offset, () => {
        if (status >= 400) forget(id, run)
      })
      const named = withLine(lines, "x-holdfast-run-id", id.slice(id.indexOf("\u0000") + 1))
      return { _tag: "Answer", answer: { status, lines: withLine(named, "x-holdfast-offset", String(offset)), body } }
    },
    name: (id, response) => {
      const run = runs.get(id)
      if (run === undefined) return
      run.response = response
      responses.set(response, run)
    },
    rejoin: (response, after) => {
      sweep()
      return eventsBehind(responses.get(response), after)
    },
    bytes: () => bytes,
    count: () => runs.size
  }
}
