/** Answers of a pure function of a text, kept: the addresses and the names of headers of a program are few. */

const most = 256

/** When there are too many all are forgotten: that costs less than to know which one was used last. */
export const remembered = <A>(make: (text: string) => A): ((text: string) => A) => {
  const known = new Map<string, A>()
  return (text) => {
    const found = known.get(text)
    if (found !== undefined || known.has(text)) return found as A
    const made = make(text)
    if (known.size >= most) known.clear()
    known.set(text, made)
    return made
  }
}
