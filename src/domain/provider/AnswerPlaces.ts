/**
 * Where an answer says what failed: codes and types at fixed places, flat, one level deeper, or in a cause that a relay
 * hands on. Read in order of authority: the profile's own places first. Places of prose are not among them.
 */
import { isObject } from "../chat/json.ts"
import type { Pointer, ProviderProfile } from "./ProviderProfile.ts"

export interface Answer {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** Parsed JSON, or the raw text when it is not JSON. */
  readonly body: unknown
}

const steps = new Map<Pointer, ReadonlyArray<string>>()

/** The steps of a place. Places are constants of the code and of profiles: there are few. */
const stepsOf = (pointer: Pointer): ReadonlyArray<string> => {
  const known = steps.get(pointer)
  if (known !== undefined) return known
  const made = pointer.split("/").slice(1)
  if (steps.size < 1_000) steps.set(pointer, made)
  return made
}

const below = (value: unknown, key: string): unknown => {
  if (Array.isArray(value)) return value[Number(key)]
  return isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined
}

/** All values at a place of a body; `*` stands for every element of an array. */
export const valuesAt = (body: unknown, pointer: Pointer): ReadonlyArray<unknown> => {
  let values: ReadonlyArray<unknown> = [body]
  for (const key of stepsOf(pointer))
    values = values.flatMap((value): ReadonlyArray<unknown> =>
      key === "*" && Array.isArray(value) ? value : [below(value, key)]
    )
  return values.filter((value) => value !== undefined)
}

const followed = (body: unknown, keys: ReadonlyArray<string>, pointer: Pointer): unknown => {
  let value: unknown = body
  for (const key of keys) {
    if (key === "*") return valuesAt(body, pointer)[0]
    value = below(value, key)
    if (value === undefined) return undefined
  }
  return value
}

/** The first value at a place of a body; undefined when there is none. */
export const valueAt = (body: unknown, pointer: Pointer): unknown => followed(body, stepsOf(pointer), pointer)

/** The same for a place that is looked at in every event of a stream. */
export const readerAt = (pointer: Pointer): ((body: unknown) => unknown) => {
  const keys = stepsOf(pointer)
  return (body) => followed(body, keys, pointer)
}

/** Values at a place of an answer, which may be a header. */
export const readAt = (answer: Answer, body: unknown, place: Pointer): ReadonlyArray<unknown> => {
  if (!place.startsWith("header:")) return valuesAt(body, place)
  const value = answer.headers[place.slice("header:".length)]
  return value === undefined ? [] : [value.split(":")[0]]
}

export type Code = string | number

export const isCode = (value: unknown): value is Code => typeof value === "string" || typeof value === "number"

/** Codes and types, flat or one level deeper, in order of authority. */
const outerPlaces: ReadonlyArray<Pointer> = [
  "/error/code",
  "/error/type",
  "/error/error/code",
  "/error/error/type",
  // The event with which a response reports that it failed.
  "/response/error/code",
  "/response/error/type",
  "/code",
  "/type",
  "/detail/code",
  "/detail/error/code",
  "/detail/error/type"
]

/** The cause that a provider, or a relay in front of it, puts inside its own error. */
const causePlaces: ReadonlyArray<Pointer> = [
  "/error/details/error_code",
  "/error/details/code",
  "/error/innererror/code",
  "/error/inner_error/code",
  "/error/provider_specific_fields/code",
  "/error/provider_specific_fields/type",
  "/error/provider_specific_fields/error_code",
  "/error/provider_specific_fields/error/code",
  "/error/provider_specific_fields/error/type",
  "/error/provider_specific_fields/innererror/code"
]

/** Deeper causes that count inside a 200 only, where no status speaks for the answer. */
const deepPlaces: ReadonlyArray<Pointer> = [
  "/error/metadata/error_type",
  "/error/metadata/provider_code",
  "/error/metadata/code",
  "/error/metadata/type",
  "/error/metadata/raw/error/code",
  "/error/metadata/raw/error/type",
  "/error/metadata/raw/code",
  "/error/metadata/raw/type",
  "/error/details/*/reason",
  "/error/*/code",
  "/error/*/type",
  "/errors/*/code",
  "/errors/*/type",
  "/errors/code",
  "/errors/type",
  "/error_code",
  "/errorCode",
  "/errcode",
  "/error_type",
  "/__type",
  "/detail/type",
  "/detail/*/code",
  "/fault/detail/errorcode",
  "/fault/code"
]

/** Numbers beside a code that repeat the status an answer would have had. Read inside a 200 only. */
const statusPlaces: ReadonlyArray<Pointer> = [
  "/error/status",
  "/error/status_code",
  "/error/statusCode",
  "/error/http_status",
  "/error/http_status_code",
  "/error/http_code",
  "/error/error/status",
  "/error/error/status_code",
  "/response/error/status",
  "/response/error/status_code",
  "/status",
  "/status_code",
  "/statusCode",
  "/StatusCode",
  "/raw_status_code",
  "/http_status",
  "/http_code",
  "/detail/status",
  "/detail/status_code",
  "/errors/*/status",
  "/errors/*/status_code"
]

/** An array body holds its error in the first element. */
export const unwrap = (body: unknown): unknown => (Array.isArray(body) ? body[0] : body)

/** A code and whether it stands where a code stands, not where a type does. */
export interface Found {
  readonly code: Code
  readonly isType: boolean
}

/** Names of services in front of a name do not count: `com.amazon.coral.service#UnknownOperationException`. */
const withoutService = (code: Code): Code =>
  typeof code === "string" && code.includes("#") ? code.slice(code.lastIndexOf("#") + 1) : code

/** All codes of an answer, in order of authority. */
export const codesOf = (profile: ProviderProfile, answer: Answer, body: unknown): ReadonlyArray<Found> => {
  const deep = answer.status === 200 ? deepPlaces : []
  return [...profile.codeAt, ...outerPlaces, ...causePlaces, ...deep, "/error/status"].flatMap((place) =>
    readAt(answer, body, place)
      .filter(isCode)
      .map((code) => ({ code: withoutService(code), isType: place.endsWith("type") }))
  )
}

/** The statuses an error inside a 200 names. An error that is a text is prose, one that is a number a status. */
export const innerStatuses = (body: unknown): ReadonlyArray<Code> => [
  ...valuesAt(body, "/error").filter((value) => typeof value === "number"),
  ...statusPlaces.flatMap((place) => valuesAt(body, place)).filter(isCode)
]
