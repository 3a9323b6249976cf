/**
 * A provider in place of the network: a `fetch` that answers by a script, in the wire of whoever asks (chat, Responses,
 * Messages), and remembers what it was asked. It takes the fault scripts of `holdfast drill`, so that an app of your own,
 * with any client over `fetch`, meets the same faults.
 */
import type { Fetch } from "../layers/provider/undiciFetch.ts"
import { inProcess, type ProviderTime } from "../programs/commands/drill/inProcessProvider.ts"
import { playedScript, type ChaosRecord, type ChaosScript } from "./ChaosScript.ts"

export interface ChaosFetch extends ChaosRecord {
  /** For `fetch:` of any SDK, or in the place of `globalThis.fetch`. */
  readonly fetch: Fetch
}

export interface ChaosOptions {
  /** The time its waits take: `virtualTime()`. Default: real time. */
  readonly time?: ProviderTime
}

const realTime = (): ProviderTime => {
  const startedAt = performance.now()
  return {
    now: () => performance.now() - startedAt,
    touch: () => undefined,
    sleep: (millis, signal) =>
      new Promise((resolve, reject) => {
        const stop = (): void => {
          clearTimeout(timer)
          reject(signal?.reason)
        }
        const timer = setTimeout(() => {
          signal?.removeEventListener("abort", stop)
          resolve()
        }, millis)
        if (signal?.aborted === true) stop()
        else signal?.addEventListener("abort", stop, { once: true })
      })
  }
}

/** A step that is none is a ConfigurationError that names its place. */
export const chaosFetch = (script: ChaosScript, options: ChaosOptions = {}): ChaosFetch => {
  const { scenario, render, record } = playedScript(script)
  const provider = inProcess(scenario, options.time ?? realTime(), render)
  return { fetch: provider.fetch, ...record(provider) }
}
