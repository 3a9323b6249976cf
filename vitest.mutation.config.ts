import { defineConfig } from "vitest/config"

/** Only fast tests, without sockets and processes: a mutant is judged in a second or two by those that reach it. */
export default defineConfig({
  test: {
    include: [
      "test/domain/{recovery/*,provider/RetryAfter,chat/window,chat/StreamView}.test.ts",
      "test/programs/request/*.test.ts",
      "test/programs/agent/*.test.ts",
      "test/programs/commands/drill/mishaps.test.ts",
      "test/logs/logs.test.ts"
    ],
    env: { HOLDFAST_PROPERTY_RUNS: process.env["HOLDFAST_PROPERTY_RUNS"] ?? "50" },
    testTimeout: 20_000
  }
})
