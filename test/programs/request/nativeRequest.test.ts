/** One native request over a provider in place of the network: what is asked again, and what the client has at the end. */
import { assert, describe, it } from "@effect/vitest"
import { failureOf, recoveredFetch, RecoveryPolicy } from "../../../src/fetch.ts"
import type { NativePolicyInput, RecoveredFetchOptions } from "../../../src/layers/native/recoveredFetch.ts"
import { providerOf, type Answer } from "../../support/nativeProvider.ts"
import {
  bodyOf,
  errorOf,
  eventTexts,
  pathOf,
  plain,
  requestOf,
  wireNames,
  type Json,
  type Script,
  type WireName
} from "../../support/nativeScripts.ts"

const quick: NativePolicyInput = {
  ...RecoveryPolicy.broad,
  backoff: { base: 1, cap: 1, jitter: 0 },
  maxAttempts: 5,
  routeHealth: null
}

const seamOf = (
  answers: ReadonlyArray<Answer>,
  policy: NativePolicyInput = quick,
  options: RecoveredFetchOptions = {}
) => {
  const provider = providerOf(answers)
  const seam = recoveredFetch(policy, { ...options, fetch: provider.fetch })
  const ask = (wire: WireName, fields: Json = {}, init: RequestInit = {}): Promise<Response> =>
    seam(`http://provider.test${pathOf[wire]}`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer sk-test-12345678" },
      body: JSON.stringify(requestOf(wire, fields)),
      ...init
    })
  return { asked: provider.asked, methods: () => provider.asked.map(({ method }) => method), ask }
}

const hello = plain(["one ", "two ", "three"])
const cut: Script = { ...plain(["one "]), finish: "length" }
const empty = (wire: WireName): Json => bodyOf(wire, { ...plain([""], "b") })

const untilSecond = (wire: WireName): ReadonlyArray<string> => {
  const events = eventTexts(wire, hello)
  return events.slice(0, events.findIndex((event) => event.includes('"two ')) + 1)
}

const failureTag = async (response: Response) => {
  const error = await response.text().then(
    () => null,
    (cause: unknown) => cause
  )
  return failureOf(error ?? response)?._tag ?? null
}

describe.each(wireNames)("a body on %s", (wire) => {
  it.each([" ", "\t", "\r\n", "\n\t \r\n"])("is whole though %j follows it and the line stays open", async (blanks) => {
    const answer = JSON.stringify(bodyOf(wire, hello))
    const { ask, asked } = seamOf([
      { reads: [answer, blanks], end: "reset", headers: { "content-type": "application/json" } }
    ])
    assert.strictEqual(await (await ask(wire)).text(), answer + blanks)
    assert.strictEqual(asked.length, 1)
  })

  it("is asked for again when its line breaks before its end, though it seemed to have one", async () => {
    const answer = JSON.stringify(bodyOf(wire, hello))
    const at = answer.indexOf("}") + 1
    const headers = { "content-type": "application/json" }
    const { ask, asked } = seamOf([{ reads: [answer.slice(0, at)], end: "reset", headers }, { body: answer }])
    assert.strictEqual(await (await ask(wire)).text(), answer)
    assert.strictEqual(asked.length, 2)
  })

  it("is a failure when it is larger than the policy lets it be", async () => {
    const answer = JSON.stringify(bodyOf(wire, hello))
    const room = (replyBytes: number) =>
      seamOf([{ body: answer }], {
        ...quick,
        maxAttempts: 1,
        answerLimits: { replyBytes, eventBytes: replyBytes, errorBytes: 1_000 }
      })
    assert.strictEqual(await (await room(answer.length).ask(wire)).text(), answer)
    const refused = await room(answer.length - 1).ask(wire)
    assert.isAtLeast(refused.status, 400)
    assert.notInclude(await refused.text(), "three")
  })

  it("that comes in place of a stream and is no answer is a failure in the API's own form", async () => {
    const { ask, asked } = seamOf([{ body: { nothing: "known" } }])
    const response = await ask(wire, { stream: true })
    assert.isAtLeast(response.status, 400)
    assert.include(await response.text(), "not a valid reply")
    assert.strictEqual(asked.length, 1)
  })

  it("has its budget raised once, and what was set aside is gone on from when the raise is refused", async () => {
    const { ask, asked } = seamOf(
      [
        { body: bodyOf(wire, cut) },
        {
          status: 400,
          body: { type: "error", error: { type: "invalid_request_error", message: "max_tokens is too large" } }
        },
        { body: bodyOf(wire, plain(["two"], "b")) }
      ],
      { ...quick, raise: "always" },
      { truncation: "always" }
    )
    const field = wire === "responses" ? "max_output_tokens" : "max_tokens"
    const response = await ask(wire, { [field]: 50 })
    const text = await response.text()
    assert.strictEqual(response.status, 200)
    assert.include(text, '"one two"')
    assert.match(asked[1]?.text ?? "", /"max_(output_)?tokens":64000/)
    assert.include(asked[2]?.text ?? "", '"content":"one "')
  })
})

describe.each(["chat", "responses"] as const)("an answer that was cut, on %s", (wire) => {
  it("is whole when its continuation has nothing more to say", async () => {
    const { ask, asked } = seamOf([{ body: bodyOf(wire, cut) }, { body: empty(wire) }])
    const response = await ask(wire)
    assert.strictEqual(response.status, 200)
    assert.include(await response.text(), '"one "')
    assert.strictEqual(asked.length, 2)
  })

  it("counts what all its requests have used as one answer", async () => {
    const { ask } = seamOf([{ body: bodyOf(wire, cut) }, { body: bodyOf(wire, plain(["two", "three"], "b")) }])
    const { usage } = (await (await ask(wire)).json()) as { readonly usage: Readonly<Record<string, number>> }
    assert.strictEqual(usage[wire === "chat" ? "prompt_tokens" : "input_tokens"], 10)
    assert.strictEqual(usage[wire === "chat" ? "completion_tokens" : "output_tokens"], 3)
  })

  it("fails with the text so far when it cannot be brought to its end", async () => {
    const { ask } = seamOf(
      [
        { body: bodyOf(wire, cut) },
        { body: bodyOf(wire, { ...plain(["two "], "b"), finish: "length" }) },
        { body: bodyOf(wire, { ...plain(["three "], "c"), finish: "length" }) }
      ],
      { ...quick, maxContinuations: 1 }
    )
    const failure = failureOf(await ask(wire))
    assert.strictEqual(failure?._tag, "RecoveryRetriesExhausted")
    assert.strictEqual((failure as { readonly partial?: string | null }).partial, "one two ")
  })
})

describe("a stored stream that breaks off", () => {
  const rest = (): Answer => ({ reads: eventTexts("responses", hello).slice(untilSecond("responses").length) })
  const broken: Answer = { reads: untilSecond("responses"), end: "reset" }
  const whole: Answer = { reads: eventTexts("responses", plain(["one two three"], "b")) }
  const refused = (status: number): Answer => ({ status, body: errorOf("responses") })

  it("is asked for twice when its provider is busy, and made anew after that", async () => {
    for (const no of [refused(503), { network: "reset" } as const]) {
      const twice = seamOf([broken, no, rest()])
      assert.strictEqual(
        await (await twice.ask("responses", { stream: true })).text(),
        eventTexts("responses", hello).join("")
      )
      assert.deepStrictEqual(twice.methods(), ["POST", "GET", "GET"])
      const anew = seamOf([broken, no, no, whole])
      assert.include(await (await anew.ask("responses", { stream: true })).text(), "three")
      assert.deepStrictEqual(anew.methods(), ["POST", "GET", "GET", "POST"])
    }
  })

  it("is made anew at once when its provider says that there is none, and not asked for again", async () => {
    const { ask, methods } = seamOf([broken, refused(404), broken, whole])
    await (await ask("responses", { stream: true })).text()
    assert.deepStrictEqual(methods(), ["POST", "GET", "POST", "POST"])
  })

  it("is made anew when nothing of it is kept, and when its name had not come", async () => {
    const unkept = seamOf([broken, whole])
    await (await unkept.ask("responses", { stream: true, store: false })).text()
    assert.deepStrictEqual(unkept.methods(), ["POST", "POST"])
    const nameless = seamOf([{ reads: ['data: {"type":"response.cre'], end: "reset" }, whole])
    await (await nameless.ask("responses", { stream: true })).text()
    assert.deepStrictEqual(nameless.methods(), ["POST", "POST"])
  })

  it("is taken up from its very first event", async () => {
    const events = eventTexts("responses", hello)
    const { ask, asked } = seamOf([{ reads: events.slice(0, 1), end: "reset" }, { reads: events.slice(1) }])
    assert.strictEqual(await (await ask("responses", { stream: true })).text(), events.join(""))
    assert.strictEqual(asked[1]?.url, "http://provider.test/v1/responses/resp_a?stream=true&starting_after=0")
  })
})

describe("a response that its server makes on its own", () => {
  const background = { background: true, stream: true }
  const events = eventTexts("responses", hello)
  const at = untilSecond("responses").length
  const broken: Answer = { reads: events.slice(0, at), end: "reset" }

  it("is taken up as often as its stream breaks, and never made again", async () => {
    const busy = { status: 503, body: errorOf("responses") }
    const { ask, methods } = seamOf([broken, busy, busy, { reads: events.slice(at) }])
    assert.strictEqual(await (await ask("responses", background)).text(), events.join(""))
    assert.deepStrictEqual(methods(), ["POST", "GET", "GET", "GET"])
  })

  it("fails when its provider does not know it any more", async () => {
    const { ask, methods } = seamOf([broken, { status: 404, body: errorOf("responses") }])
    const response = await ask("responses", background)
    assert.isNotNull(await failureTag(response))
    assert.deepStrictEqual(methods(), ["POST", "GET"])
  })

  it.each([
    { does: "is stopped", fields: background, methods: ["POST", "POST"] },
    { does: "that is only stored is left", fields: { stream: true }, methods: ["POST"] }
  ])("$does when its caller leaves", async ({ fields, methods: expected }) => {
    const { ask, asked, methods } = seamOf([{ reads: events.slice(0, at), end: "hang" }, { body: {} }])
    const controller = new AbortController()
    const response = await ask("responses", fields, { signal: controller.signal })
    const reader = response.body?.getReader()
    await reader?.read()
    controller.abort()
    await reader?.read().catch(() => undefined)
    await new Promise((resolve) => setTimeout(resolve, 20))
    assert.deepStrictEqual(methods(), expected)
    if (expected.length > 1) assert.strictEqual(asked[1]?.url, "http://provider.test/v1/responses/resp_a/cancel")
  })
})

describe("a native request that is too long", () => {
  const tooLong: { readonly [W in WireName]: Answer } = {
    chat: {
      status: 400,
      body: { error: { message: "x", type: "invalid_request_error", code: "context_length_exceeded" } }
    },
    responses: {
      status: 400,
      body: { error: { message: "x", type: "invalid_request_error", code: "context_length_exceeded" } }
    },
    messages: {
      status: 413,
      body: { type: "error", error: { type: "request_too_large", message: "prompt is too long" } }
    }
  }
  const turns = Array.from({ length: 12 }, (_, index) => ({
    role: index % 2 === 0 ? "user" : "assistant",
    content: `turn ${index} ${"word ".repeat(60)}`
  }))
  const history = (wire: WireName): Json => {
    const rules = wire === "messages" ? [] : [{ role: "system", content: "the rules" }]
    const all = [...rules, ...turns, { role: "user", content: "last" }]
    return wire === "responses" ? { input: all } : { messages: all }
  }
  const policy: NativePolicyInput = { ...quick, compaction: { mode: "once", keepRecentMessages: 2 } }

  it.each(["chat", "responses"] as const)(
    "has what is old summarised once: rules and what is recent stay, on %s",
    async (wire) => {
      const { ask, asked } = seamOf(
        [tooLong[wire], { body: bodyOf(wire, plain(["in short"], "s")) }, { body: bodyOf(wire, hello) }],
        policy
      )
      assert.deepStrictEqual(await (await ask(wire, history(wire))).json(), bodyOf(wire, hello))
      const sent = JSON.parse(asked[2]?.text ?? "{}") as Readonly<Record<string, ReadonlyArray<Json>>>
      const items = sent[wire === "responses" ? "input" : "messages"] ?? []
      assert.strictEqual(items[0]?.["content"], "the rules")
      assert.include(JSON.stringify(items[1]), "in short")
      assert.strictEqual(items.at(-1)?.["content"], "last")
      assert.isBelow(items.length, 6)
      assert.include(asked[1]?.text ?? "", "turn 0")
      assert.notInclude(asked[1]?.text ?? "", '"last"')
      assert.notInclude(asked[2]?.text ?? "", "turn 0")
    }
  )

  it("fails when it is too long behind its summary, too, and is not summarised twice", async () => {
    const { ask, asked } = seamOf(
      [tooLong.chat, { body: bodyOf("chat", plain(["in short"], "s")) }, tooLong.chat],
      policy
    )
    assert.strictEqual(failureOf(await ask("chat", history("chat")))?._tag, "PromptTooLongRetryError")
    assert.strictEqual(asked.length, 3)
  })

  it("fails with what its provider said when nothing of it is old", async () => {
    const { ask, asked } = seamOf([tooLong.chat], policy)
    const response = await ask("chat")
    assert.strictEqual(response.status, 400)
    assert.include(await response.text(), "context_length_exceeded")
    assert.strictEqual(asked.length, 1)
  })
})
