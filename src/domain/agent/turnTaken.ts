/** What taking a turn up means for it: whether its owner before died, and how often that came to nothing. */

/** What is kept of a turn since it was last taken up. */
export interface TurnStanding {
  /** The owner's name; one who puts the turn down takes it away. */
  readonly holder: string | null
  /** Takes in a row that brought no new fact. */
  readonly restarts: number
  /** Facts there were then: steps that had ended, answers, and what open steps counted. */
  readonly facts: number
}

export interface TurnTaken {
  /** The owner before died without putting the turn down. */
  readonly restarted: boolean
  readonly restarts: number
  /** It never gets any further: it is given up. */
  readonly isStuck: boolean
}

/** Takes of one turn without a new fact between them, after which it is given up. */
const maxRestarts = 10

/** `facts` = how many there are now. A turn that was put down in order is no failure of the one before. */
export const turnTaken = (before: TurnStanding, facts: number): TurnTaken => {
  const restarted = before.holder !== null
  const restarts = restarted && facts === before.facts ? before.restarts + 1 : 0
  return { restarted, restarts, isStuck: restarts >= maxRestarts }
}
