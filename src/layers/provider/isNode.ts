/** Node itself: Bun and Deno name themselves, and bring a fetch of their own that does what undici does here. */
export const isNode = (): boolean =>
  typeof process === "object" &&
  typeof process.versions?.node === "string" &&
  process.versions["bun"] === undefined &&
  !("Deno" in globalThis) &&
  !("WebSocketPair" in globalThis)
