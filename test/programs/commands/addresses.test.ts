import { NodeServices } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Effect from "effect/Effect"
import { afterEach, beforeEach } from "vitest"
import { settings } from "../../../src/programs/commands/variables.ts"

const home = process.cwd()
let dir = ""
beforeEach(() => {
  dir = fs.mkdtempSync(join(tmpdir(), "holdfast-env-"))
  process.chdir(dir)
})
afterEach(() => {
  process.chdir(home)
  fs.rmSync(dir, { recursive: true, force: true })
})

const models = { OPENAI_MODEL: "m", OPENAI_FALLBACK_MODEL: "none" }
const key = { OPENAI_API_KEY: "sk-test-12345678" }
const address = "http://folder.test/v1"

/** The address that would get the key, or what is said. */
const askedAt = (environment: Readonly<Record<string, string>>, file: string, trusts = false): Promise<string> => {
  fs.writeFileSync(".env", file)
  return Effect.runPromise(
    settings({ ...models, ...environment }, {}, "broad", trusts).pipe(
      Effect.map(({ baseUrl }) => baseUrl ?? "the provider's own"),
      Effect.catch((error) => Effect.succeed(error.message)),
      Effect.provide(NodeServices.layer)
    )
  )
}

describe("an address in the .env of a folder", () => {
  it.each([
    `OPENAI_BASE_URL=${address}`,
    `export OPENAI_BASE_URL="${address}"`,
    `OPENAI_BASE_URL='${address}' # ours`,
    `OPENAI_BASE_URL=${address}\nOPENAI_API_KEY=sk-decoy-12345678`,
    `OPENAI_BASE_URL=\nOPENAI_BASE_URL=${address}`
  ])("gets no key of the environment: %j", async (file) => {
    const said = await askedAt(key, file)
    assert.match(said, /^OPENAI_BASE_URL comes from the file \.env .* --trust-env-file$/)
    assert.notInclude(said, "sk-")
    assert.strictEqual(await askedAt(key, file, true), address)
  })

  it("gets the key that stands beside it", async () => {
    assert.strictEqual(await askedAt({}, `OPENAI_BASE_URL=${address}\nOPENAI_API_KEY=sk-own-12345678`), address)
  })

  it("is not used when the environment has one", async () => {
    const own = { ...key, OPENAI_BASE_URL: "https://mine.test/v1" }
    assert.strictEqual(await askedAt(own, `OPENAI_BASE_URL=${address}`), "https://mine.test/v1")
  })

  it("is not waited for when the file is a pipe or a folder", async () => {
    for (const make of [() => execFileSync("mkfifo", [".env"]), () => fs.mkdirSync(".env")]) {
      make()
      const found = settings({ ...models, ...key }, {}, "broad").pipe(
        Effect.map(({ baseUrl }) => baseUrl),
        Effect.provide(NodeServices.layer)
      )
      assert.isNull(await Effect.runPromise(found))
      fs.rmSync(".env", { recursive: true })
    }
  })

  it("may be missing", async () => {
    assert.strictEqual(await askedAt(key, "OTHER=1"), "the provider's own")
  })
})
