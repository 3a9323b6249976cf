/** What a request to the gateway is, read from its method and path alone. Pure. */
export type WireName = "chat" | "responses" | "messages"

export type Endpoint =
  /** One of the three calls that are recovered. */
  | { readonly _tag: "Native"; readonly wire: WireName }
  /** Any other path of the API; it is passed on. */
  | { readonly _tag: "Proxied" }
  | { readonly _tag: "Models" }
  | { readonly _tag: "Health" }
  | { readonly _tag: "Ready" }
  | { readonly _tag: "Metrics" }
  | { readonly _tag: "Trail"; readonly id: string }
  | { readonly _tag: "Dashboard"; readonly file: string }
  | { readonly _tag: "Unknown" }
  /** A method that is none of a model's API. */
  | { readonly _tag: "Unserved" }
  /** A path that means another one: dots, doubled slashes, letters in disguise. */
  | { readonly _tag: "Crooked" }

/** Path of the request beside its query, as it came. */
export interface Target {
  readonly path: string
  /** With its question mark; empty when there is none. */
  readonly query: string
}

/** Null = the request's target is no path at all (a whole address, `*`, an authority). */
export const targetOf = (url: string): Target | null => {
  if (!url.startsWith("/")) return null
  const at = url.indexOf("?")
  return at === -1 ? { path: straight(url), query: "" } : { path: straight(url.slice(0, at)), query: url.slice(at) }
}

/** One of the three calls with a slash behind it is that call: it is recovered and paid for like it. */
const straight = (path: string): string => {
  const trimmed = path.replace(/\/$/, "")
  return Object.hasOwn(native, trimmed) ? trimmed : path
}

/** Doubled slashes, steps upward, parameters, what is no character of a path, and what is no encoding. */
const crooked = /\/\/|\/\.{1,2}(\/|$)|\\|[^\x21-\x7e]|[#;]|%(?![0-9a-f]{2})/i
/** Encodings of what ends or parts a path, of control characters, and of what needs none: another spelling of a path. */
const disguised = /%(2[35def]|3f|5[cf]|7[ef]|[01][0-9a-f]|3[0-9]|4[1-9a-f]|5[0-9a]|6[1-9a-f]|7[0-9a])/i

const isCrooked = (path: string): boolean => crooked.test(path) || disguised.test(path)

const native: Readonly<Record<string, WireName>> = {
  "/v1/chat/completions": "chat",
  "/v1/responses": "responses",
  "/v1/messages": "messages"
}

export const servedMethods: ReadonlyArray<string> = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]

export const endpointOf = (method: string, path: string): Endpoint => {
  if (!servedMethods.includes(method)) return { _tag: "Unserved" }
  if (isCrooked(path)) return { _tag: "Crooked" }
  const wire = Object.hasOwn(native, path) ? native[path] : undefined
  if (wire !== undefined && method === "POST") return { _tag: "Native", wire }
  if (path === "/v1/models" && method === "GET") return { _tag: "Models" }
  if (path.startsWith("/v1/")) return { _tag: "Proxied" }
  if (method !== "GET" && method !== "HEAD") return { _tag: "Unknown" }
  if (path === "/healthz") return { _tag: "Health" }
  if (path === "/readyz") return { _tag: "Ready" }
  if (path === "/metrics") return { _tag: "Metrics" }
  if (path === "/dashboard" || path.startsWith("/dashboard/"))
    return { _tag: "Dashboard", file: path.slice("/dashboard/".length) }
  const trail = /^\/trail\/([\w.:-]{1,128})$/.exec(path)?.[1]
  return trail === undefined ? { _tag: "Unknown" } : { _tag: "Trail", id: trail }
}
