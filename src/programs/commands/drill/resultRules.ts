/** Expectations on results, history, usage and tools. */
import { isObject } from "../../../domain/chat/json.ts"
import { type Rule, countDifferences } from "./ExpectedLine.ts"
import { differences, listOf, parsed, said, show, unreadable } from "./differences.ts"

const withPlainCalls = (result: unknown): unknown => {
  if (!isObject(result) || !Array.isArray(result["toolCalls"])) return result
  return {
    ...result,
    toolCalls: result["toolCalls"].filter(isObject).map((call) => {
      const fn = isObject(call["function"]) ? call["function"] : {}
      return {
        id: call["id"],
        name: call["name"] ?? fn["name"],
        args: parsed(call["args"] ?? call["arguments"] ?? fn["arguments"])
      }
    })
  }
}

const resultDifferences = (want: unknown, have: unknown, path: string): ReadonlyArray<string> =>
  differences(want, withPlainCalls(have), path)

/** How the calls ended and what they left behind. */
export const resultRules: Readonly<Record<string, Rule>> = {
  elapsedMs: (want, line) => differences(want, line.line["elapsedMs"], "elapsedMs"),
  endsAtMs: (want, line) => {
    const first = line.results[0]
    return differences(want, (isObject(first) ? first["endedAtMs"] : undefined) ?? line.line["elapsedMs"], "endsAtMs")
  },
  result: (want, line) => resultDifferences(want, line.results[0], "result"),
  results: (want, line) => [
    ...differences(listOf(want).length, line.results.length, "number of results"),
    ...listOf(want).flatMap((result, at) => resultDifferences(result, line.results[at], `results[${at}]`))
  ],
  resultCounts: (want, line) =>
    listOf(want).flatMap((entry) =>
      isObject(entry)
        ? differences(
            entry["count"],
            line.results.filter((result) => resultDifferences(entry["like"], result, "result").length === 0).length,
            `number of results like ${show(entry["like"])}`
          )
        : unreadable(entry, "an entry of resultCounts")
    ),
  history: (want, line) => differences(want, line.line["history"], "history"),
  historyUnchanged: (want, line) => differences(want, line.line["historyUnchanged"], "historyUnchanged"),
  historyHas: (want, line) => {
    const text = JSON.stringify(line.line["history"] ?? null)
    return listOf(want).flatMap((part) => said(text.includes(String(part)), `history lacks ${show(part)}`))
  },
  usageTotal: (want, line) => differences(want, line.line["usageTotal"], "usageTotal"),
  costUsd: (want, line) => differences(want, line.line["costUsd"], "costUsd"),
  toolExecutions: (want, line) => differences(want, line.line["toolExecutions"] ?? [], "toolExecutions"),
  toolExecutionCounts: (want, line) =>
    countDifferences(
      want,
      (name) => listOf(line.line["toolExecutions"]).filter((run) => isObject(run) && run["name"] === name).length,
      "runs"
    ),
  toolResults: (want, line) => differences(want, line.line["toolResults"] ?? [], "toolResults"),
  secretsAbsent: (want, line) => {
    const text = JSON.stringify(line.line)
    return listOf(want).flatMap((secret) => said(!text.includes(String(secret)), "a secret is in the output"))
  },
  connectionsOpenAtEnd: (want, line) => differences(want, line.line["connectionsOpen"], "connectionsOpen"),
  exitCode: (want, line) => differences(want, line.line["exitCode"], "exitCode")
}
