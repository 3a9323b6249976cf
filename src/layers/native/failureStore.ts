/**
 * Failures by the Headers object of the Response that told them: an SDK's error holds that very object. What keeps only
 * the values of headers finds its failure by an id among the last ones.
 */
import type { RequestFailure } from "../../services/Recovery.ts"
import { BudgetExceeded } from "../../domain/failure/AgentError.ts"
import { isModelError } from "../../domain/failure/ModelError.ts"
import { isRecoveryError } from "../../domain/failure/RecoveryError.ts"

export const failureHeader = "x-holdfast-failure"

const byHeaders = new WeakMap<object, RequestFailure>()

/** Failures that are remembered by id; the oldest is forgotten first. */
const remembered = 200
const byId = new Map<string, RequestFailure>()

export const remember = (failure: RequestFailure, headers: object | null, id: string): void => {
  if (headers !== null) byHeaders.set(headers, failure)
  byId.set(id, failure)
  for (const oldest of byId.keys()) {
    if (byId.size <= remembered) break
    byId.delete(oldest)
  }
}

const isFailure = (value: unknown): value is RequestFailure =>
  isModelError(value) || isRecoveryError(value) || value instanceof BudgetExceeded

const ofHeaders = (headers: unknown): RequestFailure | null => {
  if (typeof headers !== "object" || headers === null) return null
  const known = byHeaders.get(headers)
  if (known !== undefined) return known
  const id: unknown = headers instanceof Headers ? headers.get(failureHeader) : Reflect.get(headers, failureHeader)
  return typeof id === "string" ? (byId.get(id) ?? null) : null
}

/** Fields in which clients keep the error they wrap. */
const inner = ["cause", "lastError", "error"] as const

/**
 * The typed failure behind an error of an SDK, with its trail and its guidance; null when the error is not one of ours.
 * Looks through the causes that clients wrap around it.
 */
export const failureOf = (error: unknown): RequestFailure | null => {
  const seen = new Set<unknown>()
  const look = (value: unknown): RequestFailure | null => {
    if (typeof value !== "object" || value === null || seen.has(value)) return null
    seen.add(value)
    if (isFailure(value)) return value
    const found = ofHeaders(Reflect.get(value, "headers")) ?? ofHeaders(Reflect.get(value, "responseHeaders"))
    if (found !== null) return found
    for (const field of inner) {
      const below = look(Reflect.get(value, field))
      if (below !== null) return below
    }
    return null
  }
  return look(error)
}
