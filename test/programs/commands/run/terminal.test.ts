import { assert, describe, it } from "@effect/vitest"
import { execFileSync, spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { cli, inProcess } from "../../../support/command.ts"

const hasTmux = spawnSync("tmux", ["-V"]).status === 0

const folder = (): string => {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-run-"))
  writeFileSync(join(dir, "notes.txt"), "TODO water the plants\n")
  return dir
}

const pause = (millis: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, millis))

/** A program in a real pseudo-terminal: what is on the screen, and keys to press. */
const inTerminal = (dir: string, command: string) => {
  const socket = `holdfast-${process.pid}-${Math.floor(performance.now() * 1000)}`
  const tmux = (...args: ReadonlyArray<string>): string =>
    execFileSync("tmux", ["-L", socket, "-f", "/dev/null", ...args], { encoding: "utf8" })
  tmux("new-session", "-d", "-x", "110", "-y", "40", "-c", dir, `${command}; echo "exit=$?"; sleep 60`)
  const screen = (): string => tmux("capture-pane", "-p")
  const until = async (text: string, millis: number): Promise<number> => {
    const begun = performance.now()
    while (!screen().includes(text)) {
      if (performance.now() - begun > millis) throw new Error(`no "${text}" on the screen:\n${screen()}`)
      await pause(25)
    }
    return performance.now() - begun
  }
  return {
    screen,
    until,
    press: (key: string): string => tmux("send-keys", key),
    end: () => spawnSync("tmux", ["-L", socket, "kill-server"])
  }
}

const command = (...args: ReadonlyArray<string>): string =>
  [process.execPath, cli, "run", "--provider", "embedded", "--prompt", "'look around'", ...args].join(" ")

const run = (dir: string, ...args: ReadonlyArray<string>) =>
  spawnSync(process.execPath, [cli, "run", "--dir", dir, "--provider", "embedded", ...args], {
    encoding: "utf8",
    env: { PATH: process.env["PATH"] ?? "" }
  })

/** The countdown, in seconds. */
const secondsLeft = (screen: string): number => {
  const [, hours = "0", minutes = "0", seconds = "0"] =
    /next try in (?:(\d+) h )?(?:(\d+) min )?(?:(\d+) s)?/.exec(screen) ?? []
  return Number(hours) * 3_600 + Number(minutes) * 60 + Number(seconds)
}

describe.skipIf(!hasTmux)("in a terminal", () => {
  it(
    "counts down while it waits; Ctrl-C stops it at once, says what was done, exit 130",
    { timeout: 60_000 },
    async () => {
      const terminal = inTerminal(folder(), command("--scenario", "long-wait"))
      try {
        await terminal.until("rate limited, next try in", 20_000)
        const first = secondsLeft(terminal.screen())
        await pause(2_200)
        assert.isBelow(secondsLeft(terminal.screen()), first)
        terminal.press("C-c")
        await terminal.until("exit=130", 10_000)
        const screen = terminal.screen()
        assert.include(screen, "interrupted: what was finished is saved")
        assert.match(screen, /steps\s+1/)
        // The countdown is one line that was drawn again and again.
        assert.isAtMost(screen.split("next try in").length - 1, 1)
      } finally {
        terminal.end()
      }
    }
  )
  it("streams to the end and shows the table", { timeout: 60_000 }, async () => {
    const terminal = inTerminal(folder(), command("--scenario", "rate-limit", "--allow"))
    try {
      await terminal.until("exit=0", 40_000)
      const screen = terminal.screen()
      assert.include(screen, '▸ list {"path":"."}  →  ok')
      assert.include(screen, "nothing here came from a real model")
      assert.match(screen, /files changed\s+holdfast-note.txt/)
      assert.notInclude(screen, "next try in")
    } finally {
      terminal.end()
    }
  })
})

describe("without a terminal", () => {
  it("prints plain lines, saves the session and goes on with it", { timeout: 60_000 }, () => {
    const dir = folder()
    const file = join(dir, ".holdfast/session.json")
    const first = run(dir, "--session", file, "--prompt", "look")
    assert.strictEqual(first.status, 0, first.stderr)
    assert.notInclude(first.stdout, "\r")
    assert.notInclude(first.stdout, "\u001b")
    const saved = (): ReadonlyArray<{ readonly role: string }> => JSON.parse(readFileSync(file, "utf8")).messages
    const before = saved()
    assert.strictEqual(before.map((message) => message.role[0]).join(""), "uatata")
    const second = run(dir, "--session", file, "--resume", "--prompt", "and again")
    assert.strictEqual(second.status, 0, second.stderr)
    assert.deepStrictEqual(saved().slice(0, before.length), before)
    assert.isAbove(saved().length, before.length)
  })
  it("prints one JSON object per line, the last one tells how it ended", { timeout: 60_000 }, () => {
    const ran = run(folder(), "--prompt", "look", "--json", "--scenario", "loop")
    assert.strictEqual(ran.status, 1)
    const lines = ran.stdout
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>)
    const last = lines.at(-1)
    assert.deepStrictEqual([last?.["_tag"], last?.["error"], last?.["exitCode"]], ["Ended", "LoopBroken", 1])
    assert.isTrue(lines.some((line) => line["_tag"] === "LoopWarned"))
  })
  it("refuses what makes no sense with exit code 2 and a hint", async () => {
    const noKey = await inProcess(["run", "--prompt", "x"])
    assert.strictEqual(noKey.code, 2)
    assert.include(noKey.err, "--provider embedded")
    const embedded = ["run", "--provider", "embedded"]
    for (const args of [
      [],
      ["--prompt", "x", "--scenario", "nonsense"],
      ["--resume"],
      ["--prompt", "x", "--dir", "gone"]
    ])
      assert.strictEqual((await inProcess([...embedded, ...args])).code, 2, args.join(" "))
  })
})
