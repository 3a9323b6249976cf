/**
 * A scripted provider on loopback that leads a coding agent through one task: read a file, write the answer, say so. The
 * model's name picks the fault; how many results of tools a request carries tells the step.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { faults, type Fault } from "./faults.ts"
import type { Turn, WireName } from "./answers.ts"
import { eventsOf } from "./answers.ts"

export const taskText = "Read the file number.txt, write its number in words to answer.txt, and say that it is done."
export const answerInWords = "forty-two"
/** What the agent prints at the end: long enough to be cut in the middle. */
export const closingText =
  "The task is done: number.txt held the number 42, and answer.txt says forty-two now, in words."

export interface Asked {
  readonly model: string
  readonly step: number
  readonly at: number
}

export interface Call {
  readonly wire: WireName
  readonly model: string
  readonly step: number
  /** How many requests of this step came before. */
  readonly before: number
  readonly turn: Turn
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

const textOf = async (request: IncomingMessage): Promise<string> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString("utf8")
}

interface Tool {
  readonly name: string
  readonly fields: ReadonlyArray<string>
  readonly isList: (field: string) => boolean
}

type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The tools of a request, whatever the wire. */
const toolsOf = (body: Fields): ReadonlyArray<Tool> => {
  const tools = Array.isArray(body["tools"]) ? body["tools"] : []
  return tools.flatMap((tool: unknown) => {
    if (!isFields(tool)) return []
    const own = isFields(tool["function"]) ? tool["function"] : tool
    const schema = own["parameters"] ?? own["input_schema"]
    const properties = isFields(schema) && isFields(schema["properties"]) ? schema["properties"] : {}
    const isList = (field: string): boolean => isFields(properties[field]) && properties[field]["type"] === "array"
    return typeof own["name"] === "string" ? [{ name: own["name"], fields: Object.keys(properties), isList }] : []
  })
}

const pathFields = ["absolute_path", "file_path", "filePath", "path"]

/** The call that brings an agent on: its own tool for files where it has one, else its shell. */
const callFor = (tools: ReadonlyArray<Tool>, step: number, folder: string): Turn => {
  const id = `call_${step}`
  const file = `${folder}/${step === 0 ? "number.txt" : "answer.txt"}`
  const own = tools.find(({ name }) => (step === 0 ? /^read(_file)?$/i : /^write(_file)?$/i).test(name))
  const path = own?.fields.find((field) => pathFields.includes(field))
  if (own !== undefined && path !== undefined) {
    const args = { [path]: file, ...(step === 0 ? {} : { content: `${answerInWords}\n` }) }
    return { _tag: "Call", id, name: own.name, args: JSON.stringify(args) }
  }
  const shell = tools.find(({ name }) => /^(exec_command|shell_command|shell|bash|run_shell_command)$/.test(name))
  const command = step === 0 ? `cat ${file}` : `echo ${answerInWords} > ${file}`
  const field = shell?.fields.find((one) => one === "cmd" || one === "command") ?? "command"
  const value = shell?.isList(field) === true ? ["bash", "-lc", command] : command
  return { _tag: "Call", id, name: shell?.name ?? "shell", args: JSON.stringify({ [field]: value }) }
}

/** Results of tools in the history, each call counted once. */
const stepOf = (body: Fields): number => {
  const items = [body["messages"], body["input"]].flatMap((list) => (Array.isArray(list) ? list : []))
  return items.flatMap((item: unknown) => {
    if (!isFields(item)) return []
    if (item["role"] === "tool" || item["type"] === "function_call_output") return [item]
    const content = Array.isArray(item["content"]) ? item["content"] : []
    return content.filter((part: unknown) => isFields(part) && part["type"] === "tool_result")
  }).length
}

const wireAt = (path: string): WireName | null =>
  path.includes("/chat/completions")
    ? "chat"
    : path.includes("/responses")
      ? "responses"
      : path.includes("/messages")
        ? "messages"
        : null

/** A request without a tool is one for a title or a summary: it is answered and not counted as a step. */
const aside: Turn = { _tag: "Text", text: "The number in the file is to be written in words." }

const plainAnswer = (call: Pick<Call, "wire" | "model" | "response">, turn: Turn): void => {
  call.response.writeHead(200, { "content-type": "text/event-stream" })
  call.response.end(eventsOf(call.wire, call.model, turn).all.join(""))
}

/** The case of a model's name: `FAULT` or `FAULT.ANYTHING`. */
export const faultOf = (model: string): Fault | undefined => faults[model.split(".")[0] ?? ""]

export const startProvider = async (folderOf: (model: string) => string) => {
  const asked: Array<Asked> = []
  const heard: Array<string> = []
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const wire = wireAt(request.url ?? "")
    const text = await textOf(request)
    if (wire === null) return void response.writeHead(404, { "content-type": "application/json" }).end("{}")
    const body = JSON.parse(text) as Fields
    const model = String(body["model"])
    const tools = toolsOf(body)
    heard.push(text)
    if (model === "spare") {
      const turn = closing(tools, body, folderOf(spareOf(asked)))
      asked.push({ model, step: stepOf(body), at: performance.now() })
      return plainAnswer({ wire, model, response }, turn)
    }
    if (tools.length === 0) return plainAnswer({ wire, model, response }, aside)
    const step = stepOf(body)
    const before = asked.filter((one) => one.model === model && one.step === step).length
    asked.push({ model, step, at: performance.now() })
    const turn = closing(tools, body, folderOf(model))
    const fault = faultOf(model)
    const call: Call = { wire, model, step, before, turn, request, response }
    if (fault === undefined) return void response.writeHead(404).end("{}")
    if (step !== fault.step || before >= fault.times) return plainAnswer(call, turn)
    await fault.run(call)
  }
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    heard,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      })
  }
}

const closing = (tools: ReadonlyArray<Tool>, body: Fields, folder: string): Turn => {
  const step = stepOf(body)
  return step >= 2 ? { _tag: "Text", text: closingText } : callFor(tools, step, folder)
}

/** The fallback serves the case that was asked for last. */
const spareOf = (asked: ReadonlyArray<Asked>): string => asked.findLast(({ model }) => model !== "spare")?.model ?? ""
