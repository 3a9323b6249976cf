import { assert, it } from "@effect/vitest"
import OpenAI, { BadRequestError } from "openai"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { RecoveryPolicy } from "../src/domain/recovery/RecoveryPolicy.ts"
import { recoverTransient } from "../src/promise.ts"

const policy = { ...RecoveryPolicy.broad, routes: [{ model: "embed" }], backoff: { base: 1, cap: 1 } }

/** A provider of embeddings that answers with these statuses in order; 0 = never. */
const serving = async (
  statuses: ReadonlyArray<number>,
  test: (client: OpenAI, sent: () => number) => Promise<void>
) => {
  let sent = 0
  const server = createServer((request, response) => {
    request.resume()
    const status = statuses[sent] ?? 500
    sent += 1
    if (status === 0) return
    response.writeHead(status, { "content-type": "application/json" })
    response.end(
      JSON.stringify(
        status === 200
          ? { object: "list", model: "embed", data: [{ object: "embedding", index: 0, embedding: [1, 2] }] }
          : { error: { code: "overloaded", message: "m" } }
      )
    )
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const { port } = server.address() as AddressInfo
  try {
    await test(new OpenAI({ apiKey: "k", baseURL: `http://127.0.0.1:${port}/v1`, maxRetries: 0 }), () => sent)
  } finally {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}

const input = { model: "embed", input: "a", encoding_format: "float" } as const

it("embeds through the SDK over faults, in one line", () =>
  serving([503, 529, 200], async (client, sent) => {
    const answer = await recoverTransient(({ signal }) => client.embeddings.create(input, { signal }), { policy })
    assert.deepStrictEqual(answer.data[0]?.embedding, [1, 2])
    assert.strictEqual(sent(), 3)
  }))

it("rejects with the SDK's own error when nobody can mend it", () =>
  serving([400], async (client) => {
    const error = await recoverTransient(() => client.embeddings.create(input), { policy }).catch(
      (cause: unknown) => cause
    )
    assert.isTrue(error instanceof BadRequestError)
  }))

it("ends the request when its signal fires, and says why", () =>
  serving([0], async (client, sent) => {
    const ending = new AbortController()
    const call = recoverTransient(({ signal }) => client.embeddings.create(input, { signal }), {
      policy,
      signal: ending.signal
    }).catch((cause: unknown) => cause)
    while (sent() === 0) await new Promise((resolve) => setTimeout(resolve, 5))
    ending.abort("enough")
    const error = await call
    assert.deepInclude(error, { _tag: "RecoveryCancelledError", cause: "enough" })
    const never = await recoverTransient(() => client.embeddings.create(input), {
      policy,
      signal: ending.signal
    }).catch((cause: unknown) => cause)
    assert.deepInclude(never, { _tag: "RecoveryCancelledError", attempts: 0 })
    assert.strictEqual(sent(), 1)
  }))

it("keeps a deadline of the call, and tells its events", () =>
  serving([0, 0], async (client) => {
    const tags: Array<string> = []
    const error = await recoverTransient(({ signal }) => client.embeddings.create(input, { signal }), {
      policy,
      deadline: 80,
      onEvent: ({ _tag }) => tags.push(_tag)
    }).catch((cause: unknown) => cause)
    assert.deepInclude(error, { _tag: "RecoveryDeadlineExceeded" })
    assert.strictEqual(tags.at(-1), "Finished")
  }))

it("refuses an option nobody reads", async () => {
  const error = await recoverTransient(() => Promise.resolve(1), { policy, retries: 3 } as never).catch(
    (cause: unknown) => cause
  )
  assert.deepInclude(error, { _tag: "ConfigurationError", field: "retries" })
})
