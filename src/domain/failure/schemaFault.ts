/** What a schema found wrong, as the path of a field (`routes[0].model`) and a reason, for configuration errors. */
import type * as Schema from "effect/Schema"

export interface SchemaFault {
  /** Empty: the whole. */
  readonly field: string
  readonly reason: string
}

const pathOf = (message: string): string => {
  const at = /at (\[.*\])/.exec(message)?.[1]
  if (at === undefined) return ""
  return at
    .slice(1, -1)
    .split("][")
    .map((part, index) => {
      const name = part.replaceAll('"', "")
      return /^\d+$/.test(name) ? `[${name}]` : index === 0 ? name : `.${name}`
    })
    .join("")
}

/** The first fault of a failed decoding. */
export const schemaFault = ({ message }: Schema.SchemaError): SchemaFault => {
  const first = message.split("\n")[0] ?? ""
  return {
    field: pathOf(message),
    reason: first === "Expected no excess property" ? "is not a field that is known here" : first
  }
}
