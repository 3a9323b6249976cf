import { availableParallelism } from "node:os"
import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    // Every file in one process of its own would load the SDKs once per file: half the time of a run.
    isolate: false,
    // A small machine has two cores, and the process that only collects results needs none of its own.
    maxWorkers: Math.max(2, availableParallelism() - 1),
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
