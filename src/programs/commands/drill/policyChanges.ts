/**
 * What a fault script may change of the policy: every field of the table but routes and route health, which scripts say
 * in words of their own. Spans are numbers of milliseconds and carry `Ms` in their name.
 */
import * as Schema from "effect/Schema"
import { policyFieldNames, policyFields, type PolicyFieldName } from "../../../domain/recovery/policyFields.ts"
import { policyWords } from "../../../domain/recovery/policyWords.ts"
import type { RecoveryPolicyInput } from "../../../domain/recovery/RecoveryPolicy.ts"

type Fields = typeof policyFields
type Words = typeof policyWords
type ChangeableName = Exclude<PolicyFieldName, "routeHealth">
type NameInScript<Name extends ChangeableName> = Words[Name]["kind"] extends "span" ? `${Name}Ms` : Name

const Millis = Schema.NullOr(Schema.Finite)

type Change<Name extends ChangeableName> = Words[Name]["kind"] extends "span"
  ? typeof Millis
  : Schema.toEncoded<Fields[Name]["codec"]>

type Changes = { readonly [Name in ChangeableName as NameInScript<Name>]: Schema.optionalKey<Change<Name>> }

const names = policyFieldNames.filter((name): name is ChangeableName => name !== "routeHealth")

const nameInScript = (name: ChangeableName): string => (policyWords[name].kind === "span" ? `${name}Ms` : name)

const schemaOf = (name: ChangeableName): Schema.Constraint =>
  policyWords[name].kind === "span" ? Millis : Schema.toEncoded<Schema.Constraint>(policyFields[name].codec)

/** Fields of a script's config. */
export const policyChanges = Object.fromEntries(
  names.map((name) => [nameInScript(name), Schema.optionalKey(schemaOf(name))])
) as unknown as Changes

/** The same under the policy's names. */
export const changesIn = (
  config: Readonly<Record<string, unknown>>
): Partial<Omit<RecoveryPolicyInput, "routes" | "routeHealth">> =>
  Object.fromEntries(
    names.flatMap((name) => {
      const value = config[nameInScript(name)]
      return value === undefined ? [] : [[name, value]]
    })
  )
