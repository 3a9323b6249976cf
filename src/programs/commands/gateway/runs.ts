/**
 * Answers that a client can come back for: a request with a run id goes on when its client is gone, and whoever brings the
 * same id gets the same bytes from an offset. The provider is asked once. What is kept is bounded in time and in bytes.
 */

/** How long an answer is kept after its end. */
const keptMillis = 600_000
/** Bytes of one answer, and of all answers: what is older goes first. */
const keptBytes = 4 * 1024 * 1024
const allBytes = 64 * 1024 * 1024
/** Bytes that a client may be behind before the reads of the provider wait for it. */
const behindBytes = 256 * 1024
/** Runs under one roof: more than an admission limit of requests needs. */
const keptRuns = 10_000

export interface RunLimits {
  readonly keptMillis: number
  readonly keptBytes: number
  readonly allBytes: number
  readonly keptRuns: number
}

const defaults: RunLimits = { keptMillis, keptBytes, allBytes, keptRuns }

interface Client {
  at: number
}

/** One answer: bytes from `base` on, whoever reads them. */
class Run {
  readonly digest: string
  readonly head: Promise<Response>
  readonly clients = new Set<Client>()
  private chunks: Array<Uint8Array> = []
  /** Offset of the first byte that is kept; offset behind the last. */
  base = 0
  end = 0
  isOver = false
  failure: { readonly reason: unknown } | null = null
  endedAt: number | null = null
  private waiting: Array<() => void> = []

  constructor(digest: string, ask: () => Promise<Response>, onChange: (run: Run, by: number) => void) {
    this.digest = digest
    this.head = ask()
    this.head.then(
      (answer) => this.fill(answer, onChange),
      (reason: unknown) => this.close({ reason })
    )
  }

  get size(): number {
    return this.end - this.base
  }

  private async fill(answer: Response, onChange: (run: Run, by: number) => void): Promise<void> {
    const reader = answer.body?.getReader() ?? null
    try {
      while (reader !== null) {
        const { done, value } = await reader.read()
        if (done) break
        this.chunks.push(value)
        this.end += value.byteLength
        this.wake()
        onChange(this, value.byteLength)
        while (this.isAheadOfAll()) await this.change()
      }
      this.close(null)
    } catch (reason) {
      this.close({ reason })
    }
    onChange(this, 0)
  }

  /** Nobody there: the answer is read to its end for whoever comes back. */
  private isAheadOfAll(): boolean {
    return this.clients.size > 0 && [...this.clients].every(({ at }) => this.end - at > behindBytes)
  }

  private close(failure: { readonly reason: unknown } | null): void {
    this.isOver = true
    this.failure = failure
    this.wake()
  }

  /** Drops bytes from the start, whole chunks only; returns how many. */
  drop(bytes: number): number {
    const before = this.base
    while (this.size > 0 && this.base - before < bytes) this.base += this.chunks.shift()?.byteLength ?? this.size
    return this.base - before
  }

  wake(): void {
    const waiting = this.waiting
    this.waiting = []
    for (const resume of waiting) resume()
  }

  change(): Promise<void> {
    return new Promise((resolve) => this.waiting.push(resolve))
  }

  /** The bytes at an offset, up to the end of their chunk; null = there are none yet. */
  from(offset: number): Uint8Array | null {
    let at = this.base
    for (const chunk of this.chunks) {
      if (offset < at + chunk.byteLength) return chunk.subarray(offset - at)
      at += chunk.byteLength
    }
    return null
  }
}

/** A client's own stream over a run. Its cancel is the client's leaving: the run goes on. */
const bodyOf = (run: Run, offset: number, onRead: () => void): ReadableStream<Uint8Array> => {
  const client: Client = { at: offset }
  run.clients.add(client)
  const leave = (): void => {
    run.clients.delete(client)
    run.wake()
  }
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        while (true) {
          if (client.at < run.base) {
            leave()
            return controller.error(new Error("the client is too far behind"))
          }
          const bytes = run.from(client.at)
          if (bytes !== null) {
            client.at += bytes.byteLength
            controller.enqueue(bytes)
            return run.wake()
          }
          if (run.isOver) {
            leave()
            if (run.failure !== null) return controller.error(run.failure.reason)
            onRead()
            return controller.close()
          }
          await run.change()
          if (!run.clients.has(client)) return
        }
      },
      cancel: leave
    },
    { highWaterMark: 0 }
  )
}

/** What a client gets that comes for a run. */
export type Attached =
  | { readonly _tag: "Answer"; readonly answer: Response }
  /** The id is another request's. */
  | { readonly _tag: "Other" }
  /** These bytes are not kept any more. */
  | { readonly _tag: "Gone" }
  /** The answer has ended before the offset. */
  | { readonly _tag: "Beyond" }

export interface Runs {
  /** Joins the run of this id, or begins it by asking. `digest` tells requests of one id apart. */
  readonly attach: (id: string, digest: string, offset: number, ask: () => Promise<Response>) => Promise<Attached>
  readonly bytes: () => number
  readonly count: () => number
}

export const makeRuns = (now: () => number, limits: RunLimits = defaults): Runs => {
  const runs = new Map<string, Run>()
  let bytes = 0

  const forget = (id: string, run: Run): void => {
    if (runs.get(id) === run) runs.delete(id)
    bytes -= run.drop(Infinity)
  }

  /** The oldest of those that have ended and have no reader go first, then the starts of the others. */
  const sweep = (): void => {
    const at = now()
    for (const [id, run] of runs) {
      const isIdle = run.endedAt !== null && run.clients.size === 0
      const isOld = run.endedAt !== null && at - run.endedAt > limits.keptMillis
      if (isOld || (isIdle && (bytes > limits.allBytes || runs.size > limits.keptRuns))) forget(id, run)
    }
  }

  const grown = (run: Run, by: number): void => {
    bytes += by
    if (run.isOver) run.endedAt ??= now()
    if (run.size > limits.keptBytes) bytes -= run.drop(run.size - limits.keptBytes)
    if (bytes <= limits.allBytes) return
    sweep()
    if (bytes > limits.allBytes) bytes -= run.drop(run.size - behindBytes)
  }

  return {
    attach: async (id, digest, offset, ask) => {
      sweep()
      const found = runs.get(id)
      if (found !== undefined && found.digest !== digest) return { _tag: "Other" }
      const run = found ?? new Run(digest, ask, grown)
      if (found === undefined) {
        runs.set(id, run)
        run.head.catch(() => forget(id, run))
      }
      const head = await run.head
      if (offset < run.base) return { _tag: "Gone" }
      if (run.isOver && offset > run.end) return { _tag: "Beyond" }
      // A failure that was told is over: who asks again means a new request.
      const body = bodyOf(run, offset, () => {
        if (head.status >= 400) forget(id, run)
      })
      const answer = new Response(body, { status: head.status, headers: head.headers })
      answer.headers.set("x-holdfast-run-id", id.slice(id.indexOf("\u0000") + 1))
      answer.headers.set("x-holdfast-offset", String(offset))
      return { _tag: "Answer", answer }
    },
    bytes: () => bytes,
    count: () => runs.size
  }
}
