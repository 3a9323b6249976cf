/** What a recorded answer is: a verdict of the classifier, a flaw of a reply, or a value. Reads structure only. */
import * as Result from "effect/Result"
import { parse } from "../../../domain/chat/json.ts"
import type { FinishReason } from "../../../domain/chat/ModelReply.ts"
import { unknown as unknownUsage } from "../../../domain/chat/Usage.ts"
import { inBandStatus } from "../../../domain/failure/FaultKind.ts"
import {
  classifyAnswer,
  finishFaultOf,
  inBandFault,
  type Answer,
  type Verdict
} from "../../../domain/provider/classify.ts"
import { generic } from "../../../domain/provider/profiles/generic.ts"
import type { ProviderProfile } from "../../../domain/provider/ProviderProfile.ts"
import { nothingSeen, type Seen } from "../../../domain/recovery/Outcome.ts"
import type { Ended } from "../../../domain/recovery/outcomeOf.ts"
import { eventReaderOf } from "../../../domain/wires/openAiReader.ts"
import { readBody } from "../../../domain/wires/openAiWire.ts"
import * as responsesReader from "../../../domain/wires/responsesReader.ts"
import * as responsesReply from "../../../domain/wires/responsesReply.ts"
import { sentenceOf, type Flaw, type ReadContext } from "../../../domain/wires/wireReply.ts"
import { EventAssembler, eventsAsReply } from "../../../layers/provider/EventAssembler.ts"
import { isRecord, type AnswerCase } from "./answerCase.ts"
import { isNative, isResponse, isResponseEvent, nativeFinish, nativeStopWord } from "./nativeReply.ts"

/** What an answer is, and what a consumer of its stream has seen before it ended. */
export interface Reading {
  readonly found: Verdict | Flaw | Ended
  readonly seen: Seen
}

type Found = Reading["found"]

/** A reply in a format of its own: its text is not read. */
const endedWith = (finishReason: FinishReason): Ended => ({
  finishReason,
  refusal: finishReason === "refusal" ? "" : null,
  text: null,
  toolCalls: [],
  usage: unknownUsage
})

const flawOf = (kind: Flaw["kind"], code: string): Flaw => ({ kind, code, usage: null })

const faultWord = (profile: ProviderProfile, answer: Answer): Verdict | null => {
  const word = nativeStopWord(answer.body)
  const kind = word === null ? null : (finishFaultOf(profile, word) ?? finishFaultOf(generic, word))
  return kind === null || word === null
    ? null
    : { ...classifyAnswer(profile, { ...answer, status: inBandStatus }), kind, code: word }
}

const readNative = (profile: ProviderProfile, answer: Answer): Found | null => {
  const fault = inBandFault(profile, answer) ?? faultWord(profile, answer)
  if (fault !== null) return fault
  const failed = nativeFailure(profile, answer)
  if (failed !== null) return failed
  const finish = nativeFinish(profile, answer.body)
  if (finish === null) return null
  return finish === "unknown" ? flawOf("malformed_response", "finish_reason_unknown") : endedWith(finish)
}

/** A failed response carries its error one level deeper. */
const nativeFailure = (profile: ProviderProfile, answer: Answer): Verdict | null => {
  const response: unknown =
    typeof answer.body === "object" && answer.body !== null ? Reflect.get(answer.body, "response") : null
  return typeof response === "object" && response !== null ? inBandFault(profile, { ...answer, body: response }) : null
}

/** The two APIs whose answers an adapter of ours reads whole; both are OpenAI's. */
const chatWire = { readBody, eventReaderOf }
const responsesWire = { readBody: responsesReply.readBody, eventReaderOf: responsesReader.eventReaderOf }

const contextOf = (profile: ProviderProfile): ReadContext => ({ profile, model: "unknown", requestId: null })

/** `explain` judges by the letter of the API; what recovery reads all the same is told beside the judgement. */
const toTheLetter = (profile: ProviderProfile): ReadContext => contextOf({ ...profile, exact: true })

const readWhole = (profile: ProviderProfile, given: AnswerCase): Found => {
  const { headers } = given
  const text = typeof given.body === "string" ? given.body : JSON.stringify(given.body ?? null)
  const parsed = parse(text)
  const answer: Answer = { status: inBandStatus, headers, body: Result.isSuccess(parsed) ? parsed.success : text }
  const isOfResponses = isResponse(answer.body)
  if (!isOfResponses && isNative(answer.body))
    return readNative(profile, answer) ?? flawOf("malformed_response", "finish_reason_missing")
  const reply = (isOfResponses ? responsesWire : chatWire).readBody(toTheLetter(profile), text, headers)
  return Result.isSuccess(reply) ? reply.success : reply.failure
}

/** The JSON payloads of a stream, read leniently: only to see which format it is. */
const payloadsOf = (sse: string): ReadonlyArray<unknown> =>
  sse
    .split(/\r\n|\n|\r/)
    .filter((line) => line.startsWith("data:"))
    .map((line) => parse(line.slice("data:".length)))
    .flatMap((payload) => (Result.isSuccess(payload) ? [payload.success] : []))

/** A stream in a format of its own: the last event that tells how it ended, or the first fault. */
const readNativeStream = (profile: ProviderProfile, given: AnswerCase, payloads: ReadonlyArray<unknown>): Found => {
  let last: Found = flawOf("interrupted", "no_finish_reason")
  for (const body of payloads) {
    const found = readNative(profile, { status: inBandStatus, headers: given.headers, body })
    if (found === null) continue
    last = found
    if (!("finishReason" in found)) break
  }
  return last
}

const readStream = (profile: ProviderProfile, given: AnswerCase, sse: string): Reading => {
  const payloads = payloadsOf(sse)
  const isOfResponses = payloads.some(isResponseEvent)
  if (!isOfResponses && payloads.some(isNative))
    return { found: readNativeStream(profile, given, payloads), seen: nothingSeen }
  const wire = isOfResponses ? responsesWire : chatWire
  const assembler = new EventAssembler(wire.eventReaderOf(toTheLetter(profile), given.headers))
  const parts = [...assembler.feed(sse), ...(assembler.done || assembler.fault !== null ? [] : assembler.end())]
  const delivered = parts.reduce((sum, part) => (part._tag === "Text" ? sum + part.text.length : sum), 0)
  const isMore = parts.some((part) => part._tag === "ToolCall" || part._tag === "Reasoning")
  const end = parts.find((part) => part._tag === "End")
  return {
    found: assembler.fault ?? (end === undefined ? flawOf("interrupted", "no_finish_reason") : end.reply),
    seen: { delivered, unfinishable: delivered === 0 && isMore, replayDiffers: false }
  }
}

const isOfResponses = ({ body, sse }: AnswerCase): boolean =>
  sse === null ? isResponse(body) : payloadsOf(sse).some(isResponseEvent)

/** Warnings with which recovery reads an answer under this profile; null = it reads it no more than the letter does. */
export const warningsOf = (profile: ProviderProfile, given: AnswerCase): ReadonlyArray<string> | null => {
  const wire = isOfResponses(given) ? responsesWire : chatWire
  if (profile.exact || given.status < 200 || given.status > 299 || (wire === chatWire && isNative(given.body)))
    return null
  const context = contextOf(profile)
  const reply =
    given.sse === null
      ? wire.readBody(
          context,
          typeof given.body === "string" ? given.body : JSON.stringify(given.body ?? null),
          given.headers
        )
      : eventsAsReply(new EventAssembler(wire.eventReaderOf(context, given.headers)), given.sse)
  if (Result.isFailure(reply)) return null
  // Events are what was asked for here.
  return reply.success.warnings.filter((warning) => given.sse === null || warning !== sentenceOf("events_for_a_body"))
}

const isReply = (body: unknown): boolean => isNative(body) || (isRecord(body) && "choices" in body)

export const readAnswer = (profile: ProviderProfile, given: AnswerCase): Reading => {
  const isOk = given.status >= 200 && given.status <= 299
  if (!isOk || (given.isBare === true && !isReply(given.body)))
    return { found: classifyAnswer(profile, given), seen: nothingSeen }
  return given.sse === null
    ? { found: readWhole(profile, given), seen: nothingSeen }
    : readStream(profile, given, given.sse)
}
