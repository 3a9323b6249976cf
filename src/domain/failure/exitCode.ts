/** The exit codes of every command: 0 ok, 1 failed, 2 usage or configuration, 75 try later, 130 interrupted. */

export const exitCodes = { ok: 0, failed: 1, usage: 2, tryLater: 75, interrupted: 130 } as const

/** Tags of failures that pass with time. */
const transientTags: ReadonlySet<string> = new Set([
  "ModelRateLimitError",
  "ModelOverloadedError",
  "ModelServerError",
  "ModelTimeoutError",
  "ModelConnectionError",
  "ModelStreamInterruptedError"
])

/** Try later: the deadline, a quota with a known reset, or retries that ended on something transient. */
export const exitCodeOf = (failure: {
  readonly tag: string
  readonly lastCause: string | null
  readonly reason: string | null
  readonly resetAt: number | null
}): number => {
  switch (failure.tag) {
    case "ConfigurationError":
      return exitCodes.usage
    case "RecoveryCancelledError":
    case "TurnCancelled":
      return exitCodes.interrupted
    case "RecoveryDeadlineExceeded":
    // Somebody has to answer, or another process has it.
    case "TurnParked":
    case "TurnOwned":
      return exitCodes.tryLater
    case "ModelQuotaExhaustedError":
      return failure.resetAt === null ? exitCodes.failed : exitCodes.tryLater
    case "RecoveryRetriesExhausted":
      return failure.lastCause !== null && transientTags.has(failure.lastCause) && failure.reason === "Attempts"
        ? exitCodes.tryLater
        : exitCodes.failed
    default:
      return exitCodes.failed
  }
}
