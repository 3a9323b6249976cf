import { defineConfig } from "vitest/config"

/** One process with one worker, in which all modules are loaded once: see `scripts/mutation`. */
export default defineConfig({
  test: {
    include: ["test/every.mutant.ts"],
    isolate: false,
    pool: "threads",
    maxWorkers: 1,
    env: { HOLDFAST_PROPERTY_RUNS: process.env["HOLDFAST_PROPERTY_RUNS"] ?? "10" },
    // A test that ran out of time could not be run again: the limit is the judge's.
    testTimeout: 0
  }
})
