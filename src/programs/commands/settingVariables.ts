/** Every variable the commands read, once: name, meaning, default. Those of the policy come from its table of words. */
import { policyFieldNames, type PolicyFieldName } from "../../domain/recovery/policyFields.ts"
import { policyWords } from "../../domain/recovery/policyWords.ts"

export interface SettingVariable {
  readonly name: string
  readonly about: string
  /** What holds when it is not set, as words. */
  readonly otherwise: string
}

/** What a request needs, and what to put there. */
export const required = {
  OPENAI_API_KEY: "put the provider's key there",
  OPENAI_MODEL: "name the model to ask",
  OPENAI_FALLBACK_MODEL: "name a second model, or the word none"
} as const
export type RequiredName = keyof typeof required
export const requiredNames = Object.keys(required) as ReadonlyArray<RequiredName>

/** Variables that say something of every route. */
const routeVariables = {
  HOLDFAST_MODEL_MAX_TOKENS: "outputLimit",
  HOLDFAST_CONTEXT_WINDOW: "contextWindow"
} as const

const own: ReadonlyArray<SettingVariable> = [
  { name: "OPENAI_API_KEY", about: "the provider's key; never printed", otherwise: "required" },
  {
    name: "OPENAI_BASE_URL",
    about:
      "an http or https address; anything else is refused, as is one of `.env` while the key comes from elsewhere (`--trust-env-file` allows it)",
    otherwise: "the provider's own"
  },
  { name: "OPENAI_MODEL", about: "the model to ask", otherwise: "required" },
  { name: "OPENAI_FALLBACK_MODEL", about: "a second model, or the word `none`", otherwise: "required" },
  {
    name: "HOLDFAST_PRESET",
    about: "`strict`, `broad`, `unattended` or `background`",
    otherwise: "the command's"
  },
  {
    name: "HOLDFAST_MODEL_MAX_TOKENS",
    about: "output tokens the models can write at most",
    otherwise: "unknown"
  },
  { name: "HOLDFAST_CONTEXT_WINDOW", about: "tokens of prompt and output together", otherwise: "unknown" },
  {
    name: "HOLDFAST_PRICES",
    about: "USD per million tokens by model, input/output[/cached input]: `large=2/10, small=0.1/0.4`",
    otherwise: "the catalogue, if installed"
  }
]

/** A field of the policy that a variable sets. */
export interface PolicyVariable extends SettingVariable {
  readonly field: PolicyFieldName
  readonly kind: "span" | "count"
}

const howWritten = { span: ' ("30 seconds", or milliseconds, or `none`)', count: "" } as const

export const policyVariables: ReadonlyArray<PolicyVariable> = policyFieldNames.flatMap((field) => {
  const { variable, kind, about } = policyWords[field]
  if (variable === null) return []
  return [{ name: variable, about: `${about}${howWritten[kind]}`, otherwise: "the preset's", field, kind }]
})

export const settingVariables: ReadonlyArray<SettingVariable> = [...own, ...policyVariables]

/** Variables the commands read. */
export const variableNames: ReadonlyArray<string> = settingVariables.map((variable) => variable.name)

/** The variable behind a field of the policy, for messages a user of a command can act on. */
export const variableOf = (field: string): string => {
  const last = field.split(".").at(-1)
  const ofRoute = Object.entries(routeVariables).find(([, name]) => name === last)?.[0]
  const ofPolicy = policyVariables.find((variable) => variable.field === last)?.name
  return ofPolicy ?? ofRoute ?? (field.startsWith("routes") ? "OPENAI_FALLBACK_MODEL" : field)
}
