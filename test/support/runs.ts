/**
 * How often a property runs. HOLDFAST_PROPERTY_RUNS is `whole` (as often as the property asks: `npm run test:whole`, before
 * a release) or a cap of its own (few, so that mutants finish in time); without it every property runs often enough to
 * catch a fault that is not rare, and a day's work does not wait for it.
 */
const everyday = 400

const chosen = process.env["HOLDFAST_PROPERTY_RUNS"]

/** Whether everything runs as often as it asks. */
export const isWhole = chosen === "whole"

const capOf = (text: string | undefined): number => {
  const cap = Number(text)
  return Number.isInteger(cap) && cap > 0 ? cap : everyday
}

export const runs = (count: number): number => (isWhole ? count : Math.min(count, capOf(chosen)))
