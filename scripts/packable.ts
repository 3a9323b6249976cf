/** Before anything is packed: a build that failed, or was never made, is told and leaves no package. */
import { entries, reachedFrom } from "./builtFiles.ts"

try {
  reachedFrom(entries())
} catch (cause) {
  console.error(`holdfast cannot be packed: ${cause instanceof Error ? cause.message : String(cause)} (npm run build)`)
  process.exitCode = 1
}
