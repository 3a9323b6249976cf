/** A wish to stop that many can ask about: an AbortSignal with the manners of a token. */
import * as Effect from "effect/Effect"
import { ConfigurationError } from "../domain/failure/ConfigurationError.ts"

type Listener = (reason: unknown) => unknown

/** What a listener throws concerns nobody else who listens. */
const call = (listener: Listener, reason: unknown): void => {
  const failed = (thrown: unknown): void => {
    Effect.runFork(Effect.logWarning("A listener of a cancellation failed.", thrown))
  }
  try {
    const told = listener(reason)
    if (told instanceof Promise) told.catch(failed)
  } catch (thrown) {
    failed(thrown)
  }
}

export class CancellationToken {
  readonly #controller = new AbortController()
  readonly #listeners = new Set<Listener>()

  /** `signal`: when it is aborted, the token is cancelled with its reason. */
  constructor(signal?: AbortSignal) {
    this.#controller.signal.addEventListener("abort", () => this.#fire(), { once: true })
    if (signal === undefined) return
    if (!(signal instanceof AbortSignal))
      throw new ConfigurationError({ field: "signal", reason: "is not an AbortSignal" })
    if (signal.aborted) this.cancel(signal.reason)
    else signal.addEventListener("abort", () => this.cancel(signal.reason), { once: true, signal: this.signal })
  }

  /** For every door that takes a signal: `complete(request, { signal: token.signal })`. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  get isCancelled(): boolean {
    return this.signal.aborted
  }

  /** Why it was cancelled; undefined before. */
  get reason(): unknown {
    return this.signal.reason
  }

  /** The first call counts, and fires once; every later one does nothing. */
  cancel(reason?: unknown): void {
    this.#controller.abort(reason)
  }

  /** Runs the listener once when the token is cancelled: at once when it has been. Gives back what takes it off again. */
  subscribe(listener: Listener): () => void {
    if (typeof listener !== "function") throw new ConfigurationError({ field: "listener", reason: "is no function" })
    if (this.isCancelled) {
      call(listener, this.reason)
      return () => undefined
    }
    // Two subscriptions of one function are two.
    const own: Listener = (reason) => listener(reason)
    this.#listeners.add(own)
    return () => {
      this.#listeners.delete(own)
    }
  }

  #fire(): void {
    const listeners = [...this.#listeners]
    this.#listeners.clear()
    for (const listener of listeners) call(listener, this.reason)
  }
}
