/** Texts cut and mended at code points: half an emoji is no text, and strict servers refuse all of a request with one. */

const isHigh = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff

const isLow = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff

/** Whether a cut before this place would part the two halves of one code point. */
const isInside = (text: string, at: number): boolean =>
  at > 0 && at < text.length && isHigh(text.charCodeAt(at - 1)) && isLow(text.charCodeAt(at))

/** The beginning of a text, at most `length` characters; one less where the cut would fall inside a code point. */
export const head = (text: string, length: number): string =>
  text.slice(0, isInside(text, length) ? length - 1 : Math.max(0, length))

/** The end of a text, at most `length` characters; one less where the cut would fall inside a code point. */
export const tail = (text: string, length: number): string => {
  const from = Math.max(0, text.length - Math.max(0, length))
  return text.slice(isInside(text, from) ? from + 1 : from)
}

/** The text with a replacement character for every half of a code point that stands alone. */
export const wellFormed = (text: string): string => (text.isWellFormed() ? text : text.toWellFormed())
