#!/usr/bin/env node
/** The command line. Nothing is loaded before it is known that it can be: what is missing is told in one sentence. */
import { exitCodes } from "./domain/failure/exitCode.ts"
import { isInstalled, notInstalled, tooOld } from "./programs/commands/absent.ts"

/** A reader that went away (`| head -1`) ends the command like Ctrl-C: quietly, with what it had begun put in order. */
const onReaderGone = (): void => {
  let isEnding = false
  const onFailure = (cause: Error): void => {
    const code: unknown = Reflect.get(cause, "code")
    // EIO: the terminal has been closed.
    if (code !== "EPIPE" && code !== "EIO") throw cause
    if (isEnding) return
    isEnding = true
    if (!process.emit("SIGINT")) process.exit(exitCodes.interrupted)
  }
  process.stdout.on("error", onFailure)
  process.stderr.on("error", onFailure)
}

/**
 * A terminal that is closed ends the command as SIGTERM does, once: shells tell it more than one time. A command that
 * listens itself means something else by it.
 */
const onHangUp = (): void => {
  let isEnding = false
  process.on("SIGHUP", () => {
    if (isEnding || process.listenerCount("SIGHUP") > 1) return
    isEnding = true
    if (!process.emit("SIGTERM")) process.exit(exitCodes.interrupted)
  })
}

const endWith = (sentence: string): void => {
  process.stderr.write(`holdfast: ${sentence}\n`)
  process.exitCode = exitCodes.usage
}

onReaderGone()
onHangUp()
const old = tooOld(process.versions.node)
if (old !== null) endWith(old)
else
  await import("./programs/commands/main.ts").then(
    ({ main }) => main(process.argv.slice(2)),
    (cause: unknown) => {
      const sentence = notInstalled(cause, isInstalled)
      if (sentence === null) throw cause
      endWith(sentence)
    }
  )
