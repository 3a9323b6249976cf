/** A configuration file as a value, with the place of every field: JSON or YAML, of which JSON is a part. */
import { isMap, LineCounter, parseDocument, type Document } from "yaml"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"

export interface ConfigText {
  readonly value: unknown
  /** `line 3, column 5`, of a field's name where it has one; a path like `routes.large.policy`. Null = nowhere. */
  readonly placeOf: (path: ReadonlyArray<string | number>) => string | null
}

/** The node a name or index stands at: for a field, its name rather than its value. */
const nodeAt = (document: Document, path: ReadonlyArray<string | number>): { readonly range?: unknown } | null => {
  const parent: unknown = path.length <= 1 ? document.contents : document.getIn(path.slice(0, -1), true)
  const last = path.at(-1)
  if (last === undefined) return document.contents
  const pair = isMap(parent)
    ? parent.items.find(
        ({ key }) =>
          String(typeof key === "object" && key !== null && "value" in key ? key.value : key) === String(last)
      )
    : undefined
  const found: unknown = pair?.key ?? document.getIn(path, true)
  return typeof found === "object" && found !== null ? found : null
}

/** `name` is the file's, for messages. A text that is neither JSON nor YAML is a ConfigurationError with its place. */
export const readConfigText = (name: string, text: string): ConfigText => {
  const lines = new LineCounter()
  // Aliases could make a small file enormous, and a configuration needs none of them many times.
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: true, strict: true })
  const [fault] = document.errors
  const place = (offset: number): string => {
    const { line, col } = lines.linePos(offset)
    return `line ${line}, column ${col}`
  }
  if (fault !== undefined) {
    const [first = ""] = fault.message.split("\n")
    // The parser's sentence ends with its own place.
    const reason = first.replace(/ at line \d+, column \d+:?$/, "")
    throw new ConfigurationError({ field: `${name}, ${place(fault.pos[0])}`, reason: `cannot be read: ${reason}` })
  }
  return {
    value: document.toJS({ maxAliasCount: 100 }),
    placeOf: (path) => {
      const range = nodeAt(document, path)?.range
      return Array.isArray(range) && typeof range[0] === "number" ? place(range[0]) : null
    }
  }
}
