import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { parseScenarios } from "../src/domain/Scenario.ts"
import { checkLine } from "../src/domain/scenarioExpect.ts"
import { playEntry } from "../src/programs/drill/play.ts"

/** The drills that mean the same on Anthropic's wire, with their answers rewritten for it. */

type Json = Readonly<Record<string, unknown>>

const isJson = (value: unknown): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

const stops: Readonly<Record<string, string>> = { stop: "end_turn", length: "max_tokens", tool_calls: "tool_use" }

const numberAt = (object: unknown, key: string): number => {
  const value = isJson(object) ? object[key] : undefined
  return typeof value === "number" ? value : 0
}

/** Anthropic counts cached and written tokens beside the input, not in it. */
const usageOf = (usage: unknown): Json => {
  if (!isJson(usage)) return {}
  const cached = numberAt(usage["prompt_tokens_details"], "cached_tokens")
  const written = numberAt(usage["prompt_tokens_details"], "cache_creation_tokens")
  return {
    usage: {
      input_tokens: numberAt(usage, "prompt_tokens") - cached - written,
      output_tokens: usage["completion_tokens"],
      cache_read_input_tokens: cached,
      cache_creation_input_tokens: written
    }
  }
}

/** A whole reply on the other wire; null = it has none of that shape. */
const messageOf = (body: unknown): Json | null => {
  if (!isJson(body) || !Array.isArray(body["choices"]) || body["choices"].length !== 1) return null
  const choice: unknown = body["choices"][0]
  if (!isJson(choice) || !isJson(choice["message"])) return null
  const { content, tool_calls: calls, ...rest } = choice["message"]
  const stop = stops[String(choice["finish_reason"])]
  if (stop === undefined || (typeof content !== "string" && content !== null) || Object.keys(rest).length > 1)
    return null
  if (calls !== undefined) return null
  return {
    type: "message",
    role: "assistant",
    model: "m",
    content: content === null || content === "" ? [] : [{ type: "text", text: content }],
    stop_reason: stop,
    ...usageOf(body["usage"])
  }
}

/** A step on the other wire: failures and network faults stay, whole replies are rewritten; null = neither. */
const stepOf = (step: unknown): Json | null => {
  if (!isJson(step) || step["sse"] !== undefined || step["generate"] !== undefined) return null
  if (typeof step["http"] === "number" && step["http"] >= 400) return step
  if (step["http"] !== 200) return step["http"] === undefined ? step : null
  const body = messageOf(step["body"])
  return body === null ? null : { ...step, body }
}

/** What these expectations look at is written in OpenAI's words. */
const wireWords = ["requestBodies", "bodies", "lastMessages", "pairing", "body", "messages", "budgetParam", "summary"]

const rewritten = (raw: unknown): ReadonlyArray<Json> => {
  if (!isJson(raw) || raw["adapter"] !== undefined || raw["profile"] !== undefined) return []
  if (raw["mode"] === "agent" || !Array.isArray(raw["provider"])) return []
  const config = isJson(raw["config"]) ? raw["config"] : {}
  if (config["env"] !== undefined || config["apiKey"] !== undefined || config["baseUrl"] !== undefined) return []
  if (wireWords.some((word) => JSON.stringify(raw["expect"] ?? {}).includes(`"${word}`))) return []
  const steps = raw["provider"].map(stepOf)
  if (steps.some((step) => step === null)) return []
  return [{ ...raw, adapter: "anthropic", profile: "anthropic", provider: steps }]
}

const path = join(import.meta.dirname, "fixtures/scenarios/dev.json")
const file: unknown = JSON.parse(readFileSync(path, "utf8"))
const all: ReadonlyArray<unknown> = Array.isArray(file)
  ? file
  : isJson(file) && Array.isArray(file["scenarios"])
    ? file["scenarios"]
    : []
const parsed = parseScenarios(
  path,
  JSON.stringify(all.flatMap(rewritten)).replaceAll("OpenAIResponseError", "AnthropicResponseError")
)
const entries = Result.isSuccess(parsed) ? parsed.success : []

it("has drills for both wires", () => assert.isAbove(entries.length, 20))

it.live.each(entries.map((entry) => [entry.id, entry] as const))("plays %s over the other wire", ([, entry]) =>
  Effect.gen(function* () {
    assert.isTrue(Result.isSuccess(entry.scenario))
    if (Result.isFailure(entry.scenario)) return
    const line = yield* playEntry(entry, { live: false })
    assert.deepStrictEqual(checkLine({ ...entry.scenario.success }, { ...line }), [])
  })
)
