import { assert, describe, it } from "@effect/vitest"
import type { ModelPart, ModelReply, ToolCall } from "../../../src/domain/chat/ModelReply.ts"
import type { ReplyPart } from "../../../src/domain/chat/ReplyPart.ts"
import * as RequestWindow from "../../../src/domain/chat/RequestWindow.ts"
import * as StreamView from "../../../src/domain/chat/StreamView.ts"
import * as Usage from "../../../src/domain/chat/Usage.ts"
import { makeReply } from "../../../src/layers/ScriptedModel.ts"
import { runs } from "../../support/runs.ts"

const text = (value: string): ModelPart => ({ _tag: "Text", text: value })
const think = (value: string): ModelPart => ({ _tag: "Reasoning", text: value })
const call = (id: string): ToolCall => ({ id, name: "f", arguments: `{"of":"${id}"}` })
const calling = (id: string): ModelPart => ({ _tag: "ToolCall", call: call(id) })
const end = (reply: Partial<ModelReply> & { readonly text: string | null }): ModelPart => ({
  _tag: "End",
  reply: makeReply(reply)
})

/** Somebody who believes every part. */
class Consumer {
  text = ""
  reasoning = ""
  calls: Array<ToolCall> = []
  resets = 0

  see(parts: ReadonlyArray<ReplyPart>): void {
    for (const part of parts)
      switch (part._tag) {
        case "Reset":
          this.text = ""
          this.reasoning = ""
          this.calls = []
          this.resets += 1
          break
        case "TextDelta":
          this.text += part.text
          break
        case "ReasoningDelta":
          this.reasoning += part.text
          break
        case "ToolCallReady":
          this.calls.push({ id: part.id, name: part.name, arguments: part.arguments })
          break
        default:
          break
      }
  }
}

type Step = ModelPart | "begin" | "resume" | "replay" | "restart" | "setAside" | "goOn"

const applied = (view: StreamView.StreamView, step: Step): StreamView.Told => {
  switch (step) {
    case "begin":
      return { view: StreamView.begin(view), parts: [] }
    case "resume":
      return { view: StreamView.resume(view), parts: [] }
    case "replay":
      return { view: StreamView.replay(view), parts: [] }
    case "restart":
      return StreamView.restart(view)
    case "setAside":
      return StreamView.setAside(view)
    case "goOn":
      return StreamView.goOn(view)
    default:
      return StreamView.accept(view, step)
  }
}

/** What a consumer is told, in short: texts as they are, other parts by name. */
const toldOf = (parts: ReadonlyArray<ReplyPart>): string =>
  parts
    .map((part) => {
      if (part._tag === "TextDelta") return part.text
      if (part._tag === "ReasoningDelta") return `(${part.text})`
      if (part._tag === "ToolCallReady") return `call:${part.id}`
      return part._tag
    })
    .join(" ")

const play = (steps: ReadonlyArray<Step>, seamRepair = 0) => {
  let view = StreamView.empty(seamRepair)
  const parts: Array<ReplyPart> = []
  for (const step of steps) {
    const told = applied(view, step)
    view = told.view
    parts.push(...told.parts)
  }
  return { view, told: toldOf(parts) }
}

describe("a view of a stream", () => {
  it.each<{
    readonly rule: string
    readonly steps: ReadonlyArray<Step>
    readonly then: string
    readonly seam?: number
  }>([
    {
      rule: "tells text, reasoning and calls as they come",
      steps: [
        "begin",
        think("hm"),
        text("a"),
        text(""),
        text("b"),
        calling("1"),
        end({ text: "ab", reasoning: "hm", toolCalls: [call("1")] })
      ],
      then: "(hm) a b call:1"
    },
    {
      rule: "tells nothing of signs of life and of calls that have only begun",
      steps: ["begin", { _tag: "Life" }, { _tag: "ToolCallDelta" }],
      then: ""
    },
    {
      rule: "takes nothing behind the reply",
      steps: ["begin", text("a"), end({ text: "a" }), text("b"), calling("1"), end({ text: "c" })],
      then: "a"
    },
    {
      rule: "tells at the end what a reply holds beyond its parts",
      steps: [
        "begin",
        text("a"),
        calling("1"),
        end({ text: "abc", reasoning: "hm", toolCalls: [call("1"), call("2")] })
      ],
      then: "a call:1 (hm) bc call:2"
    },
    {
      rule: "begins again when the reply has other text than its parts",
      steps: ["begin", text("ax"), end({ text: "ab" })],
      then: "ax Reset ab"
    },
    {
      rule: "begins again when the reply has its calls in another order",
      steps: [
        "begin",
        text("a"),
        think("t"),
        calling("2"),
        calling("1"),
        end({ text: "a", reasoning: "t", toolCalls: [call("1"), call("2")] })
      ],
      then: "a (t) call:2 call:1 Reset (t) a call:1 call:2"
    },
    {
      rule: "begins again when the reply lacks a call it has told",
      steps: ["begin", calling("1"), end({ text: null })],
      then: "call:1 Reset"
    },
    {
      rule: "tells of no call that a length stop has cut",
      steps: ["begin", calling("1"), end({ text: null, finishReason: "length", toolCalls: [call("1"), call("2")] })],
      then: "call:1"
    },
    {
      rule: "drops for a refusal what was told before it, and what was kept",
      steps: ["begin", text("a"), "resume", "begin", end({ text: null, refusal: "no" })],
      then: "a Reset"
    },
    {
      rule: "leaves a refusal that nothing stood before alone",
      steps: ["begin", think("hm"), end({ text: null, refusal: "no", reasoning: "hm" })],
      then: "(hm)"
    },
    {
      rule: "shows the kept text again behind a Reset",
      steps: ["begin", text("a"), "resume", "begin", text("b"), "restart", "begin", text("c"), end({ text: "c" })],
      then: "a b Reset a c"
    },
    {
      rule: "needs no Reset where nothing was told",
      steps: ["begin", { _tag: "Life" }, "restart", "begin", text("c")],
      then: "c"
    },
    {
      rule: "tells what was set aside once it is gone on from",
      steps: ["begin", end({ text: null, finishReason: "length" }), "setAside", "begin", "goOn", "begin", text("b")],
      then: "b"
    },
    {
      rule: "repeats of a replay only what is new",
      steps: ["begin", text("ab"), "replay", "begin", text("a"), text("bc"), text("d"), end({ text: "abcd" })],
      then: "ab c d"
    },
    {
      rule: "stops at a replay that says something else, and resumes from what was told",
      steps: [
        "begin",
        text("ab"),
        "replay",
        "begin",
        text("aX"),
        text("b"),
        "resume",
        "begin",
        text("c"),
        end({ text: "c" })
      ],
      then: "ab c"
    },
    {
      rule: "stops at a replay that ends too early",
      steps: ["begin", text("ab"), "replay", "begin", text("a"), end({ text: "a" }), "resume", "begin", text("c")],
      then: "ab c"
    },
    {
      rule: "keeps the refusal that a replay ends with",
      steps: ["begin", text("ab"), "replay", "begin", end({ text: null, refusal: "no" })],
      then: "ab Reset"
    },
    {
      rule: "keeps the calls of a replay without text, and tells them once",
      steps: ["begin", text("ab"), "replay", "begin", calling("1"), end({ text: null, toolCalls: [call("1")] })],
      then: "ab Reset call:1"
    },
    {
      rule: "tells a call that came before the text of a replay once the text is there",
      steps: [
        "begin",
        text("ab"),
        "replay",
        "begin",
        calling("1"),
        text("ab"),
        end({ text: "ab", toolCalls: [call("1")] })
      ],
      then: "ab call:1"
    },
    {
      rule: "does not repeat the reasoning of a replay",
      steps: [
        "begin",
        think("hm"),
        text("ab"),
        "replay",
        "begin",
        think("so"),
        text("abc"),
        think("!"),
        end({ text: "abc", reasoning: "so!" })
      ],
      then: "(hm) ab c (!)"
    },
    {
      rule: "does not repeat the reasoning of a replay at its end",
      steps: [
        "begin",
        think("hm"),
        text("ab"),
        "replay",
        "begin",
        think("so"),
        text("abc"),
        end({ text: "abc", reasoning: "so" })
      ],
      then: "(hm) ab c"
    },
    {
      rule: "tells at the end the reasoning of an attempt that goes on",
      steps: [
        "begin",
        think("hm"),
        text("ab"),
        "replay",
        "begin",
        text("abc"),
        "resume",
        "begin",
        text("d"),
        end({ text: "d", reasoning: "so" })
      ],
      then: "(hm) ab c d (so)"
    },
    {
      rule: "tells under a length stop again only the calls that had closed, when it begins again",
      steps: [
        "begin",
        text("x"),
        calling("1"),
        calling("2"),
        end({ text: null, finishReason: "length", toolCalls: [call("1"), call("2"), call("3")] })
      ],
      then: "x call:1 call:2 Reset call:1 call:2"
    },
    {
      rule: "tells the reasoning of a replay when there had been none",
      steps: ["begin", text("ab"), "replay", "begin", think("so"), text("abc"), end({ text: "abc", reasoning: "so" })],
      then: "ab c (so)"
    },
    {
      rule: "holds a continuation back until its overlap is known",
      seam: 4,
      steps: ["begin", text("the quick"), "resume", "begin", text("ick"), text(" fox"), end({ text: "ick fox" })],
      then: "the quick  fox"
    },
    {
      rule: "lets a short continuation go at its end",
      seam: 4,
      steps: ["begin", text("the quick"), "resume", "begin", text("ick"), end({ text: "ick" })],
      then: "the quick"
    },
    {
      rule: "forgets what it held of an attempt that broke off",
      seam: 4,
      steps: [
        "begin",
        text("the quick"),
        "resume",
        "begin",
        text("ic"),
        "resume",
        "begin",
        text(" fox"),
        end({ text: " fox" })
      ],
      then: "the quick  fox"
    },
    {
      rule: "repairs the seam of a replay, too",
      seam: 4,
      steps: [
        "begin",
        text("the quick"),
        "resume",
        "begin",
        text("ick fo"),
        "replay",
        "begin",
        text("ick fox"),
        end({ text: "ick fox" })
      ],
      then: "the quick  fo x"
    }
  ])("$rule", ({ steps, then, seam }) => {
    assert.strictEqual(play(steps, seam).told, then)
  })

  it("counts what was delivered, and knows what cannot be gone on from", () => {
    const after = (...steps: ReadonlyArray<Step>) => play(["begin", ...steps]).view
    assert.strictEqual(StreamView.deliveredOf(after(text("ab"), think("hm"))), 2)
    assert.isFalse(StreamView.isUnfinishable(after()))
    assert.isFalse(StreamView.isUnfinishable(after(text("ab"), think("hm"))))
    assert.isTrue(StreamView.isUnfinishable(after(think("hm"))))
    assert.isTrue(StreamView.isUnfinishable(after(text("ab"), { _tag: "ToolCallDelta" })))
    assert.isTrue(StreamView.isUnfinishable(after(text("ab"), calling("1"))))
    assert.isFalse(StreamView.isUnfinishable(after(think("hm"), "restart", "begin")))
    assert.isFalse(StreamView.isUnfinishable(after(text("a"), think("hm"), "resume", "begin")))
    assert.strictEqual(StreamView.deliveredOf(after(text("a"), "resume", "begin")), 0)
  })

  it("has the partial text of what was told, else of the reply, else of what was set aside", () => {
    const cut = end({ text: "abc", finishReason: "length" })
    assert.isNull(StreamView.partialOf(play(["begin"]).view))
    assert.strictEqual(StreamView.partialOf(play(["begin", text("ab")]).view), "ab")
    const aside = play(["begin", cut, "setAside", "begin"]).view
    assert.strictEqual(StreamView.partialOf(aside), "abc")
    assert.strictEqual(StreamView.fragmentOf(aside), "abc")
    assert.strictEqual(StreamView.fragmentOf(play(["begin", text("x")]).view), "")
    assert.strictEqual(play(["begin", cut, "setAside", "begin", "goOn", "begin", text("d")]).told, "abc Reset abc d")
  })

  it("adds up the usage of one attempt, and begins the next with none", () => {
    const seen: ModelPart = { _tag: "Usage", usage: { ...Usage.unknown, promptTokens: 3 } }
    const more: ModelPart = { _tag: "Usage", usage: { ...Usage.unknown, completionTokens: 4 } }
    const { view, told } = play(["begin", seen, more])
    assert.strictEqual(told, "UsageSeen UsageSeen")
    assert.deepStrictEqual(view.usage, { ...Usage.unknown, promptTokens: 3, completionTokens: 4 })
    assert.deepStrictEqual(StreamView.begin(view).usage, Usage.unknown)
  })

  it("finishes with the reasoning the consumer has", () => {
    const { view } = play([
      "begin",
      think("hm"),
      text("a"),
      "resume",
      "begin",
      think("so"),
      text("b"),
      end({ text: "b", reasoning: "so" })
    ])
    const joined = makeReply({ text: "ab", reasoning: "so" })
    assert.deepStrictEqual(StreamView.finish(view, joined), { _tag: "Finish", reply: { ...joined, reasoning: "hmso" } })
    const plain = makeReply({ text: "ab" })
    assert.strictEqual(Reflect.get(StreamView.finish(StreamView.empty(0), plain), "reply"), plain)
  })
})

/** Mulberry32: the same numbers for the same seed, everywhere. */
const chanceOf = (seed: number): ((below: number) => number) => {
  let state = seed
  return (below) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296) * below)
  }
}

/** A reply as a model could give it. Few letters, so that seams and replays often agree by chance. */
const randomReply = (chance: (below: number) => number): ModelReply => {
  const letters = Array.from({ length: chance(7) }, () => "aab"[chance(3)] ?? "").join("")
  const calls = Array.from({ length: Math.max(0, chance(6) - 3) }, (_, at) => call(`${at}`))
  const refuses = chance(12) === 0
  return makeReply({
    text: refuses || letters === "" ? null : letters,
    refusal: refuses ? "no" : null,
    reasoning: chance(3) === 0 ? "hm".repeat(1 + chance(2)) : null,
    toolCalls: refuses ? [] : calls,
    finishReason: chance(4) === 0 ? "length" : calls.length > 0 ? "tool_calls" : "stop"
  })
}

/** The parts a client brings a reply in: in pieces of any size; some clients leave out, mix up or bend what they told. */
const randomParts = (chance: (below: number) => number, reply: ModelReply): Array<ModelPart> => {
  const pieces = (value: string, part: (piece: string) => ModelPart): Array<ModelPart> => {
    const found: Array<ModelPart> = []
    for (let from = 0; from < value.length;) {
      const to = from + 1 + chance(3)
      found.push(part(value.slice(from, to)))
      from = to
    }
    return found
  }
  const parts = [
    ...pieces(reply.reasoning ?? "", think),
    ...pieces(reply.text ?? "", text),
    ...reply.toolCalls.flatMap((one): Array<ModelPart> => [{ _tag: "ToolCallDelta" }, { _tag: "ToolCall", call: one }])
  ]
  if (chance(6) === 0) parts.splice(chance(parts.length + 1), 1 + chance(3))
  if (chance(6) === 0) parts.reverse()
  if (chance(8) === 0) parts.splice(chance(parts.length + 1), 0, text("b"), think("?"))
  if (chance(3) === 0)
    parts.splice(chance(parts.length + 1), 0, { _tag: "Usage", usage: Usage.unknown }, { _tag: "Life" })
  return parts
}

/** What the driver does between two attempts, as the machine would have it decided. */
const randomAction = (
  chance: (below: number) => number,
  view: StreamView.StreamView
): Exclude<Step, ModelPart | "begin"> => {
  const { reply } = view
  if (reply !== null && reply.finishReason === "length" && reply.refusal === null) {
    const isContinuable = reply.toolCalls.length === 0 && (reply.text ?? "") !== ""
    return isContinuable ? "goOn" : "setAside"
  }
  if (StreamView.isUnfinishable(view)) return "restart"
  if (reply === null && view.aside !== null && view.text === "" && view.aside.toolCalls.length === 0 && chance(2) === 0)
    return "goOn"
  if (view.differs) return "resume"
  return (["resume", "replay", "restart"] as const)[chance(3)] ?? "restart"
}

/** The joined text as the window of the request would have it. */
const joinedOf = (window: RequestWindow.RequestWindow, reply: ModelReply, seam: number): string => {
  if (reply.refusal !== null) return reply.text ?? ""
  const kept = RequestWindow.textOf(window)
  const own = reply.text ?? ""
  return kept + own.slice(RequestWindow.overlapOf(kept, own, seam))
}

const namesOf = (calls: ReadonlyArray<ToolCall>): string => calls.map((one) => `${one.id}${one.arguments}`).join(" ")

/** One random request: its consumer must have the view's text after every step, and the whole reply at the end. */
const check = (seed: number): void => {
  const chance = chanceOf(seed)
  const seam = chance(2) === 0 ? 0 : 1 + chance(4)
  const consumer = new Consumer()
  let view = StreamView.empty(seam)
  let window = RequestWindow.make([], "go on")
  let last = randomReply(chance)
  const same = (found: string, wanted: string): void => {
    if (found !== wanted) assert.strictEqual(found, wanted, `seed ${seed}`)
  }
  const take = (step: Step): void => {
    const told = applied(Object.freeze(view), step)
    view = told.view
    consumer.see(told.parts)
    same(consumer.text, view.kept + view.text)
    same(consumer.reasoning, view.reasoning)
    same(namesOf(consumer.calls), namesOf(view.calls))
    if (told.parts.some((part) => part._tag === "TextDelta" && part.text === "")) assert.fail(`seed ${seed}`)
  }
  for (let attempt = 0; attempt < 6; attempt += 1) {
    if (chance(3) === 0) last = randomReply(chance)
    take("begin")
    const parts = randomParts(chance, last)
    const isWhole = chance(2) === 0
    const taken = isWhole ? parts : parts.slice(0, chance(parts.length + 1))
    for (const part of taken) if (!view.differs) take(part)
    if (isWhole && !view.differs) take({ _tag: "End", reply: last })
    const { reply } = view
    if (reply !== null) {
      same(consumer.text, joinedOf(window, last, seam))
      if (last.finishReason !== "length") same(namesOf(consumer.calls), namesOf(last.toolCalls))
      const finish = StreamView.finish(view, { ...last, text: consumer.text })
      assert.isTrue(finish._tag === "Finish" && (finish.reply.reasoning ?? "") === consumer.reasoning, `seed ${seed}`)
      if (last.finishReason !== "length" || reply.refusal !== null) return
    }
    const action = randomAction(chance, view)
    const fragment = StreamView.fragmentOf(view)
    const shown = view.text
    const resets = consumer.resets
    take(action)
    if (action === "resume") window = RequestWindow.keep(window, shown)
    if (action === "goOn")
      window = RequestWindow.keep(
        window,
        fragment.slice(RequestWindow.overlapOf(RequestWindow.textOf(window), fragment, seam))
      )
    // What is gone on from is never dropped.
    if (action === "resume" || action === "replay" || action === "goOn") assert.strictEqual(consumer.resets, resets)
    assert.isTrue(consumer.text.startsWith(RequestWindow.textOf(window)), `seed ${seed}`)
  }
}

describe("for any parts and any decisions", () => {
  it("the consumer has what the view says after every step, and at the end the reply behind the kept text", () => {
    for (let seed = 0; seed < runs(20_000); seed += 1) check(seed)
  })
})
