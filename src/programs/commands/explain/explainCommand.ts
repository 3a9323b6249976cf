/** `holdfast explain`: classifies provider answers and says what to do. */
import * as Clock from "effect/Clock"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Result from "effect/Result"
import { Argument, Command, Flag } from "effect/cli"
import { parse } from "../../../domain/chat/json.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import { bareCase, caseOf, pastedCase, type AnswerCase } from "./answerCase.ts"
import type { Explanation } from "./explainAnswer.ts"

const flags = {
  file: Argument.String("FILE").pipe(
    Argument.withDescription(
      "an answer as `curl -i` or `curl -v` prints it, a body, or a case, an array or NDJSON of cases; default: stdin"
    ),
    Argument.optional
  ),
  profile: Flag.String("profile").pipe(
    Flag.withDescription("provider profile for all cases; default: the one each case names, else generic"),
    Flag.optional
  ),
  json: Flag.Boolean("json").pipe(Flag.withDescription("one JSON line per case"), Flag.withDefault(false))
}

const standardInput = Effect.promise(async () => {
  const { text } = await import("node:stream/consumers")
  return text(process.stdin)
})

const notCases = (field: string) =>
  new ConfigurationError({
    field,
    reason:
      "is no answer with a status line (paste it as `curl -i` prints it), no JSON body, no case and no list of cases"
  })

const noStatus = (field: string) =>
  new ConfigurationError({
    field,
    reason: "is a body whose codes decide nothing without its status: paste the answer as `curl -i` prints it"
  })

const jsonLines = (text: string): Result.Result<ReadonlyArray<unknown>, unknown> => {
  const trimmed = text.trim()
  const whole = parse(trimmed)
  if (Result.isSuccess(whole)) return Result.succeed(Array.isArray(whole.success) ? whole.success : [whole.success])
  return Result.all(
    trimmed
      .split(/\r?\n/)
      .filter((line) => line.trim() !== "")
      .map((line) => parse(line))
  )
}

interface Expected {
  readonly bestKind: string
  readonly contested: string | null
}

/** What a recorded case says of itself; null for a pasted answer. */
const expectedOf = (raw: unknown): Expected | null => {
  const expected: unknown = typeof raw === "object" && raw !== null ? Reflect.get(raw, "expected") : null
  if (typeof expected !== "object" || expected === null) return null
  const bestKind: unknown = Reflect.get(expected, "bestKind")
  const contested: unknown = Reflect.get(expected, "contested")
  return typeof bestKind === "string" ? { bestKind, contested: typeof contested === "string" ? contested : null } : null
}

const waitText = (seconds: number): string => `${Math.round(seconds * 1000) / 1000} s`

const render = (found: Explanation, next: ReadonlyArray<string>, expected: Expected | null): string => {
  const given = [
    ...(found.retryAfterSeconds === null
      ? []
      : [
          {
            source: "retry-after",
            text: `Retry-After ${found.retryAfterSeconds === "invalid" ? "cannot be read" : waitText(found.retryAfterSeconds)}`
          }
        ]),
    ...(found.hintSeconds === null
      ? []
      : [{ source: found.hintSource, text: `${found.hintSource ?? "hint"} ${waitText(found.hintSeconds)}` }])
  ]
  // Only one of several is kept by a retry.
  const waits = given.map(({ source, text }) =>
    given.length > 1 && found.obeyed !== null ? `${text} (${source === found.obeyed ? "obeyed" : "not used"})` : text
  )
  return [
    `${found.id}  ${found.kind}${found.code === null ? "" : `  ${found.code}`}  (profile ${found.profile})`,
    `  ${[found.error ?? "a value in the reply", ...waits].join("; ")}`,
    ...next.map((line) => `  ${line}`),
    `  ${found.guidance}`,
    ...found.notes.map((note) => `  note: ${note}`),
    ...(expected === null || expected.bestKind === found.kind
      ? []
      : [`  EXPECTED ${expected.bestKind}${expected.contested === null ? "" : `, contested: ${expected.contested}`}`])
  ].join("\n")
}

export const explain = Command.make(
  "explain",
  flags,
  Effect.fnUntraced(function* (input) {
    const { explainAnswer, explainUnnamed } = yield* Effect.promise(() => import("./explainAnswer.ts"))
    const { nextLines } = yield* Effect.promise(() => import("./nextOf.ts"))
    const { profileNamed, profiles } = yield* Effect.promise(() => import("../../../domain/provider/Profiles.ts"))
    const fs = yield* FileSystem.FileSystem
    const name = input.file._tag === "Some" ? input.file.value : "standard input"
    const text = yield* input.file._tag === "Some" && input.file.value !== "-"
      ? Effect.mapError(
          fs.readFileString(input.file.value),
          () => new ConfigurationError({ field: name, reason: "cannot be read" })
        )
      : standardInput
    const chosen = input.profile._tag === "Some" ? profileNamed(input.profile.value) : null
    if (input.profile._tag === "Some" && chosen === null)
      return yield* Effect.fail(
        new ConfigurationError({
          field: "--profile",
          reason: `(${input.profile.value}) is none of ${profiles.map((profile) => profile.name).join(", ")}`
        })
      )
    const explained = (one: AnswerCase): Explanation => {
      const profile = chosen ?? (one.provider === null ? null : profileNamed(one.provider))
      return profile === null ? explainUnnamed(one) : explainAnswer(profile, one)
    }

    if (text.trim() === "")
      return yield* Effect.fail(
        new ConfigurationError({ field: name, reason: "is empty: paste an answer as `curl -i` prints it" })
      )
    const wallMillis = yield* Clock.currentTimeMillis
    const pasted = pastedCase(text, wallMillis)
    const raws = pasted === null ? jsonLines(text) : Result.succeed([pasted])
    if (Result.isFailure(raws) || raws.success.length === 0) return yield* Effect.fail(notCases(name))
    let wrong = 0
    let contested = 0
    for (const [index, raw] of raws.success.entries()) {
      const one = pasted ?? caseOf(raw, index + 1, wallMillis) ?? bareCase(raw, index + 1, wallMillis)
      const place = raws.success.length === 1 ? name : `${name}, entry ${index + 1}`
      if (one === null) return yield* Effect.fail(notCases(place))
      const found = explained(one)
      if (one.isBare === true && found.kind === "malformed_response") return yield* Effect.fail(noStatus(place))
      const expected = expectedOf(raw)
      if (expected !== null && expected.bestKind !== found.kind) {
        if (expected.contested === null) wrong += 1
        else contested += 1
      }
      yield* Console.log(input.json ? JSON.stringify(found) : `${render(found, nextLines(found.next), expected)}\n`)
    }
    if (!input.json && raws.success.some((raw) => expectedOf(raw) !== null))
      yield* Console.log(
        `${raws.success.length} answers, ${wrong} not as expected, ${contested} contested ones read differently`
      )
  })
).pipe(Command.withDescription("classify provider answers and say what to do"))
