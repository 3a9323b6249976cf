/** Records `holdfast run` against the embedded provider into docs/run-session.md: `node scripts/recordRun.ts`. */
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const root = join(import.meta.dirname, "..")

const sessions = [
  { title: "All is well", args: ["--allow"] },
  { title: "The provider is overloaded: waits, then the second model", args: ["--scenario", "overload"] },
  { title: "The answer breaks off in the middle", args: ["--scenario", "cut"] },
  { title: "The model goes in circles", args: ["--scenario", "loop"] }
]

const record = (session: (typeof sessions)[number]): string => {
  const dir = mkdtempSync(join(tmpdir(), "garden-"))
  writeFileSync(join(dir, "notes.txt"), "TODO water the plants\nDONE sow the beans\n")
  const args = ["run", "--provider", "embedded", "--prompt", "What is still to do?", ...session.args]
  const ran = spawnSync(process.execPath, [join(root, "src/cli.ts"), ...args, "--dir", dir], { encoding: "utf8" })
  rmSync(dir, { recursive: true, force: true })
  const shown = args.map((arg) => (arg.includes(" ") ? JSON.stringify(arg) : arg)).join(" ")
  const output = `${ran.stdout}${ran.stderr}`.replaceAll(/[ \t]+$/gm, "").trimEnd()
  return `## ${session.title}\n\n\`\`\`text\n$ holdfast ${shown}\n${output}\n$ echo $?\n${ran.status}\n\`\`\`\n`
}

writeFileSync(
  join(root, "docs/run-session.md"),
  [
    "# A recorded session of `holdfast run`\n",
    "Made by `node scripts/recordRun.ts`: real SDK, real sockets, a scripted provider on 127.0.0.1, a folder with one file.",
    "Waits differ from run to run. See [agent.md](agent.md) for the command and the library behind it.\n",
    sessions.map(record).join("\n")
  ].join("\n")
)
