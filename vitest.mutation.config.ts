import { defineConfig } from "vitest/config"

/** Only the pure tests: a mutant is judged in a second or two. */
export default defineConfig({
  test: {
    include: ["test/domain/{recovery/RecoveryMachine,recovery/roads,provider/RetryAfter,chat/window}.test.ts"],
    env: { HOLDFAST_PROPERTY_RUNS: process.env["HOLDFAST_PROPERTY_RUNS"] ?? "50" },
    testTimeout: 20_000
  }
})
