import { afterEach, assert, describe, it } from "vitest"
import { wholeText } from "../../../bench/wall/answers.ts"
import { startProvider, type Provider } from "../../../bench/wall/provider.ts"
import { recoveredFetch } from "../../../src/fetch.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"

let provider: Provider | null = null
afterEach(async () => provider?.close())

describe("a stored stream that breaks off", () => {
  it("is asked anew when its provider does not give the rest, however it says so", async () => {
    provider = await startProvider({ unit: 20 })
    const fetch = recoveredFetch(
      {
        ...RecoveryPolicy.broad,
        backoff: { base: 5, factor: 2, cap: 50, jitter: 0 },
        fallbackAfter: { cut: 2 },
        fallbacks: [{ model: "fb-ok" }]
      },
      { health: "own" }
    )
    // The provider of the wall resets every connection that asks for a kept response.
    const answer = await fetch(`${provider.baseUrl}/responses`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "s08", input: "Say them.", stream: true })
    })
    const text = await answer.text()
    const deltas = [...text.matchAll(/"type":"response\.output_text\.delta".*?"delta":"([^"]*)"/g)].map(
      (found) => found[1]
    )
    assert.strictEqual(deltas.join(""), wholeText)
    assert.isAtMost(provider.asked.length, 3)
  })
})
