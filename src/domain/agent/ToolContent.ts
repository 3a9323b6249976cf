/**
 * What a tool gives back when it is more than text: parts in the shape of OpenAI's chat API (`text`, `image_url`, `file`).
 * Every wire sends them as its provider takes them.
 */
import * as Result from "effect/Result"
import { wellFormed } from "../chat/codePoints.ts"
import { digest } from "../chat/digest.ts"
import { isObject } from "../chat/json.ts"
import type { ContentPart } from "../chat/Message.ts"
import { textOf } from "./ToolText.ts"

/** Characters of all parts together: a picture in base64 is large, more than this is a flood in every further request. */
const maxLength = 20_000_000

export class ToolContent {
  readonly parts: ReadonlyArray<ContentPart>
  constructor(parts: ReadonlyArray<ContentPart>) {
    this.parts = parts
  }
}

/** Parts as the result of a tool: `toolContent([{ type: "image_url", image_url: { url: "data:image/png;base64,..." } }])`. */
export const toolContent = (parts: ReadonlyArray<ContentPart>): ToolContent => new ToolContent(parts)

/** A part in words, for whoever reads results as text; two different pictures are two different words. */
const wordsOf = (part: ContentPart, json: string): string =>
  part.type === "text" && typeof part["text"] === "string" ? wellFormed(part["text"]) : `[${part.type} ${digest(json)}]`

/** The parts as plain JSON of their own, and in words; or why they are none. */
export const contentOf = (
  given: ToolContent
): Result.Result<{ readonly content: string; readonly parts: ReadonlyArray<ContentPart> }, string> => {
  const parts: unknown = given.parts
  if (!Array.isArray(parts) || parts.length === 0) return Result.fail("the content is no list of parts")
  const json = Result.try(() => JSON.stringify(parts))
  if (Result.isFailure(json)) return Result.fail("the content is no JSON value")
  if (json.success.length > maxLength)
    return Result.fail(`the content has ${json.success.length} characters, more than ${maxLength}`)
  const own: ReadonlyArray<unknown> = JSON.parse(json.success)
  if (!own.every((part): part is ContentPart => isObject(part) && typeof part["type"] === "string"))
    return Result.fail("a part of the content has no type")
  const words = own.map((part) => wordsOf(part, JSON.stringify(part))).join("\n")
  return Result.map(textOf(words), (content) => ({ content, parts: own }))
}
