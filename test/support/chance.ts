/** A small generator of our own: a seed tells a failure again. */
export const chance = (seed: number) => {
  let state = seed >>> 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (limit: number): number => Math.floor(next() * limit)
  return { next, below, pick: <A>(list: ReadonlyArray<A>): A => list[below(list.length)] as A }
}
export type Chance = ReturnType<typeof chance>

/** Bytes in reads of any size, so that a boundary stands anywhere. */
export const readsOf = (random: Chance, bytes: Uint8Array): ReadonlyArray<Uint8Array> => {
  const reads: Array<Uint8Array> = []
  for (let at = 0; at < bytes.length;) {
    const size = 1 + random.below(random.pick([3, 40, 400, 4000]))
    reads.push(bytes.slice(at, at + size))
    at += size
  }
  return reads
}
