import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { ServerResponse } from "node:http"
import { gzipSync } from "node:zlib"
import type { Message } from "../../../src/domain/chat/Message.ts"
import { toMessage } from "../../../src/domain/chat/ModelReply.ts"
import { moonshot } from "../../../src/domain/provider/profiles/moonshot.ts"
import { RecoveryPolicy, type RecoveryPolicyInput } from "../../../src/domain/recovery/RecoveryPolicy.ts"
import * as AnthropicModelClient from "../../../src/layers/provider/AnthropicModelClient.ts"
import * as OpenAiModelClient from "../../../src/layers/provider/OpenAiModelClient.ts"
import { generic } from "../../../src/domain/provider/profiles/generic.ts"
import { Recovery } from "../../../src/services/Recovery.ts"
import { json, provider, until, type Provider } from "../../support/loopback.ts"
import { worldOver } from "../../support/world.ts"

const policyOf = (input: Partial<RecoveryPolicyInput> = {}): RecoveryPolicy =>
  new RecoveryPolicy({
    ...RecoveryPolicy.broad,
    routeHealth: null,
    backoff: { base: 5, cap: 5 },
    routes: [{ model: "m" }],
    ...input
  })

const over = (server: Provider, input: Partial<RecoveryPolicyInput> = {}) =>
  worldOver(
    policyOf(input),
    OpenAiModelClient.layer({ apiKey: "sk-12345678", baseUrl: server.baseUrl, profile: generic })
  ).layer

const ask = (messages: ReadonlyArray<Message> = [{ role: "user", content: "go" }]) =>
  Effect.gen(function* () {
    const { complete } = yield* Recovery
    return yield* complete({ messages })
  })

const reply = (content: string) => ({
  choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content } }]
})

const tagOf = (exit: Exit.Exit<unknown, unknown>): unknown =>
  Exit.isFailure(exit) ? JSON.parse(JSON.stringify(exit.cause)) : null

/** Bodies of failed answers that never come to an end. */
const stalls: Readonly<Record<string, (response: ServerResponse) => void>> = {
  stalled: (response) => response.write('{"error": {'),
  silent: (response) => response.flushHeaders(),
  endless: (response) => {
    const more = (): void => {
      if (!response.destroyed && response.write("x".repeat(65_536))) setImmediate(more)
      else if (!response.destroyed) response.once("drain", more)
    }
    more()
  },
  "100,000 levels deep": (response) => response.end("[".repeat(100_000))
}

describe("a failed answer whose body is", () => {
  it.live.each(Object.entries(stalls))("%s is read from its status and headers", ([, stall]) =>
    Effect.gen(function* () {
      let asked = 0
      const server = yield* provider((_, response) => {
        asked += 1
        if (asked > 1) return json(response, 200, reply("fine"))
        response.writeHead(529, { "retry-after-ms": "20", "content-type": "application/json" })
        stall(response)
      })
      const found = yield* Effect.provide(ask(), over(server))
      assert.deepStrictEqual([found.text, asked], ["fine", 2])
      yield* until(() => server.open() === 0)
    })
  )

  it.live("stalled is asked once when the status says so", () =>
    Effect.gen(function* () {
      let asked = 0
      const server = yield* provider((_, response) => {
        asked += 1
        response.writeHead(401, { "content-type": "application/json" })
        response.write("{")
      })
      const exit = yield* Effect.exit(Effect.provide(ask(), over(server)))
      assert.include(JSON.stringify(tagOf(exit)), "ModelAuthenticationError")
      assert.strictEqual(asked, 1)
      yield* until(() => server.open() === 0)
    })
  )
})

describe("an answer past its bound", () => {
  it.live("of compressed bytes is given up and its connection closed", () =>
    Effect.gen(function* () {
      const bomb = gzipSync(Buffer.alloc(50_000_000, 0x20))
      const server = yield* provider((_, response) => {
        response.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip" }).end(bomb)
      })
      const before = process.memoryUsage().rss
      const exit = yield* Effect.exit(
        Effect.provide(
          ask(),
          over(server, { answerLimits: { replyBytes: 1_000_000, eventBytes: 1_000_000, errorBytes: 1_000 } })
        )
      )
      assert.include(JSON.stringify(tagOf(exit)), "reply_too_large")
      assert.isBelow(process.memoryUsage().rss - before, 200_000_000)
      yield* until(() => server.open() === 0)
    })
  )

  it.live("of a stream without end is given up, too", () =>
    Effect.gen(function* () {
      const server = yield* provider((_, response) => {
        response.writeHead(200, { "content-type": "application/json" })
        response.write('{"choices": [')
        stalls["endless"]?.(response)
      })
      const exit = yield* Effect.exit(
        Effect.provide(
          ask(),
          over(server, { answerLimits: { replyBytes: 1_000_000, eventBytes: 1_000_000, errorBytes: 1_000 } })
        )
      )
      assert.include(JSON.stringify(tagOf(exit)), "reply_too_large")
      yield* until(() => server.open() === 0)
    })
  )
})

describe("over real sockets", () => {
  const call = { id: "functions.read:0", type: "function", function: { name: "read", arguments: '{"path":"a"}' } }

  it.live("a tool loop begun by Kimi goes on with Claude", () =>
    Effect.gen(function* () {
      let asked = 0
      const kimi = yield* provider((_, response) => {
        asked += 1
        if (asked === 1)
          return json(response, 200, {
            choices: [
              {
                index: 0,
                finish_reason: "tool_calls",
                message: { role: "assistant", content: "\n", reasoning_content: "SECRET THOUGHTS", tool_calls: [call] }
              }
            ]
          })
        json(response, 529, { error: { type: "engine_overloaded_error" } })
      })
      const claude = yield* provider((_, response) =>
        json(response, 200, {
          type: "message",
          role: "assistant",
          model: "claude",
          content: [{ type: "text", text: "fine" }],
          stop_reason: "end_turn"
        })
      )
      const world = worldOver(
        policyOf({ routes: [{ model: "kimi" }, { model: "claude", client: "backup" }] }),
        OpenAiModelClient.layer({ apiKey: "sk-12345678", baseUrl: kimi.baseUrl, profile: moonshot }),
        {
          recovery: {
            clients: { backup: AnthropicModelClient.make({ apiKey: "sk-ant-12345678", baseUrl: claude.baseUrl }) }
          }
        }
      )
      const found = yield* Effect.gen(function* () {
        const first = yield* ask()
        return yield* ask([
          { role: "user", content: "go" },
          toMessage(first),
          { role: "tool", tool_call_id: "functions.read:0", content: "half \ud83d" }
        ])
      }).pipe(Effect.provide(world.layer))
      assert.strictEqual(found.text, "fine")
      // Kimi wants its thoughts back beside the call; nobody else sees them.
      assert.include(JSON.stringify(kimi.bodies[1]), "SECRET THOUGHTS")
      const sent = JSON.stringify(claude.bodies[0])
      for (const word of ["SECRET THOUGHTS", "functions.read:0", "\\ud83d", '"\\n"', "provider_meta"])
        assert.notInclude(sent, word)
      const ids = [...sent.matchAll(/"(?:id|tool_use_id)":"([\w-]+)"/g)].map((match) => match[1])
      assert.deepStrictEqual(ids, ["functions_read_0", "functions_read_0"])
    })
  )

  it.live("a request is what it was when it was made", () =>
    Effect.gen(function* () {
      let asked = 0
      const message = { role: "user" as const, content: "first" }
      const server = yield* provider((_, response) => {
        asked += 1
        message.content = "changed"
        json(response, asked === 1 ? 529 : 200, asked === 1 ? {} : reply("fine"))
      })
      yield* Effect.provide(ask([message]), over(server))
      assert.deepStrictEqual(
        server.bodies.map((body) => JSON.stringify(body["messages"])),
        ['[{"role":"user","content":"first"}]', '[{"role":"user","content":"first"}]']
      )
    })
  )
})
