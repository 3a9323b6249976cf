/** What became of one tool call, as the model reads it in the history. A tool never throws through the loop. */
import * as Result from "effect/Result"
import { head, wellFormed } from "../chat/codePoints.ts"
import type { ContentPart, ToolMessage } from "../chat/Message.ts"
import type { ToolCall } from "../chat/ModelReply.ts"
import { contentOf, ToolContent } from "./ToolContent.ts"
import { textOf } from "./ToolText.ts"

export type ToolResultKind =
  | "ok"
  | "failed"
  | "invalid_arguments"
  | "unknown_tool"
  | "timed_out"
  | "interrupted"
  | "not_run"

export interface ToolResult {
  readonly kind: ToolResultKind
  readonly content: string
  /** Tag or name of the tool's own error; null when there is none. Two failures are equal when kind and tag are. */
  readonly errorTag: string | null
  /** What the model gets instead of `content`, which says it in words; absent = the text is all. */
  readonly parts?: ReadonlyArray<ContentPart>
}

/** How a tool may be run. */
export interface ToolTraits {
  /** May run beside other calls of the same reply. */
  readonly parallel: boolean
  /** Asks again and again on purpose: judged by progress, not by repetition. */
  readonly polling: boolean
  /**
   * `safe`: running it twice does no harm, so it may start before the reply is whole. `keyed`: it tells a repetition by
   * its key. `never`: what was begun and has no end is not run again.
   */
  readonly repeat: "safe" | "keyed" | "never"
  /** A person is asked before it runs. Default: false. */
  readonly approval?: boolean
}

/** A call as a tool gets it. */
export interface KeyedCall extends ToolCall {
  /** The same for the same call of the same turn, also after a restart; absent without a journal. */
  readonly key?: string
}

export const isFailure = (result: ToolResult): boolean => result.kind !== "ok"

export const ok = (content: string): ToolResult => ({ kind: "ok", content, errorTag: null })

/** What a failing tool says of itself may be long, too. */
const failureLength = 30_000

export const failed = (errorTag: string, text: string): ToolResult => ({
  kind: "failed",
  content: `The tool failed: ${head(wellFormed(text), failureLength)}`,
  errorTag
})

/** The result of a tool that ended well, whatever it gave back; what cannot be text is a failure. */
export const given = (value: unknown): ToolResult =>
  value instanceof Error
    ? failed(value.name, value.message)
    : value instanceof ToolContent
      ? Result.match(contentOf(value), {
          onSuccess: (found) => ({ ...ok(found.content), parts: found.parts }),
          onFailure: (reason) => failed("NoText", reason)
        })
      : Result.match(textOf(value), { onSuccess: ok, onFailure: (reason) => failed("NoText", reason) })

/** A result of a toolbox that somebody else wrote: its content is text, whatever stood there. */
export const sound = (result: ToolResult): ToolResult => {
  const content: unknown = result.content
  if (typeof content === "string" && content.isWellFormed()) return result
  const text = textOf(content)
  return Result.isSuccess(text) ? { ...result, content: text.success } : failed("NoText", text.failure)
}

export const invalidArguments = (name: string, fault: string): ToolResult => ({
  kind: "invalid_arguments",
  content: `${name} was not run: ${fault}`,
  errorTag: null
})

export const unknownTool = (name: string, known: ReadonlyArray<string>): ToolResult => ({
  kind: "unknown_tool",
  content: `There is no tool ${JSON.stringify(name)}. The tools are: ${known.length === 0 ? "none" : known.join(", ")}.`,
  errorTag: null
})

export const timedOut = (millis: number): ToolResult => ({
  kind: "timed_out",
  content: `The tool was stopped after ${millis} ms. Part of its work may have been done.`,
  errorTag: null
})

export const interrupted: ToolResult = {
  kind: "interrupted",
  content: "The call was interrupted. It may have run, in part or as a whole: check before you repeat it.",
  errorTag: null
}

export const inDoubt: ToolResult = {
  kind: "interrupted",
  content: "The outcome of this call is unknown: it was begun, and the process ended before its result. Check first.",
  errorTag: "StepInDoubt"
}

/** `reason`: what was said with the no; null = nothing. */
export const denied = (reason: string | null): ToolResult =>
  notRun(reason === null ? "it was not approved." : `it was not approved: ${head(wellFormed(reason), failureLength)}`)

export const notRun = (why: string): ToolResult => ({ kind: "not_run", content: `Not run: ${why}`, errorTag: null })

/** The one message a result adds to the history. */
export const toMessage = (call: Pick<ToolCall, "id">, result: ToolResult): ToolMessage => ({
  role: "tool",
  tool_call_id: call.id,
  content: result.parts ?? result.content
})
