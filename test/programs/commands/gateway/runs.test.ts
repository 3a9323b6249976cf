import { assert, describe, it } from "@effect/vitest"
import { answerOf, type Answer } from "../../../../src/programs/commands/gateway/Answer.ts"
import { makeRuns, type Attached } from "../../../../src/programs/commands/gateway/runs.ts"
import { toResponse } from "../../../../src/layers/native/NativeResponse.ts"
import { runs as often } from "../../../support/runs.ts"

const encoder = new TextEncoder()

/** An answer in chunks, that counts how often it was asked for. */
const source = (chunks: ReadonlyArray<string>) => {
  const state = { asked: 0 }
  const ask = (): Promise<Answer> => {
    state.asked += 1
    const left = [...chunks]
    const body = new ReadableStream<Uint8Array>({
      pull: async (controller) => {
        await Promise.resolve()
        const next = left.shift()
        if (next === undefined) controller.close()
        else controller.enqueue(encoder.encode(next))
      }
    })
    return Promise.resolve(
      answerOf(new Response(body, { status: 200, headers: { "content-type": "text/event-stream" } }))
    )
  }
  return { state, ask }
}

const given = (attached: Attached): Response => {
  assert.strictEqual(attached._tag, "Answer")
  return attached._tag === "Answer" ? toResponse(attached.answer) : new Response()
}

/** Reads at least so many bytes, then leaves. */
const readSome = async (answer: Response, bytes: number): Promise<string> => {
  const reader = answer.body!.getReader()
  let text = ""
  while (text.length < bytes) {
    const { done, value } = await reader.read()
    if (done) break
    text += new TextDecoder().decode(value)
  }
  await reader.cancel()
  return text.slice(0, bytes)
}

const chunks = Array.from({ length: 60 }, (_, index) => `data: piece ${index}\n\n`)
const whole = chunks.join("")

describe("an answer with a run id", () => {
  it("gives every client that was cut at any byte the rest of its bytes, and asks the provider once", async () => {
    const kept = makeRuns(() => 0)
    for (let client = 0; client < often(1_000); client += 1) {
      const { state, ask } = source(chunks)
      const cut = (client * 7919) % whole.length
      const first = await readSome(given(await kept.attach(`run-${client}`, "same", 0, ask)), cut)
      const rest = await given(await kept.attach(`run-${client}`, "same", cut, ask)).text()
      assert.strictEqual(first + rest, whole)
      assert.strictEqual(state.asked, 1)
    }
  })

  it("serves two clients at once, each at its own pace", async () => {
    const kept = makeRuns(() => 0)
    const { state, ask } = source(chunks)
    const [left, right] = await Promise.all([kept.attach("run", "same", 0, ask), kept.attach("run", "same", 10, ask)])
    assert.deepStrictEqual(await Promise.all([given(left).text(), given(right).text()]), [whole, whole.slice(10)])
    assert.strictEqual(state.asked, 1)
  })

  it("is not given to another request, nor from behind its end", async () => {
    const kept = makeRuns(() => 0)
    const { ask } = source(chunks)
    await given(await kept.attach("run", "one", 0, ask)).text()
    assert.strictEqual((await kept.attach("run", "other", 0, ask))._tag, "Other")
    assert.strictEqual((await kept.attach("run", "one", whole.length + 1, ask))._tag, "Beyond")
    assert.strictEqual(await given(await kept.attach("run", "one", whole.length, ask)).text(), "")
  })

  it("is forgotten after its time, and counts no byte then", async () => {
    let now = 0
    const kept = makeRuns(() => now)
    const { state, ask } = source(chunks)
    await given(await kept.attach("run", "same", 0, ask)).text()
    assert.isAtLeast(kept.bytes(), whole.length)
    now = 600_001
    await given(await kept.attach("run", "same", 0, ask)).text()
    assert.strictEqual(state.asked, 2)
    assert.strictEqual(kept.count(), 1)
    now = 1_300_000
    await given(await kept.attach("other", "same", 0, () => Promise.resolve(answerOf(new Response("{}"))))).text()
    assert.isAtMost(kept.bytes(), 4_096)
  })

  it("keeps no more bytes than it may, of one answer and of all", async () => {
    const kept = makeRuns(() => 0, { keptMillis: 1_000, keptBytes: 8_192, allBytes: 40_000, keptRuns: 100 })
    const long = Array.from({ length: 300 }, () => whole.slice(0, 61))
    for (let run = 0; run < 50; run += 1) {
      const { ask } = source(long)
      assert.strictEqual(await given(await kept.attach(`run-${run}`, "same", 0, ask)).text(), long.join(""))
      assert.isAtMost(kept.bytes(), 50_000)
    }
    const { ask } = source(long)
    assert.strictEqual((await kept.attach("run-49", "same", 0, ask))._tag, "Gone")
    const rest = await given(await kept.attach("run-49", "same", 18_000, ask)).text()
    assert.strictEqual(rest, long.join("").slice(18_000))
  })

  it("breaks where its answer broke, for whoever comes", async () => {
    const kept = makeRuns(() => 0)
    const ask = (): Promise<Answer> => {
      let count = 0
      const body = new ReadableStream<Uint8Array>({
        pull: (controller) => {
          count += 1
          if (count > 3) controller.error(new Error("cut"))
          else controller.enqueue(encoder.encode("abc"))
        }
      })
      return Promise.resolve(answerOf(new Response(body)))
    }
    for (const offset of [0, 4]) {
      const text = await given(await kept.attach("run", "same", offset, ask))
        .text()
        .catch(String)
      assert.include(text, "cut")
    }
  })
})
