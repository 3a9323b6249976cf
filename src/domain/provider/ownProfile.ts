/** Profiles a caller writes: checked before the first request, since no test of ours has seen them. */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { ConfigurationError } from "../failure/ConfigurationError.ts"
import { inBandStatus, isLegal, type FaultKind } from "../failure/FaultKind.ts"
import { makeProfile as complete, ProviderProfile, type ProfileParts } from "./ProviderProfile.ts"
import { schemaFault } from "../failure/schemaFault.ts"

const decode = Schema.decodeUnknownResult(ProviderProfile, { onExcessProperty: "error" })

const checkMeaning = (field: string, status: number, kind: FaultKind): void => {
  if (!isLegal(kind, status))
    throw new ConfigurationError({
      field,
      reason: `says that HTTP ${status} means ${kind}, which that status never does`
    })
}

/** The profile itself. What is wrong with it is a ConfigurationError that names the field: `profile.rows[0].kind`. */
export const checkedProfile = (profile: ProviderProfile): ProviderProfile => {
  const decoded = decode(profile)
  if (Result.isFailure(decoded)) {
    const { field, reason } = schemaFault(decoded.failure)
    throw new ConfigurationError({ field: field === "" ? "profile" : `profile.${field}`, reason })
  }
  for (const [index, row] of profile.rows.entries())
    if (row.status !== null) checkMeaning(`profile.rows[${index}]`, row.status, row.kind)
  for (const [status, kind] of Object.entries(profile.statuses))
    checkMeaning(`profile.statuses.${status}`, Number(status), kind)
  for (const [reason, kind] of Object.entries(profile.finishFaults))
    checkMeaning(`profile.finishFaults.${reason}`, inBandStatus, kind)
  return profile
}

/** A profile from the parts that differ from plain OpenAI compatibility. A bad one is a ConfigurationError. */
export const makeProfile = (parts: ProfileParts): ProviderProfile => checkedProfile(complete(parts))
