/**
 * JSON as text: where its values stand, so that one of them can be replaced and every other byte stays as it was. Numbers
 * beyond a double, repeated keys, white space and escapes survive. Only for text that has been parsed before.
 */

/** A value's place: from its first character to behind its last. */
export interface Span {
  readonly start: number
  readonly end: number
}

export interface Edit extends Span {
  readonly text: string
}

const isSpace = (char: string | undefined): boolean => char === " " || char === "\n" || char === "\r" || char === "\t"

const skipSpace = (text: string, from: number): number => {
  let at = from
  while (isSpace(text[at])) at += 1
  return at
}

/** Behind the closing quote of the string that opens at `from`. */
const endOfString = (text: string, from: number): number => {
  for (let at = from + 1; at < text.length; at += 1) {
    if (text[at] === "\\") at += 1
    else if (text[at] === '"') return at + 1
  }
  return text.length
}

const endOfValue = (text: string, from: number): number => {
  const first = text[from]
  if (first === '"') return endOfString(text, from)
  if (first !== "{" && first !== "[") {
    let at = from
    while (at < text.length && !/[,\]}\s]/.test(text[at] ?? "")) at += 1
    return at
  }
  let depth = 0
  for (let at = from; at < text.length; at += 1) {
    const char = text[at]
    if (char === '"') at = endOfString(text, at) - 1
    else if (char === "{" || char === "[") depth += 1
    else if (char === "}" || char === "]") {
      depth -= 1
      if (depth === 0) return at + 1
    }
  }
  return text.length
}

/** Places of the values of an array, in order. */
export const elementsOf = (text: string, array: Span): ReadonlyArray<Span> => {
  const found: Array<Span> = []
  let at = skipSpace(text, array.start + 1)
  while (at < array.end && text[at] !== "]") {
    const end = endOfValue(text, at)
    found.push({ start: at, end })
    at = skipSpace(text, end)
    if (text[at] === ",") at = skipSpace(text, at + 1)
  }
  return found
}

/** Place of a field's value in the object that begins at `from`; of a repeated field the last, which is the one that counts. */
export const fieldOf = (text: string, field: string, from = 0): Span | null => {
  let found: Span | null = null
  let at = skipSpace(text, skipSpace(text, from) + 1)
  while (at < text.length && text[at] === '"') {
    const keyEnd = endOfString(text, at)
    const key: unknown = JSON.parse(text.slice(at, keyEnd))
    const start = skipSpace(text, skipSpace(text, keyEnd) + 1)
    const end = endOfValue(text, start)
    if (key === field) found = { start, end }
    at = skipSpace(text, end)
    if (text[at] !== ",") break
    at = skipSpace(text, at + 1)
  }
  return found
}

/** The text with these places changed; they must not overlap. No edits: the same text. */
export const edited = (text: string, edits: ReadonlyArray<Edit>): string => {
  let result = ""
  let from = 0
  for (const edit of edits.toSorted((left, right) => left.start - right.start)) {
    result += text.slice(from, edit.start) + edit.text
    from = edit.end
  }
  return result + text.slice(from)
}

/** The edit that gives a field of the outermost object this value, whether it has the field or not. */
export const setField = (text: string, field: string, value: string): Edit => {
  const place = fieldOf(text, field)
  if (place !== null) return { ...place, text: value }
  const open = skipSpace(text, 0) + 1
  const isEmpty = text[skipSpace(text, open)] === "}"
  return { start: open, end: open, text: `${JSON.stringify(field)}:${value}${isEmpty ? "" : ","}` }
}

/** An array's text of these values, each as text. */
export const arrayText = (values: ReadonlyArray<string>): string => `[${values.join(",")}]`
