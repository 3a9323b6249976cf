/** What effect/ai asks of a provider, as a request of ours: tools, the choice among them and the form of the answer. Pure. */
import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Result from "effect/Result"
import type { Json } from "../../domain/chat/json.ts"
import type { Message, ToolSpec } from "../../domain/chat/Message.ts"
import type { ModelRequest } from "../../domain/chat/ModelRequest.ts"
import { mapped, type Mapped } from "./promptMessages.ts"

export interface Asked {
  readonly request: ModelRequest
  readonly mapped: ReadonlyArray<Mapped>
}

/** The schemas of tools and answers, in the form the provider takes. */
export interface Form {
  readonly transformer: LanguageModel.CodecTransformer
  /** Further fields of every request's body. */
  readonly params: Json
  /** A tool that its provider runs itself: known to a wrapped LanguageModel, and to no client of ours. */
  readonly takesProviderTools: boolean
}

type Named<A> = Result.Result<A, AiError.AiErrorReason>

const refusal = (toolName: string): AiError.AiErrorReason =>
  new AiError.ToolConfigurationError({
    toolName,
    description:
      "is run by its provider, which this model does not know of. Wrap the LanguageModel of that provider instead."
  })

const description = (tool: Tool.Any): Json => {
  const text = Tool.getDescription(tool)
  return text === undefined ? {} : { description: text }
}

const toolSpec = (tool: Tool.Any, form: Form): Named<ToolSpec> => {
  if (Tool.isProviderDefined(tool)) {
    if (!form.takesProviderTools) return Result.fail(refusal(tool.name))
    return Result.succeed({ type: "function", function: { name: tool.name } })
  }
  const strict = Tool.getStrictMode(tool)
  return Result.map(
    Result.try({
      // Only the strict mode needs the narrow form of a schema.
      try: () =>
        strict === true ? Tool.getJsonSchema(tool, { transformer: form.transformer }) : Tool.getJsonSchema(tool),
      catch: (cause): AiError.AiErrorReason =>
        new AiError.ToolConfigurationError({
          toolName: tool.name,
          description: cause instanceof Error ? cause.message : String(cause)
        })
    }),
    (parameters): ToolSpec => ({
      type: "function",
      function: { name: tool.name, ...description(tool), parameters, ...(strict === undefined ? {} : { strict }) }
    })
  )
}

const choiceOf = (choice: LanguageModel.ProviderOptions["toolChoice"]): Json => {
  if (choice === "auto") return {}
  if (typeof choice === "string") return { tool_choice: choice }
  if ("tool" in choice) return { tool_choice: { type: "function", function: { name: choice.tool } } }
  return choice.mode === "required" ? { tool_choice: "required" } : {}
}

const formatOf = ({ responseFormat }: LanguageModel.ProviderOptions, form: Form): Named<Json> => {
  if (responseFormat.type === "text") return Result.succeed({})
  // Servers take few characters in the name.
  const name = responseFormat.objectName.replaceAll(/[^\w-]/g, "_").slice(0, 64)
  return Result.map(
    Result.try({
      try: () => form.transformer(responseFormat.schema as Parameters<LanguageModel.CodecTransformer>[0]).jsonSchema,
      catch: (cause): AiError.AiErrorReason =>
        new AiError.UnsupportedSchemaError({ description: cause instanceof Error ? cause.message : String(cause) })
    }),
    (schema): Json => ({ response_format: { type: "json_schema", json_schema: { name, schema, strict: true } } })
  )
}

export const asked = (options: LanguageModel.ProviderOptions, form: Form): Named<Asked> =>
  Result.gen(function* () {
    const sources = mapped(options.prompt)
    const messages = sources.flatMap(({ to }): ReadonlyArray<Message> => to)
    const tools = yield* Result.all(options.tools.map((tool) => toolSpec(tool, form)))
    const params = {
      ...form.params,
      ...(tools.length === 0 ? {} : choiceOf(options.toolChoice)),
      ...(yield* formatOf(options, form))
    }
    return {
      mapped: sources,
      request: {
        messages,
        ...(tools.length === 0 ? {} : { tools }),
        ...(Object.keys(params).length === 0 ? {} : { params })
      }
    }
  })
