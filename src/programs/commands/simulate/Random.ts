/** A seeded source of chance (sfc32), so that a run is a function of its arguments. */

/** Numbers in [0, 1). Two calls of `makeRandom` with one seed give the same sequence. */
export type Random = () => number

export const makeRandom = (seed: number): Random => {
  let a = 0x9e3779b9 ^ seed
  let b = 0x243f6a88 ^ Math.imul(seed, 2654435761)
  let c = 0xb7e15162
  let counter = seed | 1
  const next = (): number => {
    const sum = (((a + b) | 0) + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = ((c << 21) | (c >>> 11)) + sum
    c |= 0
    return (sum >>> 0) / 4294967296
  }
  // The first outputs still show the seed.
  for (let i = 0; i < 20; i++) next()
  return next
}

/** A standard normal number (Box-Muller). */
export const normal = (random: Random): number =>
  Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())

/** Distribution function of the standard normal (Abramowitz and Stegun 26.2.17, error below 1e-7). */
export const normalShare = (x: number): number => {
  const t = 1 / (1 + 0.2316419 * Math.abs(x))
  const tail =
    Math.exp(-(x * x) / 2) *
    0.3989422804 *
    t *
    (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
  return x > 0 ? 1 - tail : tail
}
