/** A provider on 127.0.0.1 that answers by a script: for a client of any language, and for sockets. Node only. */
import { playedScript, type ChaosRecord, type ChaosScript } from "./ChaosScript.ts"

export interface ChaosServer extends ChaosRecord {
  /** Ends in `/v1`, as OpenAI's does. Anthropic's SDK adds that itself. */
  readonly baseUrl: string
  readonly close: () => Promise<void>
}

/** A step that is none is a ConfigurationError that names its place. */
export const chaosServer = async (script: ChaosScript): Promise<ChaosServer> => {
  const { scenario, render, record } = playedScript(script)
  // Loaded when it is asked for: a worker that tests over chaosFetch has no `node:http`.
  const { loopback } = await import("../programs/commands/drill/loopbackProvider.ts")
  const provider = await loopback(scenario, render)
  return { baseUrl: provider.baseUrl, close: provider.close, ...record(provider) }
}
