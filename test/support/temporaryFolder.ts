/** One folder for all temporary files of a run, in the place of the system's; it goes when the run ends. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

export default function setup(): () => void {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-tests-"))
  process.env["TMPDIR"] = folder
  return () => {
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
  }
}
