/**
 * CPU time per unit of work, rows against each other: rounds are interleaved, so that a noisy moment meets every row,
 * and the median round counts. User and system time of this process, microseconds; what a server costs is not in it.
 * Garbage is collected when the engine likes: a forced collection throws away compiled code, and the round would measure
 * its compilation.
 */
export interface Row {
  readonly name: string
  /** Does the work `count` times. */
  readonly run: (count: number) => Promise<unknown>
}

export interface Figure {
  readonly name: string
  readonly median: number
  /** Half the rounds lie between these two. */
  readonly low: number
  readonly high: number
}

export interface Size {
  readonly rounds: number
  readonly count: number
  readonly warmUp: number
  /** Units of work in one count (the chunks of a stream). Default 1. */
  readonly units?: number
}

const quantile = (sorted: ReadonlyArray<number>, share: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN

export const figureOf = (name: string, samples: ReadonlyArray<number>): Figure => {
  const sorted = [...samples].sort((left, right) => left - right)
  return { name, median: quantile(sorted, 0.5), low: quantile(sorted, 0.25), high: quantile(sorted, 0.75) }
}

export const compare = async (rows: ReadonlyArray<Row>, size: Size): Promise<ReadonlyArray<Figure>> => {
  const samples = rows.map((): Array<number> => [])
  for (const row of rows) await row.run(size.warmUp)
  for (let round = 0; round < size.rounds; round += 1) {
    for (let turn = 0; turn < rows.length; turn += 1) {
      // Another row begins each round, and every other round runs backwards: none always follows the same one.
      const place = (round + turn) % rows.length
      const index = round % 2 === 0 ? place : rows.length - 1 - place
      await rows[index]!.run(Math.ceil(size.count / 16))
      const before = process.cpuUsage()
      await rows[index]!.run(size.count)
      const used = process.cpuUsage(before)
      samples[index]!.push((used.user + used.system) / (size.count * (size.units ?? 1)))
    }
  }
  return rows.map((row, index) => figureOf(row.name, samples[index]!))
}

/** Does the work `count` times, `width` at once. */
export const atOnce = async (count: number, width: number, work: () => Promise<unknown>): Promise<void> => {
  let left = count
  const worker = async (): Promise<void> => {
    while (left > 0) {
      left -= 1
      await work()
    }
  }
  await Promise.all(Array.from({ length: Math.min(width, count) }, worker))
}

/** One target of the project: a row's median against a limit. */
export interface Target {
  readonly name: string
  readonly value: number
  readonly limit: number
}

export interface Table {
  readonly title: string
  readonly unit: string
  readonly figures: ReadonlyArray<Figure>
  /** Row that ratios are taken against. */
  readonly base: string
  readonly targets: ReadonlyArray<Target>
}

export const medianOf = (figures: ReadonlyArray<Figure>, name: string): number => {
  const figure = figures.find((row) => row.name === name)
  if (figure === undefined) throw new Error(`no row ${name}`)
  return figure.median
}

export const print = (table: Table): void => {
  const base = medianOf(table.figures, table.base)
  const width = Math.max(...table.figures.map((row) => row.name.length))
  const number = (value: number): string => value.toFixed(value < 20 ? 2 : 1).padStart(9)
  console.log(`\n${table.title} (${table.unit}; median, middle half of the rounds, ratio)`)
  for (const row of table.figures)
    console.log(
      `  ${row.name.padEnd(width)} ${number(row.median)} ${number(row.low)} -${number(row.high)} ${(row.median / base).toFixed(2).padStart(7)}`
    )
  for (const target of table.targets)
    console.log(
      `  ${target.value <= target.limit ? "met   " : "MISSED"} ${target.name}: ${target.value.toFixed(2)} (target at most ${target.limit})`
    )
}
