/**
 * One answer that is kept while its clients come and go: bytes from an offset on, whoever reads them. They lie in blocks of
 * one size, so that what an answer holds is what its bytes need, in however small pieces they came.
 */
import type { ByteSource } from "../../request/ByteSource.ts"
import { isSource, type Answer } from "./Answer.ts"

const blockBytes = 4_096
/** Bytes that a client may be behind before the reads of the provider wait for it. */
export const behindBytes = 256 * 1024

/** Where a client that reads has got to. */
interface Client {
  at: number
}

export class Run {
  readonly digest: string
  readonly head: Promise<Answer>
  private readonly clients = new Set<Client>()
  private readonly onHeld: (run: Run, by: number) => void
  private blocks: Array<Uint8Array> = []
  /** Offset of the first byte that is kept, at the start of a block; offset behind the last. */
  base = 0
  end = 0
  isOver = false
  /** Epoch milliseconds; null = it runs. */
  endedAt: number | null = null
  /** What else it is known by: the id of the response in it. */
  response: string | null = null
  private failure: { readonly reason: unknown } | null = null
  private waiting: Array<() => void> = []
  /** Goes on reading the provider, when a client has caught up; null = nobody is that far behind. */
  private behind: (() => void) | null = null

  /** `onHeld` is told of every change in what it holds, and of its end. */
  constructor(digest: string, ask: () => Promise<Answer>, onHeld: (run: Run, by: number) => void) {
    this.digest = digest
    this.onHeld = onHeld
    this.head = ask()
    this.head.then(
      (answer) => this.fill(answer.body),
      (reason: unknown) => this.close({ reason })
    )
  }

  /** Bytes of memory it holds. */
  get held(): number {
    return this.blocks.length * blockBytes
  }

  /** It has ended, and not as it should. */
  get hasFailed(): boolean {
    return this.failure !== null
  }

  get isRead(): boolean {
    return this.clients.size > 0
  }

  private fill(body: Answer["body"]): void {
    if (isSource(body)) return this.follow(body)
    this.append(typeof body === "string" ? Buffer.from(body) : body)
    this.close(null)
  }

  private follow(source: ByteSource): void {
    const next = (): void => {
      try {
        while (!this.isAheadOfAll()) {
          const bytes = source.take()
          if (bytes === undefined) return source.whenReady(next)
          if (bytes === null) return this.close(null)
          this.append(bytes)
        }
      } catch (reason) {
        return this.close({ reason })
      }
      this.behind = next
    }
    next()
  }

  private append(bytes: Uint8Array): void {
    const before = this.held
    for (let from = 0; from < bytes.length;) {
      const used = (this.end - this.base) % blockBytes
      if (used === 0 && this.end - this.base === this.held) this.blocks.push(Buffer.allocUnsafeSlow(blockBytes))
      const part = bytes.subarray(from, from + blockBytes - used)
      this.blocks.at(-1)?.set(part, used)
      this.end += part.length
      from += part.length
    }
    this.wake()
    this.onHeld(this, this.held - before)
  }

  /** Nobody there: the answer is read to its end for whoever comes back. */
  private isAheadOfAll(): boolean {
    return this.clients.size > 0 && [...this.clients].every(({ at }) => this.end - at > behindBytes)
  }

  private close(failure: { readonly reason: unknown } | null): void {
    this.isOver = true
    this.failure = failure
    this.wake()
    this.onHeld(this, 0)
  }

  /** Gives up at least so many bytes from the start, or all; returns how many. */
  drop(bytes: number): number {
    const count = Math.min(this.blocks.length, Math.ceil(bytes / blockBytes))
    this.blocks.splice(0, count)
    this.base = Math.min(this.end, this.base + count * blockBytes)
    return count * blockBytes
  }

  private wake(): void {
    const { waiting } = this
    this.waiting = []
    for (const resume of waiting) resume()
  }

  private caughtUp(): void {
    if (this.behind === null || this.isAheadOfAll()) return
    const goOn = this.behind
    this.behind = null
    goOn()
  }

  /** The bytes at an offset, up to the end of their block; null = there are none yet. */
  private from(offset: number): Uint8Array | null {
    if (offset >= this.end) return null
    const index = Math.floor((offset - this.base) / blockBytes)
    const start = this.base + index * blockBytes
    return this.blocks[index]?.subarray(offset - start, Math.min(blockBytes, this.end - start)) ?? null
  }

  /** A client's own body over the run. Its cancel is the client's leaving: the run goes on. `onRead`: it has all of it. */
  reader(offset: number, onRead: () => void): ByteSource {
    const client: Client = { at: offset }
    this.clients.add(client)
    const leave = (): void => {
      if (this.clients.delete(client)) this.caughtUp()
    }
    return {
      take: () => {
        if (client.at < this.base) {
          leave()
          throw new Error("the client is too far behind")
        }
        const bytes = this.from(client.at)
        if (bytes !== null) {
          client.at += bytes.length
          this.caughtUp()
          return bytes
        }
        if (!this.isOver) return undefined
        leave()
        if (this.failure !== null) throw this.failure.reason
        onRead()
        return null
      },
      whenReady: (listener) => {
        if (client.at < this.end || this.isOver) return listener()
        this.waiting.push(listener)
      },
      cancel: () => {
        leave()
        return null
      }
    }
  }
}
