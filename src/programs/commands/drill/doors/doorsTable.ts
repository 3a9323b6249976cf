/** What came of playing scripts through every door: a table by area, and what stands behind its numbers. */
import { doors } from "./Door.ts"
import type { Passage, Passed } from "./playDoors.ts"

export type Rows = ReadonlyArray<ReadonlyArray<string>>

const unique = (texts: ReadonlyArray<string>): ReadonlyArray<string> => [...new Set(texts)]

const countOf = (passed: ReadonlyArray<Passed>, tag: Passage["_tag"]): number =>
  passed.filter(({ passage }) => passage._tag === tag).length

/** `12`: all the same; `11 + 1`: one more that ends by a rule of the door; `10, 1 differs`; `-`: nothing to play. */
const cellOf = (passed: ReadonlyArray<Passed>): string => {
  const same = countOf(passed, "Same")
  const otherwise = countOf(passed, "Otherwise")
  const differs = countOf(passed, "Differs")
  if (same + otherwise + differs === 0) return "-"
  const held = otherwise === 0 ? String(same) : `${same} + ${otherwise}`
  return differs === 0 ? held : `${held}, ${differs} differ${differs === 1 ? "s" : ""}`
}

const rowOf = (name: string, passed: ReadonlyArray<Passed>): ReadonlyArray<string> => [
  name,
  ...doors.map((door) => cellOf(passed.filter((one) => one.door.name === door.name)))
]

/** One row per area, in the order of the file, and one for all. */
export const doorRows = (passed: ReadonlyArray<Passed>): Rows => [
  ["area", ...doors.map(({ name }) => name)],
  ...unique(passed.map(({ area }) => area)).map((area) =>
    rowOf(
      area,
      passed.filter((one) => one.area === area)
    )
  ),
  rowOf("all", passed)
]

const doorsIn = (passed: ReadonlyArray<Passed>): string => unique(passed.map(({ door }) => door.name)).join(", ")

const reasonOf = ({ passage }: Passed): string =>
  passage._tag === "Otherwise" ? passage.rule : passage._tag === "NoLike" ? passage.why : ""

/** Why scripts end otherwise, or are not played: one line per reason and script, with the doors. */
export const reasonRows = (passed: ReadonlyArray<Passed>, tag: "Otherwise" | "NoLike"): Rows => {
  const found = passed.filter(({ passage }) => passage._tag === tag)
  return unique(found.map(reasonOf)).flatMap((reason) => {
    const met = found.filter((one) => reasonOf(one) === reason)
    return unique(met.map(({ id }) => id)).map((id) => [id, reason, doorsIn(met.filter((one) => one.id === id))])
  })
}

/** What differs without a rule that says why: a fault. */
export const faultLines = (passed: ReadonlyArray<Passed>): ReadonlyArray<string> =>
  passed.flatMap(({ id, door, passage }) =>
    passage._tag === "Differs" ? [`${id} through ${door.name}: ${passage.found.join("; ")}`] : []
  )
