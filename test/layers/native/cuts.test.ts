/**
 * Streams of every wire, broken anywhere, read by the SDKs' own accumulators: what comes out is the whole answer or an
 * error; never a fragment taken for whole, never a character lost or doubled, never half a call.
 */
import Anthropic from "@anthropic-ai/sdk"
import OpenAI from "openai"
import { assert, it } from "@effect/vitest"
import { holdfast, RecoveryPolicy } from "../../../src/fetch.ts"
import type { NativePolicyInput } from "../../../src/layers/native/recoveredFetch.ts"
import { providerOf, type Answer, type Asked } from "../../support/nativeProvider.ts"
import {
  errorEventOf,
  errorOf,
  eventTexts,
  wireNames,
  type Script,
  type WireName
} from "../../support/nativeScripts.ts"
import { chance, readsOf, type Chance } from "../../support/chance.ts"
import { isWhole, runs } from "../../support/runs.ts"

const policy: NativePolicyInput = {
  ...RecoveryPolicy.broad,
  backoff: { base: 0.01, cap: 0.01, jitter: 0 },
  maxAttempts: 12,
  idleTimeout: 15,
  routeHealth: null
}

const words = [
  "a",
  "one ",
  "zwei\n",
  "drei\u00e9",
  '"quoted"',
  "\\u",
  "\ud83d\ude00 ",
  "data: x",
  "{",
  "}",
  "\u2028",
  "end."
]

const list = <A>(random: Chance, most: number, make: (index: number) => A): ReadonlyArray<A> =>
  Array.from({ length: random.below(most + 1) }, (_, index) => make(index))

const scriptOf = (random: Chance): Script => {
  const isRefusal = random.below(12) === 0
  const calls = isRefusal
    ? []
    : list(random, 3, (index) => ({
        id: `call_${index}`,
        name: `tool_${index}`,
        args: random.pick([['{"a":', '"x"', "}"], ["{}"], ['{"b":[1,', '2],"c":"}"}']])
      }))
  const text = isRefusal ? [] : list(random, 8, () => random.pick(words))
  return {
    reasoning: random.below(3) === 0 ? list(random, 4, () => random.pick(words)) : [],
    text: text.length === 0 && calls.length === 0 && !isRefusal ? ["x"] : text,
    calls,
    ...(isRefusal ? { refusal: ["I will", " not."] } : {})
  }
}

const encoder = new TextEncoder()

type Fault = "none" | "reset" | "close" | "silence" | "error" | "garbage" | "refused"

const faults: ReadonlyArray<Fault> = ["reset", "reset", "reset", "close", "error", "garbage", "refused"]

const faulty = (random: Chance, wire: WireName, script: Script, fault: Fault): Answer => {
  const events = eventTexts(wire, script)
  if (fault === "none") return { reads: readsOf(random, encoder.encode(events.join(""))) }
  if (fault === "refused") return { status: 503, body: errorOf(wire) }
  if (fault === "error" || fault === "garbage") {
    // A whole answer may be followed by anything: the fault comes before its end.
    const at = random.below(events.length - (wire === "chat" ? 2 : 1))
    const odd = fault === "error" ? errorEventOf(wire) : `data: {"id":"x","choi\n\n`
    const rest = fault === "error" ? [] : events.slice(at + 1)
    return { reads: readsOf(random, encoder.encode([...events.slice(0, at), odd, ...rest].join(""))) }
  }
  const bytes = encoder.encode(events.join(""))
  const end = fault === "silence" ? "hang" : fault
  return { reads: readsOf(random, bytes.slice(0, random.below(bytes.length))), end: end === "reset" ? "reset" : end }
}

/** What the model says after this beginning: the rest of it. */
const restOf = (script: Script, before: string): Script => {
  const rest = script.text.join("").slice(before.length)
  return { ...script, reasoning: [], text: rest === "" ? [] : [rest], id: "rest" }
}

const fragmentsIn = ({ text }: Asked): string => {
  const body = JSON.parse(text === "" ? "{}" : text) as { messages?: unknown; input?: unknown }
  const items = body.messages ?? body.input
  return Array.isArray(items)
    ? items
        .flatMap((item: { role?: unknown; content?: unknown }) =>
          item.role === "assistant" ? [String(item.content)] : []
        )
        .join("")
    : ""
}

interface Final {
  readonly text: string
  readonly refusal: string
  readonly calls: ReadonlyArray<readonly [string, string, string]>
  readonly deltas: string
}

const expected = (script: Script): Omit<Final, "deltas"> => ({
  text: script.text.join(""),
  refusal: (script.refusal ?? []).join(""),
  calls: script.calls.map(({ id, name, args }) => [id, name, JSON.stringify(JSON.parse(args.join("")))])
})

const compact = (args: unknown): string =>
  JSON.stringify(typeof args === "string" ? JSON.parse(args === "" ? "{}" : args) : args)

type ClientFetch = ConstructorParameters<typeof OpenAI>[0] extends infer O
  ? NonNullable<NonNullable<O>["fetch" & keyof NonNullable<O>]>
  : never

const readBy: { readonly [W in WireName]: (fetch: ClientFetch) => Promise<Final> } = {
  chat: async (fetch) => {
    const client = holdfast(new OpenAI({ apiKey: "sk-x", baseURL: "http://p.test/v1", fetch }), policy)
    let deltas = ""
    const stream = client.chat.completions.stream({ model: "m", messages: [{ role: "user", content: "go" }] })
    stream.on("content", (delta) => {
      deltas += delta
    })
    const { choices } = await stream.finalChatCompletion()
    const message = choices[0]?.message
    return {
      text: message?.content ?? "",
      refusal: message?.refusal ?? "",
      calls: (message?.tool_calls ?? []).map((call) =>
        call.type === "function" ? [call.id, call.function.name, compact(call.function.arguments)] : ["", "", ""]
      ),
      deltas
    }
  },
  responses: async (fetch) => {
    const client = holdfast(new OpenAI({ apiKey: "sk-x", baseURL: "http://p.test/v1", fetch }), policy)
    let deltas = ""
    const stream = client.responses.stream({ model: "m", input: "go", store: false })
    stream.on("response.output_text.delta", (event) => {
      deltas += event.delta
    })
    const { output, status } = await stream.finalResponse()
    assert.strictEqual(status, "completed")
    const parts = output.flatMap((item) => (item.type === "message" ? item.content : []))
    return {
      text: parts.map((part) => (part.type === "output_text" ? part.text : "")).join(""),
      refusal: parts.map((part) => (part.type === "refusal" ? part.refusal : "")).join(""),
      calls: output.flatMap((item) =>
        item.type === "function_call" ? [[item.call_id, item.name, compact(item.arguments)] as const] : []
      ),
      deltas
    }
  },
  messages: async (fetch) => {
    const client = holdfast(new Anthropic({ apiKey: "sk-x", baseURL: "http://p.test", fetch }), policy)
    let deltas = ""
    const stream = client.messages.stream({ model: "m", max_tokens: 9, messages: [{ role: "user", content: "go" }] })
    stream.on("text", (delta) => {
      deltas += delta
    })
    const message = await stream.finalMessage()
    const text = message.content.map((block) => (block.type === "text" ? block.text : "")).join("")
    const isRefusal = message.stop_reason === "refusal"
    return {
      text: isRefusal ? "" : text,
      refusal: isRefusal ? text : "",
      calls: message.content.flatMap((block) =>
        block.type === "tool_use" ? [[block.id, block.name, compact(block.input)] as const] : []
      ),
      deltas: isRefusal ? "" : deltas
    }
  }
}

/** A refusal on the messages wire is text until its last event: it cannot be held as one. */
const isTold = (wire: WireName, script: Script): boolean => wire !== "messages" || script.refusal === undefined

const play = async (wire: WireName, seed: number, canBeSilent: boolean): Promise<void> => {
  const random = chance(seed)
  const script = scriptOf(random)
  const cuts = 1 + random.below(3)
  const differs = random.below(3) === 0
  const provider = providerOf((asked, number) => {
    const before = fragmentsIn(asked)
    const isOther = differs && number === 2 && before === "" && script.text.length > 0
    const own: Script = isOther ? { ...script, text: ["<other>"], id: "other" } : { ...script, id: `n${number}` }
    const next = before === "" ? own : restOf(script, before)
    const fault = number > cuts ? "none" : canBeSilent && random.below(4) === 0 ? "silence" : random.pick(faults)
    return faulty(random, wire, next, isOther ? "none" : fault)
  })
  const final = await readBy[wire](provider.fetch as ClientFetch).catch((cause: unknown) => {
    const asked = provider.asked.map(({ text }) => text).join("\n")
    throw new Error(`${wire} seed ${seed}: ${JSON.stringify(script)}\n${asked}`, { cause })
  })
  const told = `${wire} seed ${seed}, ${provider.asked.length} requests: ${JSON.stringify(script)}`
  const said = final.text === "<other>" ? { ...script, text: ["<other>"] } : script
  const want = expected(said)
  assert.deepStrictEqual({ text: final.text, calls: final.calls }, { text: want.text, calls: want.calls }, told)
  if (isTold(wire, script)) assert.strictEqual(final.refusal, want.refusal, told)
  assert.strictEqual(final.deltas, want.text, told)
}

it.each([
  ["chat", 1469],
  ["responses", 3363],
  ["chat", 42473]
] as const)("ends an event that lost its blank line before another attempt goes on, on %s", async (wire, seed) => {
  await play(wire, seed, false)
})

/** A hundred thousand on demand. */
const seeds = Math.ceil(runs(100_000) / (isWhole ? 1 : 4))
const patience = 60_000 + seeds * 100

it.each(wireNames)(
  "keeps every answer whole, however often and wherever its stream breaks, on %s",
  async (wire) => {
    for (let seed = 1; seed <= seeds; seed += 1) await play(wire, seed, false)
  },
  patience
)

it.each(wireNames)("keeps every answer whole when its stream falls silent, on %s", async (wire) => {
  for (let seed = 1; seed <= runs(20); seed += 1) await play(wire, seed * 7919, true)
})
