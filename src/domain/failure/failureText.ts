/** How a failure is printed: what happened, what to do, and every request that was tried. Never a text of the conversation. */
import type { Trail, TrailEntry } from "./Trail.ts"
import { routeText, spanText, tableLines } from "./wording.ts"

/** What any failure of the library may say of itself. */
export interface Printed {
  readonly _tag: string
  readonly message: string
  readonly guidance?: string
  readonly providerRequestId?: string | null
  readonly trail?: Trail
}

/** When it began, and what it was and came to. */
const entryRow = (entry: TrailEntry): ReadonlyArray<string> => {
  const name = entry.attempt === null ? entry.role : `#${entry.attempt}`
  const status = entry.status === null ? "" : ` HTTP ${entry.status}`
  const code = entry.code === null ? "" : ` ${entry.code}`
  const id = entry.providerRequestId === null ? "" : ` (request id ${entry.providerRequestId})`
  const wait = entry.waitMs === null ? "" : `, then waited ${spanText(entry.waitMs)} (${entry.waitOrigin})`
  const route = routeText(entry.model, entry.client)
  const budget = entry.maxOutputTokens === null ? "" : `, budget ${entry.maxOutputTokens}`
  return [spanText(entry.startedMs), `${name} ${route}${budget}: ${entry.outcome}${status}${code}${id}${wait}`]
}

/** The requests of a trail, a line each. */
export const trailLines = (trail: Trail): ReadonlyArray<string> =>
  tableLines(trail.map(entryRow), (column) => column === 0).map((line) => `  ${line}`)

const trailText = (trail: Trail): ReadonlyArray<string> =>
  trail.length === 0 ? [] : ["What was tried:", ...trailLines(trail)]

/** `words`: further lines, between what to do and what was tried. */
export const failureText = (failure: Printed, words: ReadonlyArray<string> = []): string => {
  const { guidance, providerRequestId = null, trail = [] } = failure
  return [
    `${failure._tag}: ${failure.message}`,
    ...(guidance === undefined ? [] : [guidance]),
    // The trail says it of each request.
    ...(providerRequestId === null || trail.length > 0 ? [] : [`Request id: ${providerRequestId}`]),
    ...words,
    ...trailText(trail)
  ].join("\n")
}

/** What `console.log` asks a value for; the name is Node's and known without importing it. */
const inspected = Symbol.for("nodejs.util.inspect.custom")

/** Lets `console.log` print failures of these classes as `failureText` does, in place of their bare fields. */
export const printAsText = (classes: Iterable<{ readonly prototype: Printed }>): void => {
  for (const { prototype } of classes)
    Object.defineProperty(prototype, inspected, {
      configurable: true,
      writable: true,
      value(this: Printed): string {
        return failureText(this)
      }
    })
}
