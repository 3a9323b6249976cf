/**
 * What a person sees of a run while it works: text as it streams, a line per tool call, a countdown while it waits. On a
 * terminal one line is drawn again and again; elsewhere there are plain lines only.
 */
import { head } from "../../../domain/chat/codePoints.ts"
import type { AgentEvent } from "../../../domain/agent/AgentEvent.ts"
import { spanText } from "../../../domain/failure/wording.ts"
import type { ToolCall } from "../../../domain/chat/ModelReply.ts"
import type { RecoveryEvent } from "../../../domain/recovery/RecoveryEvent.ts"
import type { ToolResult } from "../../../domain/agent/ToolResult.ts"

export interface Screen {
  /** Writes text as it is. */
  readonly write: (text: string) => void
  /** A terminal: the last line may be drawn again. */
  readonly isTerminal: boolean
}

export interface Display {
  readonly onAgent: (event: AgentEvent) => void
  readonly onRecovery: (event: RecoveryEvent) => void
  /** Ends a line that is being drawn. */
  readonly close: () => void
}

const reasons: Readonly<Record<string, string>> = {
  rate_limited: "rate limited",
  overloaded: "overloaded",
  server_error: "the provider failed",
  timeout: "no answer in time",
  connection: "not reachable",
  interrupted: "the answer broke off",
  empty_reply: "an empty answer",
  Held: "the route is closed"
}

/** Whole seconds: a countdown shows no tenths. */
const wholeSeconds = (millis: number): string => spanText(Math.max(1, Math.ceil(millis / 1000)) * 1000)

/** Control characters of a model or a tool never reach the terminal. */
const clean = (text: string): string => text.replaceAll(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, " ")

const short = (text: string, length: number): string => {
  const line = clean(text).replaceAll(/\s+/g, " ")
  return line.length <= length ? line : `${head(line, length - 1)}…`
}

const callText = (call: ToolCall): string => `${clean(call.name)} ${short(call.arguments, 60)}`

const resultText = (result: ToolResult): string =>
  result.kind === "ok" ? `ok, ${result.content.length} characters` : `${result.kind}: ${short(result.content, 80)}`

const countdownMillis = 250

/** Writes lines, streamed text and one line that is drawn again and again. */
interface Pen {
  readonly line: (text: string) => void
  readonly say: (text: string, reasoning: boolean) => void
  /** Takes away what is drawn. */
  readonly erase: () => void
  /** A line that counts down. */
  readonly countDown: (sentence: (passedMillis: number) => string) => void
  readonly close: () => void
}

const makePen = (screen: Screen): Pen => {
  let isMidLine = false
  let drawn = 0
  let timer: NodeJS.Timeout | null = null
  let isReasoning = false

  const erase = (): void => {
    if (timer !== null) clearInterval(timer)
    timer = null
    if (drawn > 0) screen.write(`\r${" ".repeat(drawn)}\r`)
    drawn = 0
  }
  const line = (text: string): void => {
    erase()
    if (isMidLine) screen.write("\n")
    isMidLine = false
    screen.write(`${text}\n`)
  }
  const draw = (text: string): void => {
    if (isMidLine) screen.write("\n")
    isMidLine = false
    screen.write(`\r${text.padEnd(drawn)}`)
    drawn = text.length
  }

  const countDown = (sentence: (passedMillis: number) => string): void => {
    if (!screen.isTerminal) return line(`… ${sentence(0)}`)
    erase()
    const frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
    let passed = 0
    const tick = (): void => draw(`${frames[(passed / countdownMillis) % frames.length] ?? ""} ${sentence(passed)}`)
    tick()
    timer = setInterval(() => {
      passed += countdownMillis
      tick()
    }, countdownMillis)
    timer.unref()
  }

  const say = (text: string, reasoning: boolean): void => {
    erase()
    if (reasoning !== isReasoning && isMidLine) {
      screen.write("\n")
      isMidLine = false
    }
    if (reasoning && !isMidLine) screen.write("(thinking) ")
    isReasoning = reasoning
    const shown = clean(text)
    screen.write(shown)
    isMidLine = !shown.endsWith("\n")
  }

  const close = (): void => {
    erase()
    if (isMidLine) screen.write("\n")
    isMidLine = false
  }

  return { line, say, erase, countDown, close }
}

export const makeDisplay = (screen: Screen): Display => {
  const { line, say, erase, countDown, close } = makePen(screen)
  let reason = "waiting"
  return {
    onAgent: (event) => {
      switch (event._tag) {
        case "PartSeen": {
          const { part } = event
          if (part._tag === "TextDelta") say(part.text, false)
          if (part._tag === "ReasoningDelta") say(part.text, true)
          if (part._tag === "Reset") line("↺ the answer broke off; it begins again")
          if (part._tag === "Finish") erase()
          return
        }
        case "Replied":
          if (event.reply.refusal !== null) line(`the model refuses: ${clean(event.reply.refusal)}`)
          for (const warning of event.reply.warnings) line(`! ${clean(warning)}`)
          return
        case "ToolEnded":
          return line(`▸ ${callText(event.call)}  →  ${resultText(event.result)}`)
        case "ResultAdded":
          // What was run has its line already.
          return event.result.kind === "not_run" || event.result.kind === "interrupted"
            ? line(`▸ ${callText(event.call)}  →  ${resultText(event.result)}`)
            : undefined
        case "LoopWarned":
          return line(
            `! the model repeats itself (${event.finding.detector}, call ${event.finding.atCall}): it was told`
          )
        case "LoopBroke":
          return line(`! stopped: the model goes in circles (${event.finding.detector}, call ${event.finding.atCall})`)
        case "StepStarted":
        case "ToolStarted":
          return
      }
    },
    onRecovery: (event) => {
      switch (event._tag) {
        case "Transitioned": {
          const { outcome } = event
          const key = outcome._tag === "Faulted" || outcome._tag === "SummaryFaulted" ? outcome.kind : outcome._tag
          reason = reasons[key] ?? "waiting"
          if (event.action._tag === "Compact") line("the input is too long: it is shortened with a summary")
          if (event.action._tag === "Escalate")
            line(`cut by its budget: once more with ${event.action.maxOutputTokens} tokens`)
          return
        }
        case "Waiting":
          return countDown(
            (passed) =>
              `${reason}, next try in ${wholeSeconds(event.remainingMs - passed)}, attempt ${event.attempt + 1}`
          )
        case "AttemptStarted":
          return erase()
        case "ModelSwitched":
          return line(`⇄ switched from ${event.from} to ${event.to}`)
        default:
          return
      }
    },
    close
  }
}
