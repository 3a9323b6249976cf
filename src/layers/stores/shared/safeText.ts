/** A name as every store takes it: PostgreSQL takes no zero byte, and half a surrogate pair is no text. */
export const safeText = (text: string): string => encodeURIComponent(text.toWellFormed())
