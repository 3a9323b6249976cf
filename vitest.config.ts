import { availableParallelism } from "node:os"
import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // Every file in one process of its own would load the SDKs once per file: half the time of a run.
    isolate: false,
    // Much of the suite waits: for clocks, sockets and processes of its own. One worker more than cores fills that time.
    maxWorkers: availableParallelism() + 1,
    globalSetup: ["test/support/temporaryFolder.ts"],
    // Property tests run thousands of programs on a slow machine.
    testTimeout: 120_000,
    hookTimeout: 60_000,
    coverage: {
      provider: "v8",
      include: ["src/domain/**"],
      reporter: ["text-summary", "json-summary"],
      thresholds: { lines: 95, branches: 95 }
    }
  }
})
