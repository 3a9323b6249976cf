import { assert, describe, it } from "@effect/vitest"
import { createRecovery } from "../../../src/promise.ts"
import { RecoveryPolicy } from "../../../src/index.ts"
import { isModelError, type ModelError } from "../../../src/domain/failure/ModelError.ts"
import * as OpenAiModelClient from "../../../src/layers/provider/OpenAiModelClient.ts"

const quick = { ...RecoveryPolicy.broad, backoff: { base: 1, cap: 1 }, routes: [{ model: "large" }] }
const hello = { messages: [{ role: "user" as const, content: "hi" }] }

/** A whole answer. */
const answered = () =>
  Response.json({
    choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "fine" } }]
  })

const systemError = (code: string) => Object.assign(new TypeError("fetch failed"), { cause: { code } })

/** What a request ends with when the n-th call of the fetch does this; and how often it was called. */
const ended = async (calls: ReadonlyArray<() => Response>, requests = 1) => {
  let sent = 0
  const recovery = createRecovery({
    policy: quick,
    health: "own",
    client: OpenAiModelClient.layer({
      apiKey: "sk-secret-0123456789",
      baseUrl: "http://user:hidden@api.example.test:8080/v1?key=secret",
      fetch: async () => {
        const call = calls[Math.min(sent, calls.length - 1)]!
        sent += 1
        return call()
      }
    })
  })
  let failure: ModelError | null = null
  for (let request = 0; request < requests; request += 1)
    await recovery.complete(hello).catch((cause: unknown) => {
      if (!isModelError(cause)) throw cause
      failure = cause
    })
  await recovery.close()
  return { sent, failure: failure as ModelError | null }
}

const thrower = (cause: unknown) => (): Response => {
  throw cause
}

describe("a fetch that throws", () => {
  it("a mistake of a program is called three times, and the mistake is the cause", async () => {
    const bug = new TypeError("undefined is not a function")
    const { sent, failure } = await ended([thrower(bug)])
    assert.strictEqual(sent, 3)
    assert.strictEqual(failure?._tag, "ModelConnectionError")
    assert.strictEqual(failure?.cause, bug)
  })

  it("that there is no such name is called three times, and names host and port alone", async () => {
    const { sent, failure } = await ended([thrower(systemError("ENOTFOUND"))])
    assert.strictEqual(sent, 3)
    assert.include(failure?.guidance, "http://api.example.test:8080: check the base URL")
    assert.notMatch(JSON.stringify(failure) + String(failure), /secret|hidden/)
  })

  it("that there is no such name, behind an answer that came once, is tried on", async () => {
    const { sent, failure } = await ended([answered, ...Array(5).fill(thrower(systemError("ENOTFOUND"))), answered], 2)
    assert.deepStrictEqual([sent, failure], [7, null])
  })

  it("a certificate fault is called once", async () => {
    const { sent } = await ended([thrower(systemError("CERT_HAS_EXPIRED"))])
    assert.strictEqual(sent, 1)
  })
})
