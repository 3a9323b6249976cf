/** Follows JSON text as it grows and knows when the outermost value has closed. */
export class JsonScanner {
  private depth = 0
  private inString = false
  private escaped = false
  private begun = false
  closed = false
  /** Something other than white space followed the closed value. */
  overrun = false

  feed(text: string): void {
    for (let index = 0; index < text.length; index += 1) {
      const char = text[index]
      if (this.inString) {
        if (this.escaped) this.escaped = false
        else if (char === "\\") this.escaped = true
        else if (char === '"') this.inString = false
        continue
      }
      if (char === " " || char === "\n" || char === "\r" || char === "\t") continue
      if (this.closed) {
        this.overrun = true
        return
      }
      if (char === '"') this.inString = true
      else if (char === "{" || char === "[") {
        this.depth += 1
        this.begun = true
      } else if (char === "}" || char === "]") {
        this.depth -= 1
        if (this.begun && this.depth === 0) this.closed = true
      }
    }
  }
}
