import { assert, describe, it } from "@effect/vitest"
import { ConfigurationError } from "../../../src/domain/failure/ConfigurationError.ts"
import { failureOf, recoveredFetch, RecoveryPolicy } from "../../../src/fetch.ts"
import type { NativePolicyInput, RecoveredFetchOptions } from "../../../src/layers/native/recoveredFetch.ts"
import { providerOf, type Answer } from "../../support/nativeProvider.ts"
import {
  bodyOf,
  errorEventOf,
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
  backoff: { base: 1, cap: 1 },
  maxAttempts: 4,
  routeHealth: null
}

const seamOf = (
  answers: ReadonlyArray<Answer> | ((asked: unknown, number: number) => Answer),
  policy: NativePolicyInput = quick,
  options: RecoveredFetchOptions = {}
) => {
  const provider = providerOf(answers)
  return { ...provider, seam: recoveredFetch(policy, { ...options, fetch: provider.fetch }) }
}

const post = (wire: WireName, fields: Json = {}, init: RequestInit = {}): [string, RequestInit] => [
  `http://provider.test${pathOf[wire]}`,
  {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer sk-test-12345678" },
    body: JSON.stringify(requestOf(wire, fields)),
    ...init
  }
]

const hello = plain(["one ", "two ", "three"])
/** Events of the answer up to and with the second piece of its text. */
const untilSecond = (wire: WireName, script: Script = hello): ReadonlyArray<string> => {
  const events = eventTexts(wire, script)
  return events.slice(0, events.findIndex((event) => event.includes('"two ')) + 1)
}

describe.each(wireNames)("a request on %s", (wire) => {
  it("goes up and comes down byte for byte when nothing fails", async () => {
    const body = ` { "z": 12345678901234567890, "z":1.0, ${JSON.stringify(requestOf(wire)).slice(1, -1)}, "new": [ {"\\u0061": null} ] } `
    const answer = ` ${JSON.stringify({ ...bodyOf(wire, hello), future: true })}\n`
    const { seam, asked } = seamOf([{ body: answer, headers: { "x-request-id": "r", "x-other": "o" } }])
    const [url, init] = post(wire)
    const response = await seam(url, { ...init, body })
    assert.strictEqual(await response.text(), answer)
    assert.strictEqual(asked[0]?.text, body)
    assert.strictEqual(response.headers.get("x-other"), "o")
    assert.strictEqual(response.headers.get("x-holdfast-trail"), null)
  })

  it("has its whole answer, though the line behind it breaks, stays open or brings blanks", async () => {
    const answer = JSON.stringify(bodyOf(wire, hello))
    for (const [reads, end] of [
      [[answer], "reset"],
      [[answer.slice(0, 9), answer.slice(9), "\n"], "reset"],
      [[answer, " "], "hang"]
    ] as const) {
      const { seam, asked } = seamOf([{ reads, end, headers: { "content-type": "application/json" } }])
      const response = await seam(...post(wire))
      assert.deepStrictEqual(JSON.parse(await response.text()), bodyOf(wire, hello))
      assert.strictEqual(asked.length, 1)
    }
  }, 20_000)

  it("is a stream whose bytes are those that came, comments and all", async () => {
    const reads = [": hello\n\n", ...eventTexts(wire, hello).flatMap((text) => [text, ": still\r\n\r\n"])]
    const { seam } = seamOf([{ reads }])
    const response = await seam(...post(wire, { stream: true }))
    assert.strictEqual(await response.text(), reads.join(""))
  })

  it("is asked again after a fault, and the second answer is the answer", async () => {
    const answer = JSON.stringify(bodyOf(wire, hello))
    const { seam, asked } = seamOf([{ status: 503, body: errorOf(wire) }, { network: "reset" }, { body: answer }])
    const response = await seam(...post(wire))
    assert.strictEqual(await response.text(), answer)
    assert.strictEqual(asked.length, 3)
    assert.strictEqual(asked[0]?.text, asked[2]?.text)
    assert.include(response.headers.get("x-holdfast-trail") ?? "", '"status":503')
  })

  it("shows nothing of a stream that broke off before its first output", async () => {
    const events = eventTexts(wire, hello)
    const { seam } = seamOf([
      { reads: events.slice(0, 1), end: "reset" },
      { reads: [events[0] ?? "", errorEventOf(wire)] },
      { reads: events }
    ])
    const response = await seam(...post(wire, { stream: true }))
    assert.strictEqual(await response.text(), events.join(""))
  })

  it("goes on behind the text that was shown", async () => {
    const { seam, asked } = seamOf([
      { reads: untilSecond(wire), end: "reset" },
      { reads: eventTexts(wire, plain(["one two", " three"], "b")) }
    ])
    const text = await (await seam(...post(wire, { stream: true, store: false }))).text()
    assert.strictEqual(asked.length, 2)
    assert.strictEqual(deltasOf(wire, text).join("|"), "one |two |three")
    for (const id of ["chatcmpl-b", "resp_b", "msg_b"]) assert.notInclude(text, id)
  })

  it("goes on from the shown text when a replay says something else", async () => {
    const { seam, asked } = seamOf([
      { reads: untilSecond(wire), end: "close" },
      { reads: eventTexts(wire, plain(["else"], "b")) },
      { reads: eventTexts(wire, plain(["three"], "c")) }
    ])
    const text = await (await seam(...post(wire, { stream: true, store: false }))).text()
    assert.strictEqual(deltasOf(wire, text).join(""), "one two three")
    assert.include(asked[2]?.text ?? "", '{"role":"assistant","content":"one two "}')
    assert.notInclude(text, "else")
  })

  it("ends with the API's error event and a body that errors when nothing helps", async () => {
    const { seam } = seamOf((_asked, number) =>
      number === 1 ? { reads: untilSecond(wire), end: "reset" } : { status: 503, body: errorOf(wire) }
    )
    const response = await seam(...post(wire, { stream: true, store: false }))
    const { text, error } = await drain(response)
    assert.strictEqual(deltasOf(wire, text).join(""), "one two ")
    assert.include(text, '"error":{')
    assert.strictEqual(failureOf(error)?._tag, "RecoveryRetriesExhausted")
    assert.strictEqual(failureOf({ headers: response.headers })?._tag, "RecoveryRetriesExhausted")
  })

  it("fails with the provider's own status and words, and is not to be tried again", async () => {
    const body = JSON.stringify(errorOf(wire))
    const { seam, asked } = seamOf(() => ({ status: 503, body, headers: { "x-request-id": "r" } }))
    const response = await seam(...post(wire))
    assert.strictEqual(response.status, 503)
    assert.strictEqual(await response.text(), body)
    assert.strictEqual(response.headers.get("x-should-retry"), "false")
    assert.strictEqual(response.headers.get("x-request-id"), "r")
    assert.strictEqual(asked.length, 4)
    const failure = failureOf({ headers: response.headers })
    assert.strictEqual(failure?._tag, "RecoveryRetriesExhausted")
    assert.strictEqual(failure?.trail.length, 4)
  })

  it("passes a refusal of the request on as it is", async () => {
    const { seam, asked } = seamOf([
      { status: 400, body: '{ "error": {"message":"no","type":"invalid_request_error"} }' }
    ])
    const response = await seam(...post(wire))
    assert.strictEqual(await response.text(), '{ "error": {"message":"no","type":"invalid_request_error"} }')
    assert.strictEqual(response.status, 400)
    assert.strictEqual(asked.length, 1)
    assert.strictEqual(failureOf({ headers: response.headers })?._tag, "ModelRequestError")
  })

  it("tells a connection that never answers in the API's own form", async () => {
    const { seam } = seamOf(() => ({ network: "reset" }))
    const response = await seam(...post(wire))
    assert.strictEqual(response.status, 502)
    const body = (await response.json()) as { readonly error: { readonly message: string } }
    assert.isString(body.error.message)
  })

  it("switches to a fallback with another key, and leaves sealed thinking behind", async () => {
    const upstreams = { spare: { baseUrl: "http://spare.test/v1", apiKey: "sk-spare-12345678" } }
    const policy: NativePolicyInput = {
      ...quick,
      fallbackAfter: { overload: 1 },
      fallbacks: [{ model: "other", client: "spare" }]
    }
    const answers: ReadonlyArray<Answer> = [{ status: 503, body: errorOf(wire) }, { body: bodyOf(wire, hello) }]
    const { seam, asked } = seamOf(answers, policy, { upstreams })
    await seam(...post(wire, thinkingOf[wire]))
    assert.strictEqual(asked[1]?.url, `http://spare.test${pathOf[wire]}`)
    assert.include(asked[1]?.text ?? "", '"model":"other"')
    assert.include(asked[0]?.text ?? "", "sealed")
    assert.notInclude(asked[1]?.text ?? "", "sealed")
    const key = asked[1]?.headers.get(wire === "messages" ? "x-api-key" : "authorization")
    assert.include(key ?? "", "sk-spare-12345678")
    assert.notInclude([...(asked[1]?.headers.values() ?? [])].join(" "), "sk-test")
  })

  it("lets the body error with the signal's reason when its caller leaves", async () => {
    const { seam } = seamOf([{ reads: untilSecond(wire), end: "hang" }])
    const controller = new AbortController()
    const response = await seam(...post(wire, { stream: true }, { signal: controller.signal }))
    const reader = response.body?.getReader()
    await reader?.read()
    await reader?.read()
    const reason = new Error("enough")
    const next = reader?.read()
    controller.abort(reason)
    assert.strictEqual(await next?.catch((error: unknown) => error), reason)
  })

  it("rejects with the signal's reason while nothing has come", async () => {
    const { seam } = seamOf([{ network: "hang" }])
    const controller = new AbortController()
    const asked = seam(...post(wire, {}, { signal: controller.signal }))
    const reason = new Error("enough")
    controller.abort(reason)
    assert.strictEqual(await asked.catch((error: unknown) => error), reason)
  })

  it("shows nothing before the answer is whole when it has to be verified", async () => {
    const { seam, asked } = seamOf(
      [{ reads: untilSecond(wire), end: "reset" }, { reads: eventTexts(wire, plain(["quite ", "another"], "b")) }],
      quick,
      { stream: "verified" }
    )
    const text = await (await seam(...post(wire, { stream: true, store: false }))).text()
    assert.strictEqual(asked.length, 2)
    assert.strictEqual(text, eventTexts(wire, plain(["quite ", "another"], "b")).join(""))
  })

  it("turns a body that came in place of a stream into one", async () => {
    const { seam } = seamOf([{ body: bodyOf(wire, hello) }])
    const response = await seam(...post(wire, { stream: true }))
    assert.include(response.headers.get("content-type") ?? "", "text/event-stream")
    assert.strictEqual(deltasOf(wire, await response.text()).join(""), "one two three")
  })
})

/** A history with thinking that is bound to its model. */
const thinkingOf: { readonly [W in WireName]: Json } = {
  chat: {
    messages: [
      { role: "user", content: "a" },
      { role: "assistant", content: "b", reasoning_details: [{ type: "reasoning.encrypted", data: "sealed" }] },
      { role: "user", content: "c" }
    ]
  },
  responses: {
    input: [
      { role: "user", content: "a" },
      { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "sealed" },
      { role: "assistant", content: "b" },
      { role: "user", content: "c" }
    ]
  },
  messages: {
    messages: [
      { role: "user", content: "a" },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "t", signature: "sealed" },
          { type: "text", text: "b" }
        ]
      },
      { role: "user", content: "c" }
    ]
  }
}

const valuesOf = (text: string): ReadonlyArray<Json> =>
  text.split("\n").flatMap((line) => {
    if (!line.startsWith("data: ") || line === "data: [DONE]") return []
    return [JSON.parse(line.slice(6)) as Json]
  })

/** Pieces of visible text in a stream, in order. */
const deltasOf = (wire: WireName, text: string): ReadonlyArray<string> =>
  valuesOf(text).flatMap((event): ReadonlyArray<string> => {
    const pieces: { readonly [W in WireName]: () => unknown } = {
      chat: () =>
        (event["choices"] as ReadonlyArray<{ delta?: { content?: unknown } }> | undefined)?.[0]?.delta?.content,
      messages: () => (event["delta"] as { text?: unknown } | undefined)?.text,
      responses: () => (event["type"] === "response.output_text.delta" ? event["delta"] : undefined)
    }
    const piece = pieces[wire]()
    return typeof piece === "string" && piece !== "" ? [piece] : []
  })

const drain = async (response: Response) => {
  const decoder = new TextDecoder()
  let text = ""
  try {
    for await (const bytes of response.body ?? []) text += decoder.decode(bytes, { stream: true })
  } catch (error) {
    return { text, error }
  }
  return { text, error: null }
}

describe("the caller's budget", () => {
  const cut: Script = { ...plain(["one "]), finish: "length" }
  const cap: { readonly [W in WireName]: Json } = {
    chat: { max_tokens: 50 },
    responses: { max_output_tokens: 50 },
    messages: { max_tokens: 50 }
  }

  it.each(wireNames)("is not passed: a stop at it is a value on %s", async (wire) => {
    const { seam, asked } = seamOf([{ body: bodyOf(wire, cut) }])
    assert.deepStrictEqual(await (await seam(...post(wire, cap[wire]))).json(), bodyOf(wire, cut))
    assert.strictEqual(asked.length, 1)
  })

  it.each(["chat", "responses"] as const)(
    "that was not given is not added: the answer is continued on %s",
    async (wire) => {
      const { seam, asked } = seamOf([{ body: bodyOf(wire, cut) }, { body: bodyOf(wire, plain(["two"], "b")) }])
      const body = await (await seam(...post(wire))).json()
      assert.include(JSON.stringify(body), '"one two"')
      assert.notInclude(asked[1]?.text ?? "", "max_")
      assert.include(asked[1]?.text ?? "", '{"role":"assistant","content":"one "}')
    }
  )

  it.each(wireNames)("is a habit under truncation always: raised once, then continued on %s", async (wire) => {
    const { seam, asked } = seamOf(
      [{ body: bodyOf(wire, cut) }, { body: bodyOf(wire, cut) }, { body: bodyOf(wire, plain(["two"], "b")) }],
      { ...quick, raise: "always" },
      { truncation: "always" }
    )
    const body = await (await seam(...post(wire, cap[wire]))).json()
    assert.include(JSON.stringify(body), '"one two"')
    assert.match(asked[1]?.text ?? "", /"max_(output_)?tokens":64000/)
  })

  it.each(wireNames)("streams a continued answer as one on %s", async (wire) => {
    const { seam } = seamOf(
      [{ reads: eventTexts(wire, cut) }, { reads: eventTexts(wire, plain(["two"], "b")) }],
      { ...quick, raise: "never" },
      { truncation: "always" }
    )
    const text = await (await seam(...post(wire, { ...cap[wire], stream: true }))).text()
    assert.strictEqual(deltasOf(wire, text).join(""), "one two")
    assert.notInclude(text, '"length"')
    assert.notInclude(text, '"max_tokens"')
    assert.notInclude(text, "response.incomplete")
  })

  const long = ["The first part of it, ", "and the second one, "]
  it.each([
    { says: "anew", reads: [...long, "and the end."], whole: "The first part of it, and the second one, and the end." },
    { says: "on", reads: ["and ", "the end."], whole: "The first part of it, and the second one, and the end." },
    {
      says: "like it and then otherwise",
      reads: ["The first part ", "was wrong."],
      whole: "The first part of it, and the second one, The first part was wrong."
    },
    { says: "a piece of it again", reads: ["The first"], whole: "The first part of it, and the second one, The first" }
  ])("shows no text twice and loses none when a continuation goes $says", async ({ reads, whole }) => {
    for (const wire of wireNames) {
      const { seam } = seamOf(
        [
          { reads: eventTexts(wire, { ...plain(long), finish: "length" }) },
          { reads: eventTexts(wire, plain(reads, "b")) }
        ],
        { ...quick, raise: "never" },
        { truncation: "always" }
      )
      const text = await (await seam(...post(wire, { ...cap[wire], stream: true }))).text()
      assert.strictEqual(deltasOf(wire, text).join(""), whole, wire)
    }
  })
})

describe("everything else", () => {
  it("passes a probe and another scheme through untouched", async () => {
    const seen: Array<readonly [unknown, unknown]> = []
    const seam = recoveredFetch(quick, {
      fetch: (...call) => {
        seen.push([call[0], call[1]])
        return Promise.resolve(new Response("x"))
      }
    })
    await seam("data:,")
    assert.deepStrictEqual(seen, [["data:,", undefined]])
  })

  it("repeats what only reads", async () => {
    const { seam, asked } = seamOf([{ status: 503, body: {} }, { body: { data: [] } }])
    assert.deepStrictEqual(await (await seam("http://provider.test/v1/models")).json(), { data: [] })
    assert.strictEqual(asked.length, 2)
  })

  it.each(["/v1/embeddings", "/v1/messages/count_tokens", "/v1/moderations"])("repeats a POST to %s", async (path) => {
    const { seam, asked } = seamOf([{ status: 503, body: {} }, { body: { ok: 1 } }])
    const response = await seam(`http://provider.test${path}`, { method: "POST", body: "{}" })
    assert.deepStrictEqual(await response.json(), { ok: 1 })
    assert.strictEqual(asked.length, 2)
  })

  it.each(["/v1/files", "/v1/batches", "/v1/fine_tuning/jobs", "/v1/threads/t/messages"])(
    "sends once what creates something: %s",
    async (path) => {
      const { seam, asked } = seamOf([{ status: 503, body: { error: 1 } }])
      const response = await seam(`http://provider.test${path}`, { method: "POST", body: "{}" })
      assert.strictEqual(response.status, 503)
      assert.strictEqual(asked.length, 1)
    }
  )

  it("keeps a pinned request with its server", async () => {
    const { seam, asked } = seamOf(
      [{ status: 503, body: errorOf("responses") }, { body: bodyOf("responses", hello) }],
      {
        ...quick,
        fallbackAfter: { overload: 1 },
        fallbacks: [{ model: "other" }]
      }
    )
    const response = await seam(...post("responses", { previous_response_id: "resp_0" }))
    assert.strictEqual(response.status, 200)
    assert.deepStrictEqual(
      asked.map(({ text }) => (JSON.parse(text) as Json)["model"]),
      ["m", "m"]
    )
    assert.include(response.headers.get("x-holdfast-off") ?? "", "previous_response_id")
  })

  it("sends a background response once", async () => {
    const { seam, asked } = seamOf([{ status: 503, body: errorOf("responses") }])
    assert.strictEqual((await seam(...post("responses", { background: true }))).status, 503)
    assert.strictEqual(asked.length, 1)
  })

  it.each(wireNames)("takes words in place of a stream for a failure, on %s", async (wire) => {
    for (const words of ["upstream connect error\n", "Internal Server Error\n\n", ": hello\n\nService Unavailable"]) {
      const told: Array<unknown> = []
      const { seam, asked } = seamOf(
        [{ reads: [words] }, { reads: eventTexts(wire, hello) }],
        { ...quick, retry: ["serverError"] },
        { onEvent: (event) => told.push(event._tag === "Transitioned" ? event.outcome : null) }
      )
      const text = await (await seam(...post(wire, { stream: true }))).text()
      assert.strictEqual(text, eventTexts(wire, hello).join(""))
      assert.strictEqual(asked.length, 2)
      assert.include(JSON.stringify(told), '"kind":"server_error"')
    }
  })

  it("takes a stored stream up again behind its last event", async () => {
    const events = eventTexts("responses", hello)
    const at = events.findIndex((event) => event.includes('"two '))
    const { seam, asked } = seamOf([{ reads: events.slice(0, at + 1), end: "reset" }, { reads: events.slice(at + 1) }])
    const text = await (await seam(...post("responses", { stream: true }))).text()
    assert.strictEqual(text, events.join(""))
    assert.strictEqual(asked[1]?.method, "GET")
    assert.strictEqual(asked[1]?.url, `http://provider.test/v1/responses/resp_a?stream=true&starting_after=${at}`)
  })

  it("asks anew when the provider has not kept the stream", async () => {
    const events = eventTexts("responses", hello)
    const at = events.findIndex((event) => event.includes('"two '))
    const { seam, asked } = seamOf([
      { reads: events.slice(0, at + 1), end: "reset" },
      { status: 404, body: { error: { code: "not_found" } } },
      { reads: eventTexts("responses", plain(["one two three"], "b")) }
    ])
    const text = await (await seam(...post("responses", { stream: true }))).text()
    assert.strictEqual(deltasOf("responses", text).join(""), "one two three")
    assert.deepStrictEqual(
      asked.map(({ method }) => method),
      ["POST", "GET", "POST"]
    )
  })

  it("reads several choices roughly: whole or not", async () => {
    const two = {
      ...bodyOf("chat", hello),
      choices: [0, 1].map((index) => ({ index, finish_reason: "stop", message: { role: "assistant", content: "x" } }))
    }
    const { seam, asked } = seamOf([{ status: 503, body: {} }, { body: two }])
    const response = await seam(...post("chat", { n: 2 }))
    assert.deepStrictEqual(await response.json(), two)
    assert.strictEqual(asked.length, 2)
    assert.include(response.headers.get("x-holdfast-off") ?? "", "n > 1")
  })

  it.each([
    [{ retry: true }, "retry"],
    [{ stream: "slow" }, "stream"],
    [{ upstreams: { a: { baseUrl: "x" } } }, "upstreams.a.baseUrl"]
  ] as ReadonlyArray<readonly [object, string]>)("refuses the option %j", (options, field) => {
    try {
      recoveredFetch(quick, options as RecoveredFetchOptions)
      assert.fail("was taken")
    } catch (error) {
      assert.instanceOf(error, ConfigurationError)
      assert.strictEqual((error as ConfigurationError).field, field)
    }
  })

  it("refuses a route whose upstream nobody named", () => {
    assert.throws(() => recoveredFetch({ ...quick, fallbacks: [{ model: "o", client: "nobody" }] }), /nobody/)
  })
})
