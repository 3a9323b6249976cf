/**
 * The ways into the library that a fault script can be played through: three APIs, each as a whole reply, as a stream, and
 * under the API's own client.
 */
import type { Adapter } from "../Scenario.ts"

/** `client`: the API's own SDK, wrapped by `holdfast(client)`. */
export type Surface = "complete" | "stream" | "client"

export interface Door {
  readonly name: string
  readonly surface: Surface
  readonly adapter: Adapter
}

const apis: ReadonlyArray<readonly [Adapter, string]> = [
  ["openai", "chat"],
  ["responses", "responses"],
  ["anthropic", "messages"]
]

const surfaces: ReadonlyArray<Surface> = ["complete", "stream", "client"]

export const doors: ReadonlyArray<Door> = surfaces.flatMap((surface) =>
  apis.map(([adapter, api]): Door => ({ name: `${surface} ${api}`, surface, adapter }))
)
