import { assert, beforeEach, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { execFileSync } from "node:child_process"
import { createServer } from "node:net"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { folderTools } from "../../../../src/programs/commands/run/folderTools.ts"
import * as SessionFile from "../../../../src/layers/stores/SessionFile.ts"
import * as ToolboxLive from "../../../../src/layers/ToolboxLive.ts"

let outside = ""
let dir = ""
let changed: Array<string> = []

beforeEach(() => {
  outside = mkdtempSync(join(tmpdir(), "holdfast-outside-"))
  dir = mkdtempSync(join(tmpdir(), "holdfast-dir-"))
  changed = []
  writeFileSync(join(outside, "secret.txt"), "secret")
  writeFileSync(join(dir, "a.txt"), "one\ntwo TODO\nthree\n")
  mkdirSync(join(dir, "sub"))
  writeFileSync(join(dir, "sub/b.txt"), "TODO there\n")
  symlinkSync(outside, join(dir, "out"))
  symlinkSync(join(outside, "secret.txt"), join(dir, "leak.txt"))
  symlinkSync(join(outside, "new.txt"), join(dir, "dangling.txt"))
  mkdirSync(join(dir, ".git"))
  writeFileSync(join(dir, ".git/config"), "TODO hidden")
})

const use = (name: string, args: unknown, options: { readonly allow?: boolean; readonly shellTimeout?: number } = {}) =>
  Effect.gen(function* () {
    const toolbox = yield* Effect.orDie(
      ToolboxLive.make(
        folderTools({
          dir,
          allow: options.allow ?? true,
          onChange: (path) => changed.push(path),
          ...(options.shellTimeout === undefined ? {} : { shellTimeout: options.shellTimeout })
        })
      )
    )
    return yield* toolbox.run({ id: "1", name, arguments: JSON.stringify(args) })
  })

describe("inside the folder", () => {
  it.live("lists, reads, searches, writes and edits", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* use("list", {})).content, "a.txt\ndangling.txt\nleak.txt\nout\nsub/")
      assert.strictEqual((yield* use("read", { path: "a.txt", from: 2, lines: 1 })).content, "two TODO")
      assert.strictEqual((yield* use("search", { text: "TODO" })).content, "a.txt:2: two TODO\nsub/b.txt:1: TODO there")
      assert.strictEqual((yield* use("write", { path: "new/deep/c.txt", text: "x" })).kind, "ok")
      assert.strictEqual((yield* use("edit", { path: "a.txt", old: "one", new: "$& 1" })).kind, "ok")
      assert.strictEqual(readFileSync(join(dir, "a.txt"), "utf8"), "$& 1\ntwo TODO\nthree\n")
      assert.strictEqual((yield* use("edit", { path: "a.txt", old: "e", new: "" })).kind, "failed")
      assert.deepStrictEqual(changed, ["new/deep/c.txt", "a.txt"])
    })
  )
  it.live("changes nothing without leave", () =>
    Effect.gen(function* () {
      for (const name of ["write", "edit", "shell"])
        assert.strictEqual((yield* use(name, {}, { allow: false })).kind, "unknown_tool")
    })
  )
})

describe("outside the folder", () => {
  const ways = ["../x.txt", "/etc/hostname", "out/secret.txt", "leak.txt", "sub/../../x", "out", ".git/config"]
  it.live.each(ways)("reads nothing through %s", (path) =>
    Effect.gen(function* () {
      for (const name of ["read", "list"]) {
        const result = yield* use(name, { path })
        assert.strictEqual(result.kind, "failed")
        assert.notInclude(result.content, "secret\n")
      }
    })
  )
  it.live.each([...ways, "dangling.txt", "out/new.txt", "out/deep/new.txt", ".git/hooks/x", "."])(
    "writes nothing through %s",
    (path) =>
      Effect.gen(function* () {
        assert.strictEqual((yield* use("write", { path, text: "gotcha" })).kind, "failed")
        assert.strictEqual(readFileSync(join(outside, "secret.txt"), "utf8"), "secret")
        assert.isFalse(existsSync(join(outside, "new.txt")) || existsSync(join(outside, "deep")))
        assert.deepStrictEqual(changed, [])
      })
  )
  it.live("finds nothing behind links or in version control", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* use("search", { text: "secret" })).content, "no match")
      assert.notInclude((yield* use("search", { text: "TODO" })).content, "hidden")
    })
  )
})

describe("the shell", () => {
  it.live("tells exit code and output, and keeps secrets of the environment away", () =>
    Effect.gen(function* () {
      process.env["HOLDFAST_TEST_API_KEY"] = "do-not-show"
      const result = yield* use("shell", { command: "echo out; echo err >&2; env; exit 3" })
      delete process.env["HOLDFAST_TEST_API_KEY"]
      assert.include(result.content, "exit code 3")
      assert.include(result.content, "out")
      assert.include(result.content, "err")
      assert.notInclude(result.content, "do-not-show")
    })
  )
  it.live("is stopped by its time-out, and its output is capped", () =>
    Effect.gen(function* () {
      const stopped = yield* use("shell", { command: "echo begun; sleep 60" }, { shellTimeout: 200 })
      assert.strictEqual(stopped.kind, "failed")
      assert.include(stopped.content, "begun")
      const long = yield* use("shell", { command: "head -c 200000 /dev/zero | tr '\\0' x" })
      assert.isBelow(long.content.length, 31_000)
      assert.include(long.content, "[cut: 170000 more characters]")
    })
  )
  it.live("ends with its call, and so does what it started", () =>
    Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(
        use("shell", { command: "(sleep 1; touch survived) & echo $! > pid; sleep 60" })
      )
      while (!existsSync(join(dir, "pid"))) yield* Effect.sleep(10)
      yield* Fiber.interrupt(fiber)
      yield* Effect.sleep(1_200)
      assert.isFalse(existsSync(join(dir, "survived")))
    })
  )
})

describe("what is no file", () => {
  it.live("is refused at once: pipes, sockets, devices, and links to them", () =>
    Effect.gen(function* () {
      execFileSync("mkfifo", [join(dir, "pipe")])
      symlinkSync(join(dir, "pipe"), join(dir, "link"))
      const server = createServer().listen(join(dir, "socket"))
      yield* Effect.promise(() => new Promise<void>((resolve) => server.once("listening", resolve)))
      for (const [path, kind] of [
        ["pipe", "a pipe"],
        ["link", "a pipe"],
        ["socket", "a socket"]
      ] as const)
        for (const [tool, args] of [
          ["read", { path }],
          ["write", { path, text: "x" }],
          ["edit", { path, old: "a", new: "b" }]
        ] as const) {
          const result = yield* use(tool, args)
          assert.deepStrictEqual(
            [result.kind, result.content.includes(`is ${kind}`)],
            ["failed", true],
            `${tool} ${path}`
          )
        }
      assert.strictEqual((yield* use("search", { text: "TODO" })).kind, "ok")
      server.close()
    })
  )

  it.live.each([".env", ".env.local", ".ENV", "prod.env", ".envrc", "link"])("keys are shown to nobody: %s", (name) =>
    Effect.gen(function* () {
      const file = name === "link" ? ".env" : name
      writeFileSync(join(dir, file), "KEY=s3cret\n")
      if (name === "link") symlinkSync(join(dir, ".env"), join(dir, "link"))
      for (const [tool, args] of [
        ["read", { path: name }],
        ["edit", { path: name, old: "KEY", new: "K" }],
        ["search", { text: "s3cret" }]
      ] as const)
        assert.notInclude((yield* use(tool, args)).content, "s3cret")
      assert.strictEqual(readFileSync(join(dir, file), "utf8"), "KEY=s3cret\n")
    })
  )

  it.live("an example of such a file holds none", () =>
    Effect.gen(function* () {
      writeFileSync(join(dir, ".env.example"), "KEY=\n")
      assert.strictEqual((yield* use("read", { path: ".env.example" })).content, "KEY=\n")
    })
  )
})

describe("sessions", () => {
  it.live("are saved whole when the run is interrupted in mid-save", () =>
    Effect.gen(function* () {
      const path = join(dir, ".holdfast/session.json")
      const { save } = yield* SessionFile.open(path, false)
      const content = "x".repeat(1_000_000)
      const fiber = yield* Effect.forkChild(save([{ role: "user", content }]), { startImmediately: true })
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(yield* SessionFile.load(path), [{ role: "user", content }])
    })
  )

  it.live("are what was saved last, and a file that is none is refused", () =>
    Effect.gen(function* () {
      const path = join(dir, ".holdfast/session.json")
      const { save } = yield* SessionFile.open(path, false)
      yield* save([{ role: "user", content: "one" }])
      yield* save([
        { role: "user", content: "one" },
        { role: "assistant", content: "two" }
      ])
      assert.deepStrictEqual(yield* SessionFile.load(path), [
        { role: "user", content: "one" },
        { role: "assistant", content: "two" }
      ])
      assert.include((yield* Effect.flip(SessionFile.load(join(dir, "a.txt")))).message, "not a saved session")
      assert.include((yield* Effect.flip(SessionFile.load(join(dir, "none")))).message, "no saved session")
    })
  )
})
