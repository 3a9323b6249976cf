import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { gemini } from "../../../src/domain/provider/profiles/gemini.ts"
import { moonshot } from "../../../src/domain/provider/profiles/moonshot.ts"
import { RecoveryPolicy } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as AnthropicModelClient from "../../../src/layers/provider/AnthropicModelClient.ts"
import * as OpenAiModelClient from "../../../src/layers/provider/OpenAiModelClient.ts"
import * as ToolboxLive from "../../../src/layers/ToolboxLive.ts"
import * as ConversationMemory from "../../../src/programs/agent/ConversationMemory.ts"
import { runAgent } from "../../../src/programs/agent/runAgent.ts"
import { Recovery } from "../../../src/services/Recovery.ts"
import { Toolbox } from "../../../src/services/Toolbox.ts"
import { json, provider } from "../../support/loopback.ts"
import { worldOver } from "../../support/world.ts"

/** One turn of an agent over real sockets, whose model is lost twice in the middle of its tool loop. */

const policy = new RecoveryPolicy({
  ...RecoveryPolicy.broad,
  routeHealth: null,
  backoff: { base: 5, cap: 5 },
  routes: [{ model: "kimi" }, { model: "claude", client: "claude" }, { model: "gemini-3-pro", client: "gemini" }]
})

const first = (answer: unknown, overload: unknown) => {
  let asked = 0
  return provider((_, response) => {
    asked += 1
    if (asked === 1) json(response, 200, answer)
    else json(response, 529, overload)
  })
}

const kimiStep = {
  choices: [
    {
      index: 0,
      finish_reason: "tool_calls",
      message: {
        role: "assistant",
        content: "",
        reasoning_content: "KIMI THOUGHTS",
        tool_calls: [
          { id: "functions.read:0", type: "function", function: { name: "read", arguments: '{"path":"a"}' } }
        ]
      }
    }
  ]
}

const claudeStep = {
  type: "message",
  role: "assistant",
  model: "claude",
  content: [
    { type: "thinking", thinking: "CLAUDE THOUGHTS", signature: "CLAUDE SIGNATURE" },
    { type: "tool_use", id: "toolu_1", name: "read", input: { path: "b" } }
  ],
  stop_reason: "tool_use"
}

const geminiEnd = { choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "fine" } }] }

const idsIn = (body: unknown, names: RegExp): ReadonlyArray<string | undefined> =>
  [...JSON.stringify(body).matchAll(names)].map((match) => match[1])

it.live("a tool loop goes from Kimi to Claude to Gemini: no tool runs twice, and nobody gets another's thoughts", () =>
  Effect.gen(function* () {
    const kimi = yield* first(kimiStep, { error: { type: "engine_overloaded_error" } })
    const claude = yield* first(claudeStep, { type: "error", error: { type: "overloaded_error" } })
    const google = yield* provider((_, response) => json(response, 200, geminiEnd))
    const paths: Array<string> = []
    const read = ToolboxLive.tool({
      name: "read",
      description: "reads",
      parameters: Schema.Struct({ path: Schema.String }),
      run: ({ path }) => Effect.sync(() => (paths.push(path), `text of ${path}`))
    })
    const world = worldOver(
      policy,
      OpenAiModelClient.layer({ apiKey: "sk-12345678", baseUrl: kimi.baseUrl, profile: moonshot }),
      {
        recovery: {
          clients: {
            claude: AnthropicModelClient.make({ apiKey: "sk-ant-12345678", baseUrl: claude.baseUrl }),
            gemini: OpenAiModelClient.make({ apiKey: "sk-g-12345678", baseUrl: google.baseUrl, profile: gemini })
          }
        }
      }
    )
    const executor = yield* Effect.provide(Recovery, world.layer)
    const conversation = yield* ConversationMemory.make()
    const toolbox = yield* Effect.orDie(ToolboxLive.make([read]))
    const ended = yield* runAgent({ executor, conversation }, "go").pipe(
      Effect.provideService(Toolbox, Toolbox.of(toolbox))
    )
    assert.strictEqual(ended.reply.text, "fine")
    assert.deepStrictEqual(paths, ["a", "b"])
    // Each model has its own thoughts back beside its call, and the others do not see them.
    assert.include(JSON.stringify(kimi.bodies[1]), "KIMI THOUGHTS")
    assert.notInclude(JSON.stringify(claude.bodies[0]), "KIMI THOUGHTS")
    assert.include(JSON.stringify(claude.bodies[1]), "CLAUDE SIGNATURE")
    const last = JSON.stringify(google.bodies[0])
    for (const word of ["KIMI THOUGHTS", "CLAUDE THOUGHTS", "CLAUDE SIGNATURE", "provider_meta"])
      assert.notInclude(last, word)
    // Gemini refuses calls without a signature: the documented one stands in for both.
    assert.strictEqual(last.split("skip_thought_signature_validator").length - 1, 2)
    assert.strictEqual(google.bodies.length, 1)
    // Calls and results are in pairs everywhere, in each provider's spelling.
    assert.deepStrictEqual(
      idsIn(claude.bodies[1], /"id":"([^"]+)"/g),
      idsIn(claude.bodies[1], /"tool_use_id":"([^"]+)"/g)
    )
    assert.deepStrictEqual(
      idsIn(google.bodies[0], /"id":"([^"]+)"/g),
      idsIn(google.bodies[0], /"tool_call_id":"([^"]+)"/g)
    )
  }).pipe(Effect.scoped)
)
