/**
 * The running command once more, in a process with a larger young generation. A large simulation keeps hundreds of
 * thousands of small objects for a while; with the default size each is copied twice, which costs a third of the time.
 * The size can only be given when a process starts.
 */
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"

const flag = "--max-semi-space-size"
/** Mebibytes; three of them are in use at once. */
const semiSpaceMegabytes = 64

/** Whether this process is one already, or was given a size of its own. */
export const isRoomy = (): boolean =>
  process.execArgv.some((argument) => argument.startsWith(flag)) || (process.env["NODE_OPTIONS"] ?? "").includes(flag)

/** Exit code of the command; input and output are those of this process. Interruption ends the other process, too. */
export const runRoomy: Effect.Effect<number> = Effect.callback((resume) => {
  const size = `${semiSpaceMegabytes}`
  const child = spawn(
    process.execPath,
    [`--min-semi-space-size=${size}`, `${flag}=${size}`, ...process.execArgv, ...process.argv.slice(1)],
    { stdio: "inherit" }
  )
  child.once("error", () => resume(Effect.succeed(1)))
  child.once("exit", (code) => resume(Effect.succeed(code ?? 1)))
  return Effect.sync(() => {
    child.kill()
  })
})
