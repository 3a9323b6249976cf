/** What several processes share, over real servers: Redis and PostgreSQL from the system's packages. `npm run stores`. */
import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    include: ["test/stores/**/*.stores.ts"],
    // Servers and processes of their own: one file at a time is enough for two cores.
    fileParallelism: false,
    testTimeout: 120_000,
    hookTimeout: 120_000
  }
})
