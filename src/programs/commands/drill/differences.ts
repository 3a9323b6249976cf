/** Differences between what is wanted and what is there, in words: the vocabulary of a scenario's values and matchers. */
import { type Json, isObject, parsedOrText } from "../../../domain/chat/json.ts"

export const listOf = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

export const show = (value: unknown): string => {
  const text = value === undefined ? "nothing" : JSON.stringify(value)
  return text.length > 100 ? `${text.slice(0, 100)}...` : text
}

/** Equality of JSON values; the order of keys does not matter. */
export const isSame = (left: unknown, right: unknown): boolean => {
  if (Array.isArray(left))
    return Array.isArray(right) && left.length === right.length && left.every((entry, at) => isSame(entry, right[at]))
  if (isObject(left)) {
    if (!isObject(right)) return false
    const keys = Object.keys(left)
    return (
      keys.length === Object.keys(right).length && keys.every((key) => key in right && isSame(left[key], right[key]))
    )
  }
  return Object.is(left, right)
}

export const parsed = (value: unknown): unknown => (typeof value === "string" ? parsedOrText(value) : value)

const plainText = (content: unknown): unknown =>
  Array.isArray(content)
    ? content.map((part) => (isObject(part) && typeof part["text"] === "string" ? part["text"] : "")).join("")
    : content

const isMatcher = (value: unknown): value is Json =>
  isObject(value) && Object.keys(value).some((key) => key.startsWith("$"))

/** Rounding of a millisecond more or less is no difference. */
const toleranceOf = (key: string): number => (/(Ms|Millis)$/.test(key) ? 1 : 1e-9)

const lastKey = (path: string): string => /([A-Za-z_]+)(\[\d+\])*$/.exec(path)?.[1] ?? ""

/** Differences between what is wanted and what is there. */
export const differences = (want: unknown, have: unknown, path: string): ReadonlyArray<string> => {
  const wrong = (what: string = show(want)): ReadonlyArray<string> => [`${path} is ${show(have)}, wanted ${what}`]
  const key = lastKey(path)
  if (isMatcher(want)) return matcherDifferences(want, have, path)
  if (key === "args" || key === "arguments") return isSame(parsed(want), parsed(have)) ? [] : wrong()
  if (want === null) {
    const isEmptyContent = key === "content" && (have === "" || (Array.isArray(have) && have.length === 0))
    return have === null || have === undefined || isEmptyContent ? [] : wrong()
  }
  if (typeof want === "number")
    return typeof have === "number" && Math.abs(want - have) <= toleranceOf(key) ? [] : wrong()
  if (Array.isArray(want)) {
    if (!Array.isArray(have)) return wrong()
    return want.length === have.length
      ? want.flatMap((entry, at) => differences(entry, have[at], `${path}[${at}]`))
      : [`${path} has ${have.length} entries, wanted ${want.length}`]
  }
  if (isObject(want))
    return isObject(have)
      ? Object.entries(want).flatMap(([name, value]) => differences(value, have[name], `${path}.${name}`))
      : wrong()
  return Object.is(want, key === "content" ? plainText(have) : have) ? [] : wrong()
}

const matcherDifferences = (want: Json, have: unknown, path: string): ReadonlyArray<string> => {
  const bad: Array<string> = []
  const text = typeof have === "string" ? have : have === undefined || have === null ? "" : JSON.stringify(have)
  if (want["$any"] === true && (have === undefined || have === null || have === "")) bad.push(`${path} is missing`)
  if (typeof want["$has"] === "string" && !text.includes(want["$has"]))
    bad.push(`${path} lacks ${show(want["$has"])}: ${show(have)}`)
  if (typeof want["$min"] === "number" && !(typeof have === "number" && have >= want["$min"] - 1e-9))
    bad.push(`${path} is ${show(have)}, wanted at least ${want["$min"]}`)
  if (typeof want["$max"] === "number" && !(typeof have === "number" && have <= want["$max"] + 1e-9))
    bad.push(`${path} is ${show(have)}, wanted at most ${want["$max"]}`)
  return bad
}

export const holds = (want: unknown, have: unknown): boolean => differences(want, have, "value").length === 0

/** An expectation that is not of its kind never holds: a slip of the pen must not pass. */
export const unreadable = (want: unknown, what: string): ReadonlyArray<string> => [`${what} cannot be ${show(want)}`]

export const said = (isTrue: boolean, sentence: string): ReadonlyArray<string> => (isTrue ? [] : [sentence])
