import { assert, describe, it } from "@effect/vitest"
import { rmSync, mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js"
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { z } from "zod"
import { ConfigurationError } from "../../src/domain/failure/ConfigurationError.ts"
import { RecoveryCancelledError } from "../../src/domain/failure/RecoveryError.ts"
import { RecoveryPolicy } from "../../src/domain/recovery/RecoveryPolicy.ts"
import { unpaired } from "../../src/domain/chat/MessageGroups.ts"
import { TurnParked } from "../../src/domain/agent/JournalError.ts"
import * as JournalSqlite from "../../src/layers/stores/JournalSqlite.ts"
import * as ScriptedModel from "../../src/layers/ScriptedModel.ts"
import {
  AgentConversation,
  AnswerMismatch,
  createAgent,
  createRecovery,
  defineTool,
  mcpTools,
  toolContent,
  type AgentTool,
  type CreateAgentOptions
} from "../../src/promise.ts"

const calls = (...of: ReadonlyArray<readonly [name: string, args: unknown]>): ScriptedModel.Step => ({
  reply: {
    text: null,
    finishReason: "tool_calls",
    toolCalls: of.map(([name, args], at) => ({ id: `c${at}`, name, arguments: JSON.stringify(args) }))
  }
})
const says = (text: string): ScriptedModel.Step => ({ reply: { text } })
const overloaded: ScriptedModel.Step = { fail: { kind: "overloaded", status: 529 } }

const over = (steps: ReadonlyArray<ScriptedModel.Step>) => {
  const scripted = ScriptedModel.make(steps)
  const recovery = createRecovery({
    policy: { backoff: { base: 1, cap: 1 }, routes: [{ model: "large" }] },
    client: scripted.client,
    health: "own"
  })
  return { recovery, requests: scripted.requests }
}

const agentOver = (
  steps: ReadonlyArray<ScriptedModel.Step>,
  tools: ReadonlyArray<AgentTool>,
  more: Partial<Omit<CreateAgentOptions, "output">> = {}
) => {
  const { recovery, requests } = over(steps)
  return { agent: createAgent({ recovery, tools, ...more }), recovery, requests }
}

const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => Promise.reject(new Error("it was kept")),
    (cause: unknown) => cause
  )

const add = (seen: Array<unknown> = []) =>
  defineTool({
    name: "add",
    description: "adds two numbers",
    parameters: z.object({ a: z.number(), b: z.number() }),
    run: async ({ a, b }) => {
      seen.push([a, b])
      return a + b
    }
  })

/** The last result a model was shown. */
const lastResult = (requests: ReadonlyArray<{ readonly messages: ReadonlyArray<{ readonly content?: unknown }> }>) =>
  requests.at(-1)?.messages.at(-1)?.content

describe("an agent of plain functions", () => {
  it("has one deadline for all requests of a run, whatever the policy says of its own", async () => {
    const slow = (step: ScriptedModel.Step): ScriptedModel.Step => ({
      run: () =>
        Effect.delay(Effect.succeed(ScriptedModel.makeReply("reply" in step ? step.reply : assert.fail())), 200)
    })
    const scripted = ScriptedModel.make([slow(calls(["add", { a: 1, b: 2 }])), slow(says("three"))])
    const recovery = createRecovery({
      policy: { ...RecoveryPolicy.broad, routes: [{ model: "large" }] },
      client: scripted.client,
      health: "own"
    })
    const agent = createAgent({ recovery, tools: [add()] })
    const failure = await failureOf(agent.run("1 + 2?", { deadline: 300 }))
    assert.propertyVal(failure, "_tag", "RecoveryDeadlineExceeded")
    assert.strictEqual(scripted.requests.length, 2)
    await recovery.close()
  })

  it("runs a tool of a zod schema once through an overload, and ends with the model", async () => {
    const seen: Array<unknown> = []
    const { agent, requests } = agentOver([calls(["add", { a: 2, b: 3 }]), overloaded, says("It is 5.")], [add(seen)])
    const answer = await agent.run("What is 2 + 3?")
    assert.strictEqual(answer.text, "It is 5.")
    assert.deepStrictEqual([answer.steps, answer.toolCalls, answer.output], [2, 1, null])
    assert.deepStrictEqual(seen, [[2, 3]])
    assert.deepStrictEqual(
      answer.conversation.messages.map((message) => message.role),
      ["user", "assistant", "tool", "assistant"]
    )
    assert.strictEqual(lastResult(requests.slice(0, 2)), "5")
    assert.deepInclude(requests[0]?.tools?.[0]?.function.parameters, { type: "object", required: ["a", "b"] })
  })
  it("takes Effect schemas and JSON Schema for arguments, too", async () => {
    const seen: Array<unknown> = []
    const effect = defineTool({
      name: "effect",
      description: "",
      parameters: Schema.Struct({ when: Schema.FiniteFromString }),
      run: ({ when }) => void seen.push(when + 1)
    })
    const json = defineTool({
      name: "json",
      description: "",
      parameters: { type: "object", properties: { q: { type: "string" } }, required: ["q"] },
      run: (args) => void seen.push(args["q"])
    })
    const { agent } = agentOver([calls(["effect", { when: "41" }], ["json", { q: "x" }]), says("done")], [effect, json])
    await agent.run("go")
    assert.deepStrictEqual(seen, [42, "x"])
  })
  it("tells the model what does not fit, what was thrown and what took too long, and runs nothing else", async () => {
    let ran = 0
    const strict = defineTool({
      name: "strict",
      description: "",
      parameters: z.object({ n: z.number().max(9) }),
      run: () => void (ran += 1)
    })
    const later = defineTool({
      name: "later",
      description: "",
      parameters: z.object({ n: z.number() }).refine(async ({ n }) => n < 9, "n is too large"),
      run: () => void (ran += 1)
    })
    const throws = defineTool({
      name: "throws",
      description: "",
      parameters: z.object({}),
      run: () => {
        throw new TypeError("no such file")
      }
    })
    let aborted: unknown = null
    const slow = defineTool({
      name: "slow",
      description: "",
      parameters: z.object({}),
      timeout: 5,
      run: (_args, { signal }) =>
        new Promise(() => {
          signal.addEventListener("abort", () => (aborted = signal.aborted))
        })
    })
    const { agent } = agentOver(
      [calls(["strict", { n: 10 }], ["later", { n: 10 }], ["throws", {}], ["slow", {}]), says("done")],
      [strict, later, throws, slow]
    )
    const { conversation } = await agent.run("go")
    const results = conversation.messages.flatMap((message) =>
      message.role === "tool" ? [String(message.content)] : []
    )
    assert.match(results[0] ?? "", /n: .*9/)
    assert.match(results[1] ?? "", /n is too large/)
    assert.match(results[2] ?? "", /no such file/)
    assert.match(results[3] ?? "", /stopped after 5 ms/)
    assert.deepStrictEqual([ran, aborted], [0, true])
  })
  it("carries pictures in a prompt and in a result", async () => {
    const image = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }
    const look = defineTool({
      name: "look",
      description: "",
      parameters: z.object({}),
      run: () => toolContent([{ type: "text", text: "a chart" }, image])
    })
    const { agent, requests } = agentOver([calls(["look", {}]), says("It rises.")], [look])
    await agent.run([{ type: "text", text: "See" }, image])
    assert.deepStrictEqual(requests[0]?.messages[0]?.content, [{ type: "text", text: "See" }, image])
    assert.deepStrictEqual(lastResult(requests), [{ type: "text", text: "a chart" }, image])
  })
  it("asks for approval before a tool runs, and tells the model of a no", async () => {
    const seen: Array<unknown> = []
    const asked: Array<string> = []
    const pay = defineTool({
      name: "pay",
      description: "",
      parameters: z.object({ usd: z.number() }),
      approval: true,
      run: ({ usd }) => void seen.push(usd)
    })
    const { agent, requests } = agentOver([calls(["pay", { usd: 1 }], ["pay", { usd: 900 }]), says("done")], [pay], {
      approve: async ({ arguments: args }) => {
        asked.push(args)
        return !args.includes("900")
      }
    })
    await agent.run("go")
    assert.deepStrictEqual([asked.length, seen], [2, [1]])
    assert.match(String(lastResult(requests)), /not approved/)
  })
  it("stops at what all of its runs together may spend", async () => {
    const usage = { promptTokens: 50, completionTokens: 60, cachedTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 }
    const paid: ScriptedModel.Step = { reply: { text: "a", usage } }
    const { agent, requests } = agentOver([paid, paid, paid], [], { limits: { maxTokens: 200 }, maxOutputTokens: 60 })
    await agent.run("one")
    await agent.run("two")
    const failure = await failureOf(agent.run("three"))
    assert.propertyVal(failure, "_tag", "BudgetExceeded")
    assert.strictEqual(requests.length, 2)
  })
  it("hands a task to another agent with a history of its own", async () => {
    const inner = agentOver([says("inner answer")], [], { system: "You look things up." })
    const { agent, requests } = agentOver(
      [calls(["ask", { task: "look" }]), says("done")],
      [inner.agent.asTool({ name: "ask", description: "asks another" })]
    )
    await agent.run("go")
    assert.strictEqual(lastResult(requests), "inner answer")
    assert.deepStrictEqual(
      inner.requests[0]?.messages.map((message) => message.role),
      ["system", "user"]
    )
  })
  it("refuses options it does not know, by their name, before anything is sent", () => {
    const { recovery } = over([])
    const bad = (options: object, field: string): void => {
      try {
        createAgent({ recovery, ...options })
        assert.fail("it was taken")
      } catch (error) {
        assert.instanceOf(error, ConfigurationError)
        assert.strictEqual(error.field, field)
      }
    }
    bad({ tool: [] }, "tool")
    bad({ recovery: {} }, "recovery")
    bad({ tools: [add(), add()] }, "tools.add")
    bad({ output: 5 }, "output")
    bad({ output: { "~standard": { version: 1, vendor: "old", validate: () => ({ value: 1 }) } } }, "output")
    assert.throws(() => defineTool({ name: "", description: "", parameters: z.object({}), run: () => 1 }), /name/)
  })
})

describe("a structured answer", () => {
  const output = z.object({ city: z.string(), inhabitants: z.number() })

  it("is asked for by its schema and given as a value", async () => {
    const { recovery, requests } = over([says('{"city":"Bonn","inhabitants":330000}')])
    const answer = await createAgent({ recovery, output }).run("Which city?")
    assert.deepStrictEqual(answer.output, { city: "Bonn", inhabitants: 330_000 })
    const { output: typed } = answer
    assert.strictEqual(typed?.city, "Bonn")
    assert.deepNestedInclude(requests[0]?.params, {
      "response_format.type": "json_schema",
      "response_format.json_schema.strict": true
    })
  })
  it("is asked for again, with what is wrong, and also read out of a fence", async () => {
    const { recovery, requests } = over([
      says('{"city":"Bonn"}'),
      says('```json\n{"city":"Bonn","inhabitants":330000}\n```')
    ])
    const answer = await createAgent({ recovery, output }).run("Which city?")
    assert.deepStrictEqual(answer.output, { city: "Bonn", inhabitants: 330_000 })
    assert.match(String(lastResult(requests)), /inhabitants/)
  })
  it("that never fits is a typed failure after two repairs, in a valid conversation", async () => {
    const conversation = new AgentConversation()
    const { recovery, requests } = over(Array.from({ length: 9 }, () => says("Bonn, I think.")))
    const failure = await failureOf(createAgent({ recovery, output }).run("Which city?", { conversation }))
    assert.instanceOf(failure, AnswerMismatch)
    assert.strictEqual(requests.length, 3)
    assert.isNull(unpaired(conversation.messages))
  })
  it("of a model that refuses is its refusal", async () => {
    const { recovery } = over([{ reply: { text: null, refusal: "No." } }])
    const answer = await createAgent({ recovery, output }).run("Which city?")
    assert.deepStrictEqual([answer.output, answer.reply.refusal], [null, "No."])
  })
})

describe("a run as an iterator", () => {
  it("tells texts, tools and at last the answer", async () => {
    const { agent } = agentOver([calls(["add", { a: 1, b: 1 }]), says("two")], [add()])
    const tags: Array<string> = []
    let text = ""
    for await (const event of agent.stream("go")) {
      tags.push(event._tag)
      if (event._tag === "PartSeen" && event.part._tag === "TextDelta") text += event.part.text
      if (event._tag === "Answered") assert.strictEqual(event.answer.text, "two")
    }
    assert.strictEqual(text, "two")
    assert.deepStrictEqual(
      ["StepStarted", "ToolStarted", "ToolEnded", "ResultAdded", "Replied", "Answered"].filter(
        (tag) => !tags.includes(tag)
      ),
      []
    )
    assert.strictEqual(tags.at(-1), "Answered")
  })
  it("that is left early ends the run, its tool and the connection", async () => {
    let aborted = false
    let begun = (): void => undefined
    const running = new Promise<void>((resolve) => (begun = resolve))
    const hang = defineTool({
      name: "hang",
      description: "",
      parameters: z.object({}),
      run: (_args, { signal }) =>
        new Promise(() => {
          signal.addEventListener("abort", () => (aborted = true))
          begun()
        })
    })
    const conversation = new AgentConversation()
    const { agent, requests } = agentOver([calls(["hang", {}]), says("never")], [hang])
    for await (const event of agent.stream("go", { conversation })) {
      if (event._tag !== "ToolStarted") continue
      await running
      break
    }
    assert.isTrue(aborted)
    assert.strictEqual(requests.length, 1)
    assert.isNull(unpaired(conversation.messages))
  })
  it("cannot be read twice", async () => {
    const { agent } = agentOver([says("a")], [])
    const events = agent.stream("go")
    for await (const _event of events);
    assert.throws(() => events[Symbol.asyncIterator](), /has been read/)
  })
})

describe("an aborted run", () => {
  it("sends nothing more and leaves a valid conversation", async () => {
    const controller = new AbortController()
    const conversation = new AgentConversation()
    const stop = defineTool({
      name: "stop",
      description: "",
      parameters: z.object({}),
      run: () => {
        controller.abort("enough")
        return new Promise(() => undefined)
      }
    })
    const { agent, requests } = agentOver([calls(["stop", {}]), says("never")], [stop])
    const failure = await failureOf(agent.run("go", { signal: controller.signal, conversation }))
    assert.instanceOf(failure, RecoveryCancelledError)
    assert.strictEqual(failure.cause, "enough")
    assert.strictEqual(requests.length, 1)
    assert.isNull(unpaired(conversation.messages))
    assert.match(String(conversation.messages.at(-1)?.content), /interrupted/)
  })
  it("tells what went wrong before the cancellation", async () => {
    const controller = new AbortController()
    const abort: ScriptedModel.Step = {
      run: () =>
        Effect.suspend(() => {
          controller.abort("enough")
          return Effect.never
        })
    }
    const { agent } = agentOver([overloaded, abort], [])
    const failure = await failureOf(agent.run("go", { signal: controller.signal }))
    assert.instanceOf(failure, RecoveryCancelledError)
    assert.strictEqual(failure.trail.length, 2)
  })
})

describe("the tools of an MCP server", () => {
  const connected = async () => {
    const server = new McpServer({ name: "s", version: "1" })
    server.registerTool(
      "search",
      { description: "finds", inputSchema: { q: z.string() }, annotations: { readOnlyHint: true } },
      ({ q }) => ({ content: [{ type: "text", text: `found ${q}` }] })
    )
    server.registerTool("fail", { inputSchema: {} }, () => ({
      isError: true,
      content: [{ type: "text", text: "the index is gone" }]
    }))
    server.registerTool("shot", { inputSchema: {} }, () => ({
      content: [{ type: "image", data: "AAAA", mimeType: "image/png" }]
    }))
    const [near, far] = InMemoryTransport.createLinkedPair()
    await server.connect(far)
    const client = new Client({ name: "c", version: "1" })
    await client.connect(near)
    return client
  }

  it("are listed, called and read: text, pictures and errors", async () => {
    const client = await connected()
    const tools = await mcpTools(client, { prefix: "web_" })
    assert.deepStrictEqual(
      tools.map((tool) => [tool.spec.function.name, tool.traits.repeat]),
      [
        ["web_search", "safe"],
        ["web_fail", "never"],
        ["web_shot", "never"]
      ]
    )
    const { agent } = agentOver(
      [calls(["web_search", { q: "x" }], ["web_fail", {}], ["web_shot", {}]), says("done")],
      tools
    )
    const { conversation } = await agent.run("go")
    const results = conversation.messages.flatMap((message) => (message.role === "tool" ? [message.content] : []))
    assert.strictEqual(results[0], "found x")
    assert.match(String(results[1]), /the index is gone/)
    assert.deepStrictEqual(results[2], [{ type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } }])
    await client.close()
  })
  it("are a choice of them when a choice is given", async () => {
    const client = await connected()
    const tools = await mcpTools(client, { only: ["search"], approval: true })
    assert.deepStrictEqual(
      tools.map((tool) => [tool.spec.function.name, tool.traits.approval]),
      [["search", true]]
    )
    await client.close()
  })
})

describe("a durable agent", () => {
  it("goes on behind its last fact in another agent, and parks for a person", async () => {
    const folder = mkdtempSync(join(tmpdir(), "agent-"))
    const durable = JournalSqlite.make({ path: join(folder, "turns.db") })
    const ran: Array<string> = []
    const tools = ["look", "pay"].map((name) =>
      defineTool({
        name,
        description: "",
        parameters: z.object({}),
        approval: name === "pay",
        run: (_args, { key }) => {
          ran.push(`${name} ${key}`)
          return "ok"
        }
      })
    )
    const first = agentOver([calls(["look", {}]), calls(["pay", {}]), says("never")], tools, { durable })
    const parked = await failureOf(first.agent.run("Pay it.", { id: "t1" }))
    assert.instanceOf(parked, TurnParked)
    assert.isTrue(await first.agent.turns.approve("t1"))
    assert.isFalse(await first.agent.turns.approve("t1"))
    await first.agent.close()
    const second = agentOver([says("Paid.")], tools, { durable })
    const conversation = new AgentConversation()
    const answer = await second.agent.run(null, { id: "t1", conversation })
    assert.strictEqual(answer.text, "Paid.")
    assert.deepStrictEqual(ran, ["look t1/step/1/call/0", "pay t1/step/2/call/0"])
    assert.strictEqual(conversation.messages.length, 6)
    assert.strictEqual(second.requests.length, 1)
    const again = await second.agent.run(null, { id: "t1" })
    assert.strictEqual(again.text, "Paid.")
    assert.strictEqual(second.requests.length, 1)
    await second.agent.close()
    rmSync(folder, { recursive: true })
  })
  it("asks for the id that names the turn, and only then", async () => {
    const { agent } = agentOver([says("a")], [])
    assert.propertyVal(await failureOf(agent.run("go", { id: "t1" })), "field", "id")
    const durable = JournalSqlite.make({ path: "never-opened.db" })
    assert.propertyVal(await failureOf(agentOver([], [], { durable }).agent.run("go")), "field", "id")
  })
})
