/**
 * The parts of undici the default transport is made of, loaded file by file: undici's main module replaces the dispatcher
 * that Node's own fetch uses, for the whole process. No import leads there, so a bundle for a worker holds nothing of it.
 */
import type { Agent, Dispatcher, EnvHttpProxyAgent, interceptors } from "undici"
import { isNode } from "./isNode.ts"
import { builtin } from "./runtime.ts"

type RequestOptions = Dispatcher.RequestOptions & { readonly origin: string }

export interface UndiciParts {
  readonly Agent: typeof Agent
  readonly EnvHttpProxyAgent: typeof EnvHttpProxyAgent
  readonly decompress: typeof interceptors.decompress
  /** Sends over any dispatcher, also one of another copy of undici. */
  readonly request: (dispatcher: Dispatcher, options: RequestOptions) => Promise<Dispatcher.ResponseData>
}

type Load = (file: string) => unknown

const isPart = (value: unknown): boolean => typeof value === "function"

/** A proxy's agent calls `connect` of its dispatcher; undici's main module puts the same functions there. */
const complete = (dispatcher: unknown, api: unknown): void => {
  if (typeof dispatcher === "function" && typeof api === "object" && api !== null)
    Object.assign(dispatcher.prototype, api)
}

const loadWith = (load: Load): UndiciParts | null => {
  complete(load("undici/lib/dispatcher/dispatcher.js"), load("undici/lib/api/index.js"))
  const request = load("undici/lib/api/api-request.js")
  const parts = {
    Agent: load("undici/lib/dispatcher/agent.js"),
    EnvHttpProxyAgent: load("undici/lib/dispatcher/env-http-proxy-agent.js"),
    decompress: load("undici/lib/interceptor/decompress.js")
  }
  if (typeof request !== "function" || !Object.values(parts).every(isPart)) return null
  return {
    ...(parts as Pick<UndiciParts, "Agent" | "EnvHttpProxyAgent" | "decompress">),
    request: (dispatcher, options) => Reflect.apply(request, dispatcher, [options])
  }
}

const load = (): UndiciParts | null => {
  if (!isNode()) return null
  try {
    const modules = builtin("node:module")
    return modules === null ? null : loadWith(modules.createRequire(import.meta.url))
  } catch {
    // A bundle that was taken away from its packages.
    return null
  }
}

let loaded: UndiciParts | null | undefined

/** null = undici is not here (a worker, Bun, Deno, a bundle on its own): the platform's fetch is used. */
export const undiciParts = (): UndiciParts | null => {
  if (loaded === undefined) loaded = load()
  return loaded
}
