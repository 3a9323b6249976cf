/** What is broken on purpose, and the tests that have to notice: fast ones, without sockets and processes. */

export const rooms: ReadonlyArray<string> = [
  "src/domain/recovery/RecoveryMachine.ts",
  "src/domain/recovery/roads/*.ts",
  "src/domain/provider/RetryAfter.ts",
  "src/domain/chat/RequestWindow.ts",
  "src/domain/chat/StreamView.ts",
  "src/programs/request/*.ts",
  "src/programs/agent/*.ts"
]

export const tests: ReadonlyArray<string> = [
  "test/domain/recovery/*.test.ts",
  "test/domain/provider/RetryAfter.test.ts",
  "test/domain/chat/{window,StreamView}.test.ts",
  "test/programs/request/*.test.ts",
  "test/programs/agent/*.test.ts",
  "test/programs/commands/drill/mishaps.test.ts",
  "test/layers/{RecoveryLive,ModelSummarizer,toolValues}.test.ts",
  "test/layers/native/{cuts,lossless,realIds,recoveredFetch}.test.ts",
  "test/layers/stores/{BudgetMemory,HealthMemory}.test.ts",
  "test/promise/*.test.ts",
  "test/unknownOptions.test.ts",
  "test/logs/logs.test.ts"
]

/** Tests that kill processes. */
export const without = /killed/i

/** Percent of the mutants of each room. */
export const goal = 85
