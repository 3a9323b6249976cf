/** Writes docs/errors.md from the classes of the failures and the words said of them: `npm run docs`. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as AgentErrors from "../src/domain/failure/AgentError.ts"
import type { AgentError } from "../src/domain/failure/AgentError.ts"
import { FaultKind, inBandStatus, isLegal } from "../src/domain/failure/FaultKind.ts"
import { makeModelError } from "../src/domain/failure/ModelError.ts"
import * as RecoveryErrors from "../src/domain/failure/RecoveryError.ts"
import type { RecoveryError } from "../src/domain/failure/RecoveryError.ts"
import { faultWords, reasonWords } from "../src/domain/failure/words.ts"
import * as JournalErrors from "../src/domain/agent/JournalError.ts"
import type { JournalFailure } from "../src/domain/agent/JournalError.ts"
import { isRetried, nextOf } from "../src/programs/commands/explain/nextOf.ts"
import { nothingSeen } from "../src/domain/recovery/Outcome.ts"
import { presetNames } from "../src/domain/recovery/PolicyField.ts"
import { markdownTable } from "./markdownTable.ts"

/** Statuses worth a column: what providers use. */
const statuses = [400, 401, 402, 403, 404, 408, 410, 412, 413, 422, 424, 429, 498, 500, 502, 503, 504, 522, 524, 529]

const statusesOf = (kind: FaultKind): string => {
  const all = statuses.filter((status) => isLegal(kind, status))
  const shown = all.length > 10 ? [`${all[0]} to ${all.at(-1)}`] : all.map(String)
  return [
    ...shown,
    ...(isLegal(kind, inBandStatus) ? ["inside a 200"] : []),
    ...(isLegal(kind, null) ? ["no answer"] : [])
  ].join(", ")
}

/** The presets that ask again after it, at the status that is most its own. */
const retriedBy = (kind: FaultKind): string => {
  const status = { rate_limited: 429, overloaded: 529, server_error: 500, timeout: 408 }[kind as string]
  const own = status ?? statuses.find((one) => isLegal(kind, one)) ?? (isLegal(kind, null) ? null : inBandStatus)
  const next = nextOf({
    result: makeModelError({ kind, status: own }),
    seen: nothingSeen,
    streaming: false,
    wallMillis: 0
  })
  if (presetNames.some((name) => next[name]._tag === "Compact")) return "shortened, once"
  const names = presetNames.filter((name) => isRetried(next[name]))
  return names.length === 0 ? "never" : names.join(", ")
}

const providerTable = markdownTable([
  ["tag", "kind", "statuses", "asked again by", "what to do"],
  ...FaultKind.literals.map((kind) => [
    `\`${makeModelError({ kind, status: isLegal(kind, null) ? null : (statuses.find((one) => isLegal(kind, one)) ?? inBandStatus) })._tag}\``,
    `${kind}: ${faultWords[kind].name}`,
    statusesOf(kind),
    retriedBy(kind),
    faultWords[kind].advice
  ])
])

interface Told {
  readonly when: string
  readonly fields: Readonly<Record<string, string>>
}

const given: { readonly [Tag in RecoveryError["_tag"]]: Told } = {
  RecoveryRetriesExhausted: {
    when: "requests or continuations are used up",
    fields: { reason: "which of them", partial: "the text so far, or null" }
  },
  RecoveryDeadlineExceeded: {
    when: "the deadline passed, or the wait a provider asked for would reach it: then nothing was waited for",
    fields: {
      requestedWaitMs: "the wait that did not fit, or null",
      remainingMs: "what was left",
      retryAt: "epoch milliseconds from which another try makes sense, or null"
    }
  },
  PromptTooLongRetryError: {
    when: "the input is too long and shortening it did not help",
    fields: { reason: "why it did not" }
  },
  InvalidRetryAfterError: {
    when: "a wait hint cannot be read, in the preset strict: nothing was waited for",
    fields: {}
  },
  RecoveryCancelledError: {
    when: "the caller took the request back; only at the edges of promises, inside Effect an interruption stays one",
    fields: { cause: "the reason of the signal" }
  }
}

const agents: { readonly [Tag in AgentError["_tag"]]: Told } = {
  BudgetExceeded: {
    when: "the budget admits no further request",
    fields: {
      limit: "tokens or usd",
      allowed: "its size",
      spent: "what is booked",
      reserved: "what is under way",
      partial: "the text so far"
    }
  },
  LoopBroken: {
    when: "the model goes in circles: the guard warned, then broke",
    fields: {
      detector: "what was seen",
      atCall: "number of the call",
      count: "equal calls",
      cycle: "different calls of the cycle",
      tool: "the tool",
      partial: "the text so far"
    }
  },
  StepLimitReached: {
    when: "the step cap is reached; the tools of the last step have run",
    fields: { maxSteps: "the cap", partial: "the text so far" }
  },
  ContentFilteredError: {
    when: "a content filter stopped the reply; nothing of it is in the history",
    fields: { partial: "the text before the stop" }
  },
  TruncatedReplyError: {
    when: "a reply ran into its budget and the raw client is the executor",
    fields: { partial: "the text so far" }
  }
}

const journals: { readonly [Tag in JournalFailure["_tag"]]: Told } = {
  StepInDoubt: { when: "a step that must not run twice was begun, and its end is not known", fields: {} },
  TurnParked: {
    when: "a person has to answer first; no process is needed until then",
    fields: { key: "what is asked" }
  },
  TurnCancelled: { when: "somebody has cancelled the turn", fields: {} },
  TurnOwned: { when: "another process has the turn", fields: { holder: "which one" } },
  TurnStuck: { when: "the turn was taken up again and again and got no further", fields: { restarts: "how often" } },
  JournalMismatch: {
    when: "what is kept does not fit this version of the program or its tools",
    fields: { field: "what differs", reason: "how" }
  },
  JournalUnavailable: {
    when: "the store cannot be written or read: nothing was done that would have to be kept",
    fields: { reason: "what it said" }
  }
}

/** A field that the class does not have would be a promise nobody holds. */
const checked = (classes: object, tag: string, { fields }: Told): void => {
  const Class: unknown = Reflect.get(classes, tag)
  const own: object = typeof Class === "function" ? (Reflect.get(Class, "fields") ?? {}) : {}
  const getters: object = typeof Class === "function" ? Class.prototype : {}
  for (const name of Object.keys(fields))
    if (!(name in own) && !(name in getters)) throw new Error(`${tag} has no field ${name}`)
}

const table = (classes: object, told: Readonly<Record<string, Told>>): string =>
  markdownTable([
    ["tag", "when", "fields of its own"],
    ...Object.entries(told).map(([tag, one]) => {
      checked(classes, tag, one)
      const fields = Object.entries(one.fields).map(([name, about]) => `\`${name}\`: ${about}`)
      return [`\`${tag}\``, one.when, fields.join("; ")]
    })
  ])

const reasonsTable = markdownTable([
  ["reason", "what to do"],
  ...Object.entries(reasonWords).map(([reason, { advice }]) => [reason, advice])
])

export const errorsPage = (): string => `# Errors

This page is made from the source by \`npm run docs\`.

Every failure is a class of its own: \`Effect.catchTag("RecoveryDeadlineExceeded", ...)\`, or \`failure._tag\` in plain TypeScript.
\`renderFailure(failure)\` prints any of them for a person, and so does \`console.log\`. None has a text of the conversation, a key or a
header in its message or its JSON: what holds text (\`partial\`, \`providerMessage\`) is read on purpose.

Each has \`guidance\`, one sentence that says what to do; \`trail\`, every HTTP request with model, status, code, wait and cost;
\`attempts\`, \`elapsedMs\`, and \`requestId\`, by which its events and spans are found.

## What a provider did

Handed on as it is when it is not ours to retry, or when retries are no help. Fields: \`status\` (null = no answer came, 200 = inside a
200), \`code\` (the provider's own), \`param\` (the field it refuses), \`model\`, \`providerRequestId\`, \`hints\`, \`resetAt\`, \`timer\` (which of
our timers ended it), \`address\` (that never answered), \`usage\`, \`shed\`. A malformed answer of Anthropic's is \`AnthropicResponseError\`.

${providerTable}

## What recovery gave up on

With \`lastOutcome\`, \`lastCause\`, \`lastStatus\`, \`code\`, \`model\`, \`cause\` and \`firstCause\`: the last failure, and the first.
A fallback that cannot serve (it answers 400, 401, 402, 403, 404 or 410 while the route before it was only busy) is told by the trail
alone: the failure speaks of the busy route.

${table(RecoveryErrors, given)}

${reasonsTable}

## What ends a turn of the agent

${table(AgentErrors, agents)}

## What ends a durable turn

With \`turn\`, \`key\` (the step) and \`guidance\`.

${table(JournalErrors, journals)}

## What is wrong before anything is sent

\`ConfigurationError\`, with \`field\` and \`reason\`: an option nobody knows, a policy that contradicts itself, a request that no provider
takes. A refused request is a \`ModelRequestError\` whose \`status\` is null and whose \`param\` names the field.

## Exit codes of the commands

0 ok, 1 failed, 2 usage or configuration, 75 try later (a deadline, a known reset, retries that ended on something that passes, a turn
that waits), 130 interrupted.
`

const path = join(import.meta.dirname, "..", "docs", "errors.md")
if (process.argv[1] === import.meta.filename) writeFileSync(path, errorsPage())
