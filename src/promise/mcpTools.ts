/**
 * The tools of an MCP server, through a connected client of `@modelcontextprotocol/sdk`. Nothing of that package is
 * imported: whatever has these methods will do.
 */
import * as Effect from "effect/Effect"
import { toolContent } from "../domain/agent/ToolContent.ts"
import { isObject, type Json } from "../domain/chat/json.ts"
import type { ContentPart } from "../domain/chat/Message.ts"
import { refuseUnknown } from "../domain/failure/unknownOptions.ts"
import { fromJsonSchema, runOptionsOf, type RunOptions } from "../programs/agent/tool.ts"
import type { AgentTool } from "./agentTools.ts"

interface ListedTool {
  readonly name: string
  readonly description?: string | undefined
  readonly inputSchema: object
  readonly annotations?:
    | { readonly readOnlyHint?: boolean | undefined; readonly idempotentHint?: boolean | undefined }
    | undefined
}

/** The part of the SDK's Client that is used. */
export interface McpClient {
  readonly listTools: (
    params?: { cursor?: string },
    options?: { signal?: AbortSignal }
  ) => Promise<{ readonly tools: ReadonlyArray<ListedTool>; readonly nextCursor?: string | undefined }>
  readonly callTool: (
    params: { name: string; arguments?: Record<string, unknown> },
    resultSchema?: undefined,
    options?: { signal?: AbortSignal }
  ) => Promise<unknown>
}

export interface McpOptions extends Omit<RunOptions, "settle"> {
  /** Only these tools of the server. Default: all. */
  readonly only?: ReadonlyArray<string>
  /** Stands before each name, where two servers have tools of one name. Default: none. */
  readonly prefix?: string
}

/** What the server says went wrong: the model reads it. */
class McpToolError extends Error {
  override readonly name = "McpToolError"
}

/** Pages of tools a server may list; one that never ends its list is not followed for ever. */
const maxPages = 100

const partOf = (block: Json): ContentPart => {
  const { type, text, data, mimeType } = block
  if (type === "text") return { type: "text", text: String(text) }
  if (type === "image")
    return { type: "image_url", image_url: { url: `data:${String(mimeType)};base64,${String(data)}` } }
  // A resource, a link, a sound: as JSON text, which every model reads.
  return { type: "text", text: JSON.stringify(block) }
}

const partsIn = (result: unknown): ReadonlyArray<ContentPart> => {
  const content: unknown = isObject(result) ? result["content"] : undefined
  return Array.isArray(content) ? content.filter(isObject).map(partOf) : []
}

const wordsOf = (parts: ReadonlyArray<ContentPart>): string =>
  parts.flatMap((part) => (part.type === "text" ? [String(part["text"])] : [])).join("\n")

/** Text stays text; a picture goes as one. A server that only has structured content gives its JSON. */
const givenBy = (result: unknown): unknown => {
  const parts = partsIn(result)
  if (isObject(result) && result["isError"] === true) throw new McpToolError(wordsOf(parts) || "the tool failed")
  if (parts.length === 0) return isObject(result) ? (result["structuredContent"] ?? "") : ""
  return parts.every((part) => part.type === "text") ? wordsOf(parts) : toolContent(parts)
}

const listed = async (client: McpClient): Promise<ReadonlyArray<ListedTool>> => {
  const tools: Array<ListedTool> = []
  let cursor: string | undefined
  for (let page = 0; page < maxPages; page += 1) {
    const found = await client.listTools(cursor === undefined ? {} : { cursor })
    tools.push(...found.tools)
    cursor = found.nextCursor
    if (cursor === undefined || cursor === "") break
  }
  return tools
}

/** What a server says of its tools is a hint: it decides what runs twice, never what a person is asked. */
const repeatOf = ({ annotations }: ListedTool): RunOptions =>
  annotations?.readOnlyHint === true || annotations?.idempotentHint === true ? { repeat: "safe" } : {}

const names: ReadonlyArray<string> = [
  "only",
  "prefix",
  "timeout",
  "parallel",
  "polling",
  "repeat",
  "approval"
] satisfies ReadonlyArray<keyof McpOptions>

/**
 * The tools of a server, for `createAgent({ tools: [...await mcpTools(client)] })`. The connection stays the caller's.
 * A tool that says it only reads, or may be repeated, has `repeat: "safe"` unless the options say otherwise.
 */
export const mcpTools = async (client: McpClient, options: McpOptions = {}): Promise<ReadonlyArray<AgentTool>> => {
  refuseUnknown(options, names)
  const { only, prefix = "", ...run } = options
  const tools = await listed(client)
  return tools
    .filter(({ name }) => only === undefined || only.includes(name))
    .map((tool) => {
      const { name, description, inputSchema } = tool
      const spec = {
        name: `${prefix}${name}`,
        parameters: inputSchema,
        ...(description === undefined ? {} : { description })
      }
      return fromJsonSchema(
        { type: "function", function: spec },
        (args) =>
          Effect.tryPromise({
            try: async (signal) => givenBy(await client.callTool({ name, arguments: args }, undefined, { signal })),
            catch: (thrown) => thrown
          }),
        runOptionsOf({ ...repeatOf(tool), ...run })
      )
    })
}
