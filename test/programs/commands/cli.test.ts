import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { asProcess, inProcess } from "../../support/command.ts"

const root = join(import.meta.dirname, "../../..")
const fixtures = join(import.meta.dirname, "../../fixtures/scenarios/dev.json")

const good = { OPENAI_API_KEY: "sk-cli-secret-1", OPENAI_MODEL: "large", OPENAI_FALLBACK_MODEL: "small" }

describe("the command line", () => {
  it("shows the tour and that its text is exact", async () => {
    const ran = asProcess(["drill"])
    assert.strictEqual(ran.code, 0)
    for (const part of [
      "rate limit (429)",
      "overloaded (529)",
      "input too long (400)",
      "answer cut",
      "exact to the character"
    ])
      assert.include(ran.out, part)
  })

  it("prints one JSON line per scenario, also for one that is asked for", async () => {
    const ran = await inProcess(["drill", fixtures, "--id", "D-RT-03", "--json"])
    const line = JSON.parse(ran.out) as { readonly id: string; readonly sleepsMs: ReadonlyArray<number> }
    assert.deepStrictEqual([line.id, line.sleepsMs, ran.code], ["D-RT-03", [500, 1000], 0])
  })

  it("fails a check when an expectation does not hold", async () => {
    const scenario = {
      id: "X-01",
      request: { messages: [{ role: "user", content: "a" }] },
      provider: [{ http: 401, body: {} }],
      expect: { result: { reply: "x" } }
    }
    const ran = await inProcess(
      ["drill", "s.json", "--check"],
      {},
      { "s.json": JSON.stringify({ scenarios: [scenario, { id: "X-02" }] }) }
    )
    assert.strictEqual(ran.code, 1)
    assert.include(ran.out, "result.reply is nothing")
    assert.include(ran.out, "0 pass, 1 fail, 0 not yet supported, 1 faulty")
  })

  it("plays the rest of a file with a faulty scenario, and ends with 2", async () => {
    const played = { id: "X-01", request: { messages: [] }, provider: [{ http: 401, body: {} }] }
    const files = { "s.json": JSON.stringify([played, { id: "X-02", colour: "red" }]), "none.json": "[]" }
    for (const args of [[], ["--check"]]) {
      const ran = await inProcess(["drill", "s.json", ...args], {}, files)
      assert.deepStrictEqual(
        [ran.code, ran.err],
        [2, "holdfast: 1 of 2 scenarios cannot be read (docs/drill.md has the format)\n"]
      )
      assert.include(ran.out, args.length === 0 ? "ModelAuthenticationError" : "1 pass, 0 fail")
      assert.include(ran.out, "colour")
    }
    const empty = await inProcess(["drill", "none.json"], {}, files)
    assert.deepStrictEqual([empty.code, empty.out], [2, ""])
    assert.include(empty.err, "none.json holds no scenario")
  })

  it("passes the scenario that the documents show", async () => {
    const page = readFileSync(join(root, "docs/drill.md"), "utf8")
    const scenario = /^```json\n([\s\S]*?)^```$/m.exec(page)?.[1] ?? ""
    assert.include((await inProcess(["drill", "s.json", "--check"], {}, { "s.json": scenario })).out, "1 pass, 0 fail")
  })

  it("plays over real sockets", async () => {
    const ran = await inProcess(["drill", fixtures, "--id", "D-RT-07", "--check", "--live"])
    assert.include(ran.out, "1 pass, 0 fail")
  })

  it("shows the configuration without the key; the environment wins over .env", async () => {
    const ran = await inProcess(
      ["config", "--json"],
      { OPENAI_MODEL: "from-env" },
      { ".env": "OPENAI_API_KEY=sk-cli-secret-1\nOPENAI_MODEL=from-file\nOPENAI_FALLBACK_MODEL=none\n" }
    )
    const shown = JSON.parse(ran.out) as {
      readonly policy: { readonly routes: ReadonlyArray<{ readonly model: string }> }
    }
    assert.deepStrictEqual(
      shown.policy.routes.map((route) => route.model),
      ["from-env"]
    )
    assert.notInclude(ran.out, "secret")
    assert.include((await inProcess(["config", "--preset", "unattended"], good)).out, "unlimited")
  })

  it("shows the configuration before anything is set", async () => {
    const ran = await inProcess(["config", "--preset", "broad"])
    assert.deepStrictEqual([ran.code, ran.err], [0, ""])
    for (const part of ["API key   not set", "(OPENAI_MODEL is not set)", "overload 3"]) assert.include(ran.out, part)
    const json = JSON.parse((await inProcess(["config", "--json"])).out) as {
      readonly notSet: ReadonlyArray<string>
      readonly policy: { readonly routes: ReadonlyArray<{ readonly model: null }> }
    }
    assert.deepStrictEqual(
      json.policy.routes.map((route) => route.model),
      [null, null]
    )
    assert.include(json.notSet, "OPENAI_API_KEY")
  })

  it("answers a mistake with one sentence, and gives help to those who ask", async () => {
    const ran = asProcess(["run", "--bogus"])
    assert.deepStrictEqual([ran.code, ran.out], [2, ""])
    assert.include(ran.err, "holdfast run --help")
    const help = await inProcess(["help", "run"])
    assert.deepStrictEqual([help.code, help.err], [0, ""])
    assert.include(help.out, "--prompt")
  })

  it("says below the simulator's table what it means", async () => {
    const ran = asProcess(["simulate", "--clients", "5", "--scenario", "steady"])
    assert.include(ran.out, "amp: requests sent per logical request")
    assert.include(ran.out, "none has a fallback")
  })

  it("finds out before a simulation that its report cannot be written", async () => {
    for (const report of ["nowhere/r.html", "folder.html"]) {
      const ran = asProcess(
        ["simulate", "--clients", "5", "--scenario", "steady", "--report", report],
        {},
        { "folder.html/x": "" }
      )
      assert.deepStrictEqual([ran.code, ran.out], [2, ""])
      assert.include(ran.err, `--report (${report}) cannot be written`)
    }
  })

  it("shows no key that stands in the base URL, and refuses one that no header can carry", async () => {
    const env = { ...good, OPENAI_BASE_URL: "https://user:secret-1@provider.test/v1?key=secret-2&v=secret-3" }
    for (const ran of [await inProcess(["config"], env), await inProcess(["config", "--json"], env)]) {
      assert.include(ran.out, "https://provider.test/v1?key=hidden&v=hidden")
      assert.notInclude(ran.out, "secret")
    }
    const ran = await inProcess(["run", "--prompt", "x"], { ...good, OPENAI_API_KEY: "sk-cli\nsecret-1" })
    assert.strictEqual(ran.code, 2)
    assert.include(ran.err, "OPENAI_API_KEY")
    assert.notInclude(ran.err, "secret")
  })

  it("replays a log and finds what differs", async () => {
    const line = JSON.parse((await inProcess(["drill", fixtures, "--id", "D-RT-03", "--json"])).out) as {
      readonly events: ReadonlyArray<Record<string, unknown>>
    }
    const policy = (JSON.parse((await inProcess(["config", "--json"], good)).out) as { readonly policy: unknown })
      .policy
    const events = line.events.map((event) => (event["_tag"] === "Started" ? { ...event, policy } : event))
    const log = (changed: boolean): string =>
      events
        .map((event) =>
          JSON.stringify(changed && event["_tag"] === "Transitioned" ? { ...event, action: { _tag: "Done" } } : event)
        )
        .join("\n")
    const same = await inProcess(["replay", "log.ndjson"], {}, { "log.ndjson": log(false) })
    assert.strictEqual(same.code, 0)
    assert.include(same.out, "3 decisions, 0 differ")
    const other = await inProcess(["replay", "log.ndjson"], {}, { "log.ndjson": log(true) })
    assert.strictEqual(other.code, 1)
    assert.include(other.out, "DIFFERS")
  })

  it("replays what a run has printed", async () => {
    const log = asProcess([
      "run",
      "--provider",
      "embedded",
      "--scenario",
      "server-error",
      "--prompt",
      "a",
      "--json"
    ]).out
    const ran = await inProcess(["replay", "log.ndjson"], {}, { "log.ndjson": log })
    assert.deepStrictEqual([ran.code, ran.err], [0, ""])
    assert.include(ran.out, "4 decisions, 0 differ")
  })

  it("does not take a file without events for a log", async () => {
    for (const text of ["", "\n", '{"_tag":"StepStarted"}\n']) {
      const ran = await inProcess(["replay", "log.ndjson"], {}, { "log.ndjson": text })
      assert.deepStrictEqual([ran.code, ran.out], [2, ""])
      assert.include(ran.err, "log.ndjson")
    }
  })

  it.each<readonly [ReadonlyArray<string>, Record<string, string>, string]>([
    [["run", "--prompt", "a"], {}, "OPENAI_API_KEY, OPENAI_MODEL, OPENAI_FALLBACK_MODEL"],
    [["config"], { HOLDFAST_MAX_ATTEMTPS: "3" }, "HOLDFAST_MAX_ATTEMTPS"],
    [["config"], { ...good, OPENAI_BASE_URL: "ftp://x" }, "OPENAI_BASE_URL"],
    [["config"], { ...good, HOLDFAST_DEADLINE: "soon" }, "HOLDFAST_DEADLINE"],
    [["config", "--preset", "wild"], good, "preset"],
    [["drill", "missing.json"], {}, "missing.json"],
    [["drill", fixtures, "--id", "nobody"], {}, "--id"],
    [["drill", "--bogus"], {}, "--bogus"],
    [["run", "--prompt", "x", "--max-usd", "0"], good, "--max-usd"],
    [["run", "--prompt", "x", "--max-usd", "1"], good, "the price of large"],
    [["run", "--prompt", "x", "--max-usd", "1"], { ...good, HOLDFAST_PRICES: "large=1/2" }, "the price of small"],
    [["run", "--prompt", "x", "--max-tokens", "0"], good, "--max-tokens"],
    [["replay", "missing.ndjson"], {}, "missing.ndjson"],
    [["replay"], {}, "LOG"],
    [["dance"], {}, "dance"],
    [["explain"], {}, "standard input is empty"],
    [["explain", join(root, "package.json"), "--profile", "nope"], {}, "openai, azure"],
    [["explain", join(root, "package.json")], {}, "curl -i"]
  ])("%j with %j ends with 2 and one sentence that names %s", async (args, env, name) => {
    const ran = await inProcess(args, env)
    assert.strictEqual(ran.code, 2)
    assert.include(ran.err, name)
    assert.notMatch(ran.err, /secret|^\s+at /m)
    assert.strictEqual(ran.err.trim().split("\n").length, 1)
  })
})
