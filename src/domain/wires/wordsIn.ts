/** What a server says in place of an event stream. Pure. */

/** As much of a text that holds no event as is looked at. */
export const longestWords = 2_000

/** What stands in a text beside the fields and comments of an event stream. */
export const wordsIn = (text: string): string =>
  text
    .split(/\r\n|\n|\r/)
    .filter((line) => !/^(data|event|id|retry)?:|^(data|event|id|retry)$/.test(line.trim()))
    .join("\n")
    .trim()
