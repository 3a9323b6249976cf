import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import type { ModelRequest } from "../../../src/domain/chat/ModelRequest.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import { requestFault } from "../../../src/domain/failure/requestFault.ts"
import * as ModelSummarizer from "../../../src/layers/ModelSummarizer.ts"
import * as RecoveryLive from "../../../src/layers/RecoveryLive.ts"
import * as ScriptedModel from "../../../src/layers/ScriptedModel.ts"
import { rawExecutor } from "../../../src/programs/agent/rawExecutor.ts"
import { recoverTransient } from "../../../src/programs/request/singleRoad.ts"
import { ModelClient } from "../../../src/services/ModelClient.ts"
import { Recovery } from "../../../src/services/Recovery.ts"

const user = { role: "user", content: "SECRET" }
const call = { id: "c", type: "function", function: { name: "n", arguments: "{}" } }
const faultOf = (request: unknown) => requestFault(request as ModelRequest)

describe("a request that cannot be sent", () => {
  it.each([
    ["request", undefined],
    ["request", "go"],
    ["messages", {}],
    ["messages", { messages: "hello" }],
    ["messages[0]", { messages: ["hello"] }],
    ["messages[1].role", { messages: [user, { role: "robot", content: "SECRET" }] }],
    ["messages[0].content", { messages: [{ role: "user" }] }],
    ["messages[0].content", { messages: [{ role: "user", content: 42 }] }],
    ["messages[0].content[1]", { messages: [{ role: "user", content: [{ type: "text", text: "" }, "SECRET"] }] }],
    ["messages[0].tool_call_id", { messages: [{ role: "tool", content: "SECRET" }] }],
    ["messages[0].tool_calls", { messages: [{ role: "assistant", content: null, tool_calls: {} }] }],
    [
      "messages[0].tool_calls[1]",
      { messages: [{ role: "assistant", content: null, tool_calls: [call, { id: "d" }] }] }
    ],
    ["tools", { messages: [user], tools: {} }],
    ["tools[0]", { messages: [user], tools: [{ name: "SECRET" }] }],
    ["maxOutputTokens", { messages: [user], maxOutputTokens: 0 }],
    ["maxOutputTokens", { messages: [user], maxOutputTokens: -3.5 }],
    ["maxOutputTokens", { messages: [user], maxOutputTokens: 1.5 }],
    ["maxOutputTokens", { messages: [user], maxOutputTokens: "100" }],
    ["maxOutputTokens", { messages: [user], maxOutputTokens: Number.NaN }],
    ["priority", { messages: [user], priority: "urgent" }],
    ["params", { messages: [user], params: [] }],
    ["params.stream", { messages: [user], params: { stream: true } }],
    ["params.model", { messages: [user], params: { model: "SECRET" } }],
    ["params.messages", { messages: [user], params: { messages: [] } }],
    ["params.max_tokens", { messages: [user], params: { max_tokens: 5 } }],
    ["params.max_completion_tokens", { messages: [user], params: { max_completion_tokens: 5 } }],
    ["params.n", { messages: [user], params: { n: 2 } }],
    ["params.n", { messages: [user], params: { n: 0 } }],
    ["params.n", { messages: [user], params: { n: "1" } }],
    ["params.functions", { messages: [user], params: { functions: [{ name: "SECRET" }] } }],
    ["params.functions", { messages: [user], params: { functions: [] } }],
    ["temperature", { messages: [user], temperature: 0 }],
    ["response_format", { messages: [user], response_format: { type: "json_object" } }],
    ["max_tokens", { messages: [user], max_tokens: 5 }],
    ["model", { messages: [user], model: "SECRET" }],
    ["stream", { messages: [user], stream: true }],
    ["maxoutputtokens", { messages: [user], maxoutputtokens: 5 }],
    ["constructor", { messages: [user], constructor: "SECRET" }],
    ["signal", { messages: [user], signal: new AbortController().signal }]
  ])("names the field: %s", (field, request) => {
    const fault = faultOf(request)
    assert.deepStrictEqual([fault?._tag, fault?.status, fault?.code], ["ModelRequestError", null, field])
    assert.strictEqual(fault?.message, `the request cannot be sent as it is (${field})`)
    assert.match(fault?.guidance ?? "", /^Nothing was sent\. `[^`]+` (must|belongs|is set|is the legacy form)/)
    assert.notInclude(`${fault?.message}${fault?.guidance}${JSON.stringify(fault)}`, "SECRET")
  })

  it("says where a field of the provider's body belongs", () => {
    const guidanceOf = (field: string): string => faultOf({ messages: [user], [field]: 1 })?.guidance ?? ""
    assert.include(guidanceOf("temperature"), "`temperature` belongs into `params`")
    assert.include(guidanceOf("top_p"), "`top_p` belongs into `params`")
    assert.include(guidanceOf("max_tokens"), "give `maxOutputTokens`")
    assert.include(guidanceOf("model"), "name the model in `routes`")
    assert.include(guidanceOf("stream"), "call `stream` or `complete`")
  })

  it.each([
    { messages: [], temperature: undefined },
    { messages: [] },
    { messages: [user], maxOutputTokens: undefined, tools: undefined, priority: undefined, params: undefined },
    { messages: [{ ...user, name: "ann", content: [{ type: "thing", x: 1 }] }], params: { stream: undefined, n: 1 } },
    { messages: [user, { role: "assistant", content: null, tool_calls: [call] }], maxOutputTokens: 1 },
    { messages: [{ role: "assistant" }], priority: "background", tools: [] }
  ])("lets all else through: %j", (request) => {
    assert.isNull(faultOf(request))
  })

  it.effect("sends nothing, whoever was asked", () =>
    Effect.gen(function* () {
      const { client, requests } = ScriptedModel.make([])
      const policy = new RecoveryPolicy({ routes: [{ model: "m" }] })
      const recovery = yield* Recovery.pipe(
        Effect.provide(
          RecoveryLive.layer(policy).pipe(
            Layer.provide(ModelSummarizer.layer({ model: "m" })),
            Layer.provide(Layer.succeed(ModelClient, client))
          )
        )
      )
      const raw = rawExecutor(client, { model: "m", maxOutputTokens: 10 })
      const bad = { messages: "hello" } as unknown as ModelRequest
      const failures = yield* Effect.all([
        Effect.flip(recovery.complete(bad)),
        Effect.flip(Stream.runDrain(recovery.stream(bad))),
        Effect.flip(raw.complete(bad)),
        Effect.flip(Stream.runDrain(raw.stream(bad))),
        Effect.flip(recoverTransient(client, policy)(bad))
      ])
      for (const failure of failures) assert.propertyVal(failure, "code", "messages")
      assert.strictEqual(requests.length, 0)
    })
  )
})
