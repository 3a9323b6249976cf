/** A list of numbers, typed or not. */
export interface Numbers {
  readonly [place: number]: number
}

/** The number at a place; NaN outside the list, so that a slip spoils a result instead of passing for a zero. */
export const numberAt = (numbers: Numbers, place: number): number => numbers[place] ?? NaN
