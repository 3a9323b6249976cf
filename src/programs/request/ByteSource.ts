/**
 * Bytes that come by and by, for one reader that takes what is there and waits for the rest. Nothing in it costs a promise:
 * a stream of a hundred small events is read and written in as many plain calls.
 */
export interface ByteSource {
  /** What is there now; null = the end; undefined = nothing yet. Throws what the source has failed with, behind its bytes. */
  readonly take: () => Uint8Array | null | undefined
  /** Calls back once, as soon as `take` has something to say. One reader waits at a time; the latest counts. */
  readonly whenReady: (listener: () => void) => void
  /** The reader has left; settles when the source has given up what it held. null = it held nothing any more. */
  readonly cancel: () => Promise<void> | null
}

/** Name and value of every header line, names in lower case, as they came. */
export type HeadLines = ReadonlyArray<readonly [name: string, value: string]>

export const valueIn = (lines: HeadLines, name: string): string | null =>
  lines.find(([one]) => one === name)?.[1] ?? null

/** The lines with this one in the place of those of its name. */
export const withLine = (lines: HeadLines, name: string, value: string): HeadLines => [
  ...lines.filter(([one]) => one !== name),
  [name, value]
]
