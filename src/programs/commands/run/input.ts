/** What `holdfast run` is told on its command line. */
import * as Effect from "effect/Effect"
import { Flag } from "effect/cli"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"

export const flags = {
  prompt: Flag.String("prompt").pipe(Flag.withDescription("what the agent is to do"), Flag.optional),
  dir: Flag.String("dir").pipe(Flag.withDescription("folder it works in"), Flag.withDefault(".")),
  allow: Flag.Boolean("allow").pipe(
    Flag.withDescription("also let it write, edit and run shell commands"),
    Flag.withDefault(false)
  ),
  unattended: Flag.Boolean("unattended").pipe(
    Flag.withDescription("wait as long as it takes: the preset unattended"),
    Flag.withDefault(false)
  ),
  resume: Flag.Boolean("resume").pipe(
    Flag.withDescription("go on with the newest turn; with a prompt: say it after that turn"),
    Flag.withDefault(false)
  ),
  turn: Flag.String("turn").pipe(Flag.withDescription("with --resume: go on with this turn"), Flag.optional),
  journal: Flag.String("journal").pipe(
    Flag.withDescription("where turns are kept; default: .holdfast/turns.db in the folder"),
    Flag.optional
  ),
  session: Flag.String("session").pipe(
    Flag.withDescription("save the history in this file of JSON instead of the journal"),
    Flag.optional
  ),
  model: Flag.String("model").pipe(Flag.withDescription("model to ask; wins over OPENAI_MODEL"), Flag.optional),
  maxSteps: Flag.Int("max-steps").pipe(Flag.withDescription("model rounds, default 15"), Flag.withDefault(15)),
  maxTokens: Flag.Int("max-tokens").pipe(
    Flag.withDescription("tokens the session may spend, prompt and output together"),
    Flag.optional
  ),
  maxUsd: Flag.Finite("max-usd").pipe(
    Flag.withDescription("USD the session may spend; every model needs a known price"),
    Flag.optional
  ),
  provider: Flag.Literals("provider", ["openai", "embedded"]).pipe(
    Flag.withDescription("embedded: a scripted local provider, no key needed"),
    Flag.withDefault("openai")
  ),
  api: Flag.Literals("api", ["chat", "responses"]).pipe(
    Flag.withDescription("which of OpenAI's APIs is spoken; every compatible server has chat"),
    Flag.withDefault("chat")
  ),
  scenario: Flag.String("scenario").pipe(
    Flag.withDescription("what goes wrong with the embedded provider: calm, rate-limit, overload, cut, ..."),
    Flag.withDefault("calm")
  ),
  trustEnvFile: Flag.Boolean("trust-env-file").pipe(
    Flag.withDescription("send the key of the environment to the address of the folder's .env"),
    Flag.withDefault(false)
  ),
  json: Flag.Boolean("json").pipe(Flag.withDescription("one JSON line per event"), Flag.withDefault(false))
}

type Given<A> = { readonly _tag: "Some"; readonly value: A } | { readonly _tag: "None" }

export interface Flags {
  readonly prompt: Given<string>
  readonly dir: string
  readonly allow: boolean
  readonly unattended: boolean
  readonly resume: boolean
  readonly turn: Given<string>
  readonly journal: Given<string>
  readonly session: Given<string>
  readonly model: Given<string>
  readonly maxSteps: number
  readonly maxTokens: Given<number>
  readonly maxUsd: Given<number>
  readonly provider: "openai" | "embedded"
  readonly api: "chat" | "responses"
  readonly scenario: string
  readonly trustEnvFile: boolean
  readonly json: boolean
}

/** The flags, checked; null = not given. */
export interface Input extends Omit<
  Flags,
  "prompt" | "turn" | "journal" | "session" | "model" | "maxTokens" | "maxUsd"
> {
  readonly prompt: string | null
  readonly turn: string | null
  readonly journal: string | null
  readonly session: string | null
  readonly model: string | null
  readonly maxTokens: number | null
  readonly maxUsd: number | null
}

const valueOf = <A>(given: Given<A>): A | null => (given._tag === "Some" ? given.value : null)

const bad = (field: string, reason: string): ConfigurationError => new ConfigurationError({ field, reason })

export const checkedInput = (given: Flags): Effect.Effect<Input, ConfigurationError> => {
  const prompt = valueOf(given.prompt)?.trim() ?? null
  const maxTokens = valueOf(given.maxTokens)
  const maxUsd = valueOf(given.maxUsd)
  const turn = valueOf(given.turn)
  const journal = valueOf(given.journal)
  const session = valueOf(given.session)
  if (prompt === "" || (prompt === null && !given.resume))
    return Effect.fail(bad("--prompt", "says what to do; only --resume goes without"))
  if (given.maxSteps < 1) return Effect.fail(bad("--max-steps", "must be 1 or more"))
  if (maxTokens !== null && maxTokens < 1) return Effect.fail(bad("--max-tokens", "must be 1 or more"))
  if (maxUsd !== null && maxUsd <= 0) return Effect.fail(bad("--max-usd", "must be more than 0"))
  if (turn !== null && !given.resume) return Effect.fail(bad("--turn", "names the turn that --resume goes on with"))
  if (session !== null && (turn !== null || journal !== null))
    return Effect.fail(bad("--session", "is a file of JSON: it has no turns, and no journal beside it"))
  return Effect.succeed({
    ...given,
    prompt,
    turn,
    journal,
    session,
    model: valueOf(given.model),
    maxTokens,
    maxUsd
  })
}
