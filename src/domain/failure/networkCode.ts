/** The system's code of a failed connection (ECONNRESET, ENOTFOUND ...), wherever in the causes it stands. */
export const networkCode = (cause: unknown): string | null => {
  let current: unknown = cause
  for (let depth = 0; depth < 5 && typeof current === "object" && current !== null; depth += 1) {
    const code: unknown = Reflect.get(current, "code")
    if (typeof code === "string" && /^[A-Z][A-Z0-9_]+$/.test(code)) return code
    current = Reflect.get(current, "cause")
  }
  return null
}
