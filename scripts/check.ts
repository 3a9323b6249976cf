/**
 * Everything that must be green before a change lands: format, lint, types, Effect diagnostics, tests (they run the
 * documents' examples too). `--without-tests` leaves the tests out where they have just run.
 */
import { spawnSync } from "node:child_process"

const steps = ["format:check", "lint", "typecheck", "effect-check", "test"]
const chosen = process.argv.includes("--without-tests") ? steps.filter((step) => step !== "test") : steps

const failed = chosen.filter((step) => {
  console.log(`\n> ${step}`)
  return spawnSync("npm", ["run", "--silent", step], { stdio: "inherit" }).status !== 0
})

console.log(failed.length === 0 ? `\ncheck: ${chosen.length} steps green` : `\ncheck: failed: ${failed.join(", ")}`)
process.exit(failed.length === 0 ? 0 : 1)
