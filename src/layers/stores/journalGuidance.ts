/** What to do when a journal refuses, in one sentence each. */
export const guidances = {
  doubt: "Find out whether it happened before it is done again.",
  parked: "Answer it (`holdfast turns approve` or `deny`), then take the turn up again.",
  cancelled: "Begin a new turn.",
  owned: "Wait until it has ended, or end that process.",
  stuck: "Look at its last step: something ends the process there every time.",
  mismatch: "Take it up with the version that began it, or fork it before this step.",
  store: "Check the file and the disk it is on, or the database; nothing was done that could not be kept."
}
