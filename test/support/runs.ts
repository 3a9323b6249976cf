/** How often a property runs: HOLDFAST_PROPERTY_RUNS caps the given count, so that mutants finish in time. */
export const runs = (count: number): number => {
  const cap = Number(process.env["HOLDFAST_PROPERTY_RUNS"])
  return Number.isInteger(cap) && cap > 0 ? Math.min(count, cap) : count
}
