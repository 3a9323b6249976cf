/** A call of one of the three APIs: read, checked, given its route; and joined to its run when it names one. */
import { createHash, randomUUID } from "node:crypto"
import { parsedObject, type Json } from "../../../domain/chat/json.ts"
import type { Answer } from "./Answer.ts"
import * as answers from "./answers.ts"
import { askOnce, type ReadCall } from "./askUpstream.ts"
import type { GatewayConfig, ResolvedRoute } from "./GatewayConfig.ts"
import type { Wire } from "./GatewayParts.ts"
import { goneSignal, readRequestBody } from "./httpBridge.ts"
import { ownName } from "./rejoin.ts"
import { withResponseId } from "./ResponseOwners.ts"
import type { Visit } from "./Visit.ts"

/** Names of models are short; a longer one is no name. */
const longestModel = 512

const utf8 = new TextDecoder("utf-8", { fatal: true })

const textOf = (body: Buffer): string | null => {
  try {
    return utf8.decode(body)
  } catch {
    return null
  }
}

const routeFor = (config: GatewayConfig, wire: Wire, model: string): ResolvedRoute | null =>
  config.routes.get(model) ?? config.routes.get(`* ${wire}`) ?? config.routes.get("*") ?? null

type Read = { readonly _tag: "Read"; readonly call: ReadCall } | { readonly _tag: "Refused"; readonly answer: Answer }

const refused = (answer: Answer): Read => ({ _tag: "Refused", answer })

const routed = (config: GatewayConfig, wire: Wire, text: string, body: Json): Read => {
  const { model } = body
  if (typeof model !== "string" || model === "")
    return refused(answers.badRequest(wire, "The field model is missing: it names the model to ask.", "model_required"))
  if (model.length > longestModel)
    return refused(answers.badRequest(wire, `The field model is longer than ${longestModel} characters.`))
  const asked = routeFor(config, wire, model)
  return asked === null
    ? refused(
        answers.notFound(wire, `No route serves the model ${JSON.stringify(model.slice(0, 200))}.`, "model_not_found")
      )
    : { _tag: "Read", call: { wire, asked, text, body } }
}

const read = async ({ parts, request }: Visit, wire: Wire): Promise<Read> => {
  const { config } = parts
  const encoding = request.headers["content-encoding"]
  if (encoding !== undefined && encoding !== "identity") return refused(answers.encoded(wire))
  const bytes = await readRequestBody(request, config.bodyBytes)
  if (bytes === "too_large") return refused(answers.tooLarge(wire, config.bodyBytes))
  if (bytes === "broken") return refused(answers.badRequest(wire, "The body did not come whole."))
  const text = textOf(bytes)
  if (text === null) return refused(answers.badRequest(wire, "The body is not UTF-8."))
  const body = parsedObject(text)
  return body === null
    ? refused(answers.badRequest(wire, "The body is not a JSON object."))
    : routed(config, wire, text, body)
}

/** A run is its caller's: the id of another key is another run. */
const onRun = async (visit: Visit, call: ReadCall, id: string): Promise<Answer> => {
  const { wire } = call
  const { request, runs, target } = visit
  if (!/^[\w.:-]{1,128}$/.test(id))
    return answers.badRequest(wire, "The header x-holdfast-run-id is not 1 to 128 letters, digits or any of _ . : -")
  const given = String(request.headers["x-holdfast-offset"] ?? "0")
  if (!/^\d{1,15}$/.test(given))
    return answers.badRequest(wire, "The header x-holdfast-offset is not a number of bytes.")
  const digest = createHash("sha256").update(`${target.path}\n${call.text}`).digest("hex")
  // Leaving does not end it: that is what the id is there for.
  const goesOn = new AbortController().signal
  const name = ownName(visit, id)
  const attached = await runs.attach(name, digest, Number(given), async () => {
    const answer = await askOnce(visit, call, goesOn)
    return wire === "responses"
      ? withResponseId(answer, (response) => runs.name(name, ownName(visit, response)))
      : answer
  })
  switch (attached._tag) {
    case "Answer":
      return attached.answer
    case "Other":
      return answers.runRefused(wire, 409, "The x-holdfast-run-id is that of another request.")
    case "Gone":
      return answers.runRefused(wire, 410, "The bytes at x-holdfast-offset are not kept any more.")
    case "Beyond":
      return answers.runRefused(wire, 416, "The answer ended before x-holdfast-offset.")
  }
}

/** A background response goes on without its client; its stream is a run, so that its own id finds it. */
const goesOnByItself = ({ wire, body }: ReadCall): boolean =>
  wire === "responses" && body["background"] === true && body["stream"] === true

export const onNative = async (visit: Visit, wire: Wire): Promise<Answer> => {
  const found = await read(visit, wire)
  if (found._tag === "Refused") return found.answer
  const id = visit.request.headers["x-holdfast-run-id"]
  if (id !== undefined && id !== "") return onRun(visit, found.call, String(id))
  if (goesOnByItself(found.call)) return onRun(visit, found.call, randomUUID())
  return askOnce(visit, found.call, goneSignal(visit.response))
}
