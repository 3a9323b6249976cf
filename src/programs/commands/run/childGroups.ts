/**
 * Process groups of a run's children, which end with the run however it ends: by its own end, by a signal, or by kill -9,
 * which a watcher process notices because its input ends.
 */
import { spawn, type ChildProcess } from "node:child_process"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

export interface ChildGroups {
  /** A group whose leader has just been started; `watched` is called once nothing can come between it and its end. */
  readonly add: (group: number, watched: () => void) => void
  /** The leader has ended; what it has left behind goes on, and ends with the run. */
  readonly leaderEnded: (group: number) => void
}

const kill = (group: number): void => {
  try {
    process.kill(-group, "SIGKILL")
  } catch {
    // It has ended already.
  }
}

const isAlive = (group: number): boolean => {
  try {
    process.kill(-group, 0)
    return true
  } catch {
    return false
  }
}

/** Reads `+ group` and `- group`; when its input ends, the run has. Its own session: a terminal's signals do not end it. */
const watcherScript = `
groups=" "
while read -r what group; do
  case "$what" in
    +) groups="$groups$group " ;;
    -) case "$groups" in *" $group "*) groups="\${groups%% $group *} \${groups#* $group }" ;; esac ;;
  esac
done
for group in $groups; do kill -KILL "-$group" 2>/dev/null; done
`

const startWatcher = (): ChildProcess => {
  const watcher = spawn("/bin/sh", ["-c", watcherScript], {
    cwd: "/",
    env: {},
    stdio: ["pipe", "ignore", "ignore"],
    detached: true
  })
  // Without a watcher all but kill -9 still ends the children.
  watcher.on("error", () => undefined)
  watcher.stdin?.on("error", () => undefined)
  watcher.unref()
  const input: unknown = watcher.stdin
  if (typeof input === "object" && input !== null && "unref" in input && typeof input.unref === "function")
    input.unref()
  return watcher
}

const make = (): ChildGroups & { readonly end: () => void } => {
  // Invariant: holds the groups that may still have a process; the watcher has been told the same.
  const groups = new Set<number>()
  let watcher: ChildProcess | null = null
  const tell = (line: string, told: () => void = () => undefined): void => {
    // A watcher that could not be started does not hold anybody up.
    if (watcher?.stdin?.writable === true) watcher.stdin.write(`${line}\n`, told)
    else told()
  }
  const forget = (group: number): void => {
    groups.delete(group)
    tell(`- ${group}`)
  }
  const end = (): void => {
    for (const group of groups) kill(group)
    groups.clear()
  }
  process.on("exit", end)
  return {
    add: (group, watched) => {
      watcher ??= startWatcher()
      for (const one of groups) if (!isAlive(one)) forget(one)
      groups.add(group)
      tell(`+ ${group}`, watched)
    },
    leaderEnded: (group) => {
      if (!isAlive(group)) forget(group)
    },
    end: () => {
      process.removeListener("exit", end)
      end()
      watcher?.stdin?.end()
    }
  }
}

/** For as long as the scope lives. */
export const childGroups: Effect.Effect<ChildGroups, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(make),
  (groups) => Effect.sync(groups.end)
)
