/**
 * The second half of `npm run clients`: generateText, invoke and run with a tool, over `recoveredFetch`. A fault comes before
 * the call, and another one before the answer behind it; the tool runs once. Then the same outage with the clients' own
 * retries off and on: what happens is told, and the requests are counted.
 */
import assert from "node:assert/strict"
import { createOpenAI } from "@ai-sdk/openai"
import { HumanMessage, ToolMessage, type BaseMessage } from "@langchain/core/messages"
import { tool as langTool } from "@langchain/core/tools"
import { ChatOpenAI } from "@langchain/openai"
import { Agent, OpenAIProvider, Runner, tool as agentTool } from "@openai/agents"
import { generateText, jsonSchema, stepCountIs, tool } from "ai"
import OpenAI from "openai"
import { recoveredFetch, RecoveryPolicy } from "../../src/fetch.ts"
import { providerOf, type Answer } from "../../test/support/nativeProvider.ts"
import { bodyOf, errorOf, plain, type Script, type WireName } from "../../test/support/nativeScripts.ts"

const apiKey = "examples"
const baseURL = "http://provider.test/v1"
const policy = {
  ...RecoveryPolicy.broad,
  backoff: { base: 5, factor: 2, cap: 50, jitter: 0 },
  maxAttempts: 4,
  routeHealth: null
}

type Provider = ReturnType<typeof providerOf>

const over = (provider: Provider): typeof globalThis.fetch =>
  recoveredFetch(policy, { fetch: provider.fetch, health: "own" }) as typeof globalThis.fetch

/** What each client does with a question and a tool; the numbers that the tool was given are kept in `ran`. */
type Ask = (fetch: typeof globalThis.fetch, ran: Array<unknown>, ownRetries: boolean) => Promise<string>

const parameters = {
  type: "object",
  properties: { a: { type: "number" }, b: { type: "number" } },
  required: ["a", "b"],
  additionalProperties: false
} as const

const question = "What is one and two?"

const sum = (ran: Array<unknown>, args: { readonly a: number; readonly b: number }): string => {
  ran.push(args)
  return String(args.a + args.b)
}

const byAi =
  (wire: WireName): Ask =>
  async (fetch, ran, ownRetries) => {
    const ai = createOpenAI({ apiKey, baseURL, fetch })
    const { text } = await generateText({
      model: wire === "chat" ? ai.chat("m") : ai("m"),
      prompt: question,
      stopWhen: stepCountIs(4),
      tools: {
        add: tool({
          description: "adds",
          inputSchema: jsonSchema<{ a: number; b: number }>(parameters as never),
          execute: async (args) => sum(ran, args)
        })
      },
      ...(ownRetries ? {} : { maxRetries: 0 })
    })
    return text
  }

const byLangChain: Ask = async (fetch, ran, ownRetries) => {
  const chat = new ChatOpenAI({
    model: "m",
    apiKey,
    configuration: { baseURL, fetch },
    // Its own default is six, over a minute and a half.
    maxRetries: ownRetries ? 1 : 0
  })
  const add = langTool(async (args) => sum(ran, args as { a: number; b: number }), {
    name: "add",
    description: "adds",
    schema: parameters as never
  })
  const model = chat.bindTools([add])
  const messages: Array<BaseMessage> = [new HumanMessage(question)]
  for (;;) {
    const reply = await model.invoke(messages)
    messages.push(reply)
    const calls = reply.tool_calls ?? []
    if (calls.length === 0) return String(reply.content)
    for (const call of calls)
      messages.push(new ToolMessage({ content: sum(ran, call.args as never), tool_call_id: call.id ?? "" }))
  }
}

const byAgents =
  (wire: WireName): Ask =>
  async (fetch, ran, ownRetries) => {
    const client = new OpenAI({ apiKey, baseURL, fetch, ...(ownRetries ? {} : { maxRetries: 0 }) })
    const modelProvider = new OpenAIProvider({ openAIClient: client, useResponses: wire === "responses" })
    const runner = new Runner({ tracingDisabled: true, modelProvider })
    const add = agentTool({
      name: "add",
      description: "adds",
      parameters: parameters as never,
      strict: true,
      execute: async (args) => sum(ran, args as { a: number; b: number })
    })
    const result = await runner.run(new Agent({ name: "a", model: "m", tools: [add] }), question)
    return String(result.finalOutput)
  }

const clients: ReadonlyArray<readonly [string, WireName, Ask]> = [
  ["AI SDK, generateText with a tool over Responses", "responses", byAi("responses")],
  ["AI SDK, generateText with a tool over chat", "chat", byAi("chat")],
  ["LangChain, invoke with bindTools", "chat", byLangChain],
  ["Agents, run with a tool over Responses", "responses", byAgents("responses")],
  ["Agents, run with a tool over chat", "chat", byAgents("chat")]
]

const calling: Script = {
  reasoning: [],
  text: [],
  calls: [{ id: "c1", name: "add", args: ['{"a":1,"b":2}'] }],
  id: "x"
}
const done = plain(["three"], "y")

/** What comes in place of the call's answer, and of the answer behind the tool. */
const faults: Readonly<Record<string, (wire: WireName) => Answer>> = {
  healthy: () => ({}),
  "a limit": () => ({ status: 429, headers: { "retry-after-ms": "5" }, body: { error: { message: "slow down" } } }),
  "an overload": (wire) => ({ status: 503, body: errorOf(wire) }),
  "a reset": () => ({ network: "reset" }),
  "half a body": (wire) => ({
    reads: [JSON.stringify(bodyOf(wire, calling)).slice(0, 150)],
    end: "reset",
    headers: { "content-type": "application/json" }
  }),
  "an error in a 200": (wire) => ({ body: errorOf(wire) })
}

let isGreen = true
const told = (name: string, line: string, isRight: boolean): void => {
  if (!isRight) isGreen = false
  console.log(`${isRight ? "" : "NOT AS IT HAS TO BE: "}${name}: ${line}`)
}

for (const [name, wire, ask] of clients)
  for (const [fault, answerOf] of Object.entries(faults)) {
    const first = fault === "healthy" ? [] : [answerOf(wire)]
    const whole = [calling, done].map((script): Answer => ({ body: bodyOf(wire, script) }))
    const provider = providerOf([...first, whole[0]!, ...first, whole[1]!])
    const ran: Array<unknown> = []
    const said = await ask(over(provider), ran, false).catch((cause: unknown) => String(cause))
    const isRight = said === "three" && ran.length === 1 && provider.asked.length === (fault === "healthy" ? 2 : 4)
    told(name, `${fault}, ${provider.asked.length} requests, the tool ran ${ran.length} time(s), ${said}`, isRight)
  }

/** An outage that outlasts one recovery: requests with a client's own retries off, and on. */
const requestsIn = async (wire: WireName, ask: Ask, ownRetries: boolean): Promise<number> => {
  const provider = providerOf(() => ({ status: 503, body: errorOf(wire) }))
  await assert.rejects(ask(over(provider), [], ownRetries))
  return provider.asked.length
}

for (const [name, wire, ask] of clients) {
  const off = await requestsIn(wire, ask, false)
  const on = await requestsIn(wire, ask, true)
  const line = `an outage is asked ${off} times with its own retries off, ${on} times with them on`
  // The OpenAI SDK stops at our header; the others know only their own option.
  told(name, line, off === 4 && (name.startsWith("Agents") ? on === 4 : on > 4))
}

process.exit(isGreen ? 0 : 1)
