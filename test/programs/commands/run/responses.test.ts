import { assert, describe, it } from "@effect/vitest"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { embeddedNames } from "../../../../src/programs/commands/run/embedded.ts"
import { inProcess } from "../../../support/command.ts"
import { eventTexts, plain } from "../../../support/nativeScripts.ts"

/** What a run printed as lines of JSON. */
const linesOf = (out: string): ReadonlyArray<Record<string, unknown>> =>
  out
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as Record<string, unknown>)

const embedded = (scenario: string) =>
  inProcess(["run", "--provider", "embedded", "--api", "responses", "--scenario", scenario, "--prompt", "go", "--json"])

/** These wait in real time, or end without an answer. */
const others = ["long-wait", "rate-limit", "loop", "auth"]

describe("run --api responses", () => {
  it.each(embeddedNames.filter((name) => !others.includes(name)))(
    "ends as on the chat API when the embedded provider has the scenario %s",
    async (scenario) => {
      const { code, out } = await embedded(scenario)
      assert.strictEqual(code, 0)
      const last = linesOf(out).at(-1)
      assert.deepInclude(last, { _tag: "Ended", ok: true })
      assert.match(String(last?.["reply"]), /^Done\. I have listed the folder/)
    },
    30_000
  )

  it("fails as on the chat API with a key that is refused", async () => {
    const { code, out } = await embedded("auth")
    assert.strictEqual(code, 1)
    assert.include(out, "ModelAuthenticationError")
  })

  it("asks the address of the Responses API, in its form", async () => {
    const asked: Array<{ readonly path: string; readonly body: Record<string, unknown> }> = []
    const server = createServer((request, response) => {
      let text = ""
      request.on("data", (part: Buffer) => (text += part.toString()))
      request.on("end", () => {
        asked.push({ path: request.url ?? "", body: JSON.parse(text) as Record<string, unknown> })
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.end(eventTexts("responses", plain(["all ", "well"])).join(""))
      })
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    const env = {
      OPENAI_API_KEY: "sk-run-12345678",
      OPENAI_BASE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
      OPENAI_MODEL: "large",
      OPENAI_FALLBACK_MODEL: "none"
    }
    const ran = await inProcess(["run", "--api", "responses", "--prompt", "go", "--json"], env)
    server.closeAllConnections()
    server.close()
    assert.strictEqual(ran.code, 0, ran.err)
    assert.deepInclude(linesOf(ran.out).at(-1), { ok: true, reply: "all well" })
    assert.deepStrictEqual(
      asked.map(({ path }) => path),
      ["/v1/responses"]
    )
    assert.isArray(asked[0]?.body["input"])
    assert.notProperty(asked[0]?.body, "messages")
  })

  it("is one of two names", async () => {
    const { code, err } = await inProcess(["run", "--api", "messages", "--prompt", "go"])
    assert.notStrictEqual(code, 0)
    assert.include(err, "api")
  })
})
