/** The trail of a turn as its journal keeps it, in lines for a person: what was asked, said, called and answered. Pure. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { codecs } from "../../../domain/agent/turnFacts.ts"
import { trailLines } from "../../../domain/failure/failureText.ts"
import type { StepRow } from "../../../services/JournalStore.ts"

const read = <A>(codec: Schema.Codec<A, unknown>, value: unknown): A | null =>
  Result.getOrElse(Schema.decodeUnknownResult(codec)(value), () => null)

const longest = 160

/** One line of it, cut where it is long. */
const short = (text: string): string => {
  const line = text.replaceAll(/\s+/g, " ").trim()
  return line.length <= longest ? line : `${line.slice(0, longest)}… (${text.length} characters)`
}

const replyText = (value: unknown): ReadonlyArray<string> => {
  const fact = read(codecs.reply, value)
  if (fact === null) return []
  const { reply, trail } = fact
  return [
    ...trailLines(trail),
    ...(reply.text === null || reply.text === "" ? [] : [`  says  ${short(reply.text)}`]),
    ...(reply.refusal === null ? [] : [`  refuses  ${short(reply.refusal)}`]),
    ...reply.toolCalls.map((call) => `  calls  ${call.name} ${short(call.arguments)}`)
  ]
}

/** A reply that is not there yet: the requests so far. */
const openText = (value: unknown): ReadonlyArray<string> => trailLines(read(codecs.open, value)?.trail ?? [])

const resultText = (value: unknown): ReadonlyArray<string> => {
  const result = read(codecs.result, value)
  return result === null ? [] : [`  ${result.kind}  ${short(result.content)}`]
}

const valueText = ({ key, state, value }: StepRow): ReadonlyArray<string> => {
  if (key.endsWith("/reply")) return state === "done" ? replyText(value) : openText(value)
  if (value === null) return []
  if (/\/call\/\d+$/.test(key)) return resultText(value)
  return [`  ${short(typeof value === "string" ? value : JSON.stringify(value))}`]
}

/** A step: when it was kept, its name, and what it brought. */
export const stepText = (row: StepRow): ReadonlyArray<string> => [
  `${new Date(row.at).toISOString()}  ${row.key}${row.state === "begun" ? "  begun, no end is known" : ""}`,
  ...valueText(row)
]
