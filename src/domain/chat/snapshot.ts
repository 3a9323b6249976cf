/**
 * A copy of a JSON value that later changes do not reach. Objects of a class (a Date, a URL) are not copied: they are
 * what their owner makes of them.
 */

/** Deeper values are shared: no message nests so, and a circle ends here. */
const deepest = 64

const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

const copied = (value: unknown, depth: number): unknown => {
  if (typeof value !== "object" || value === null || depth > deepest) return value
  if (Array.isArray(value)) return value.map((entry: unknown) => copied(entry, depth + 1))
  if (!isPlain(value)) return value
  const copy: Record<string, unknown> = {}
  for (const [key, entry] of Object.entries(value)) copy[key] = copied(entry, depth + 1)
  return copy
}

export const snapshot = <A>(value: A): A => copied(value, 0) as A
