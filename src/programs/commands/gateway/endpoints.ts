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
  /** A path that means another one: dots, doubled slashes, encoded slashes or control characters. */
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
  return at === -1 ? { path: url, query: "" } : { path: url.slice(0, at), query: url.slice(at) }
}

const isCrooked = (path: string): boolean => /\/\/|\/\.{1,2}(\/|$)|%2f|%5c|%2e|\\|[^\x21-\x7e]|#|;/i.test(path)

const native: Readonly<Record<string, WireName>> = {
  "/v1/chat/completions": "chat",
  "/v1/responses": "responses",
  "/v1/messages": "messages"
}

export const endpointOf = (method: string, path: string): Endpoint => {
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
