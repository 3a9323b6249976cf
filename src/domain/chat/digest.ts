/** Two independent 32-bit multiplicative hashes of a text, in hexadecimal: enough to tell a conversation's texts apart. */
export const digest = (text: string): string => {
  let first = 0x811c9dc5
  let second = 0x9747b28c
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index)
    first = Math.imul(first ^ code, 0x01000193)
    second = Math.imul(second ^ code, 0x85ebca6b)
    second ^= second >>> 13
  }
  return `${(first >>> 0).toString(16)}${(second >>> 0).toString(16)}`
}
