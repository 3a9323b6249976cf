#!/usr/bin/env node
/** The command line. Nothing is loaded before it is known that it can be: what is missing is told in one sentence. */
import * as module from "node:module"
import { homedir } from "node:os"
import { join } from "node:path"
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

/**
 * Keeps compiled code in the user's own cache from one start to the next. Node has it since 22.1; where it cannot write it
 * does without. `NODE_DISABLE_COMPILE_CACHE=1` turns it off. A checkout, which changes, does without.
 */
const keepCompiled = (): void => {
  if (!import.meta.url.endsWith(".js")) return
  const enable: unknown = Reflect.get(module, "enableCompileCache")
  const cache = process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache")
  if (typeof enable === "function") enable(process.env["NODE_COMPILE_CACHE"] || join(cache, "holdfast"))
}

onReaderGone()
onHangUp()
keepCompiled()
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
