/** A request that has been read and has a route is asked, within its key's budget; or told again what it was just told. */
import { createHash } from "node:crypto"
import type { Json } from "../../../domain/chat/json.ts"
import type { NativeReceipt } from "../../../layers/native/callNative.ts"
import type { RequestFailure } from "../../../services/Recovery.ts"
import { bodyText, type Answer } from "./Answer.ts"
import * as answers from "./answers.ts"
import type { GatewayConfig, GatewayKey, ResolvedRoute } from "./GatewayConfig.ts"
import type { GatewayCall, Wire } from "./GatewayParts.ts"
import type { Use } from "./KeyBudget.ts"
import { onwardFor, type Visit } from "./Visit.ts"

/** A request that has been read and has a route. */
export interface ReadCall {
  readonly wire: Wire
  readonly asked: ResolvedRoute
  readonly text: string
  readonly body: Json
}

/** What is asked of whom; not the body as it is, since agents write a new turn's number into each repetition. */
const digestOf = ({ key, target, request }: Visit, { body }: ReadCall): string => {
  const fallback = request.headers["x-holdfast-fallback"] ?? ""
  const asked = [key?.name ?? "", target.path, fallback, body["model"], body["messages"] ?? body["input"]]
  return createHash("sha256").update(JSON.stringify(asked)).digest("hex")
}

/** A failure that came at once costs little to come by again. */
const worthKeepingMillis = 1_000

/** Recovery has tried for as long as it may: the same request at once would only do it all again. */
const isExhausted = ({ _tag }: RequestFailure, { status }: Answer, began: number): boolean =>
  (_tag === "RecoveryRetriesExhausted" || _tag === "RecoveryDeadlineExceeded") &&
  (status >= 500 || status === 408) &&
  performance.now() - began > worthKeepingMillis

/** Asks; or tells again what the very same request was told a moment ago, when its client does not read what it is told. */
export const askOnce = async (visit: Visit, call: ReadCall, signal: AbortSignal): Promise<Answer> => {
  const { failedLately } = visit
  const told = failedLately.again(() => digestOf(visit, call))
  if (told !== null) return { ...told, lines: [...told.lines, ["x-holdfast-repeated", "true"]] }
  const began = performance.now()
  return askNative(visit, call, signal, (failure, answer) => {
    const body = isExhausted(failure, answer, began) ? bodyText(answer) : null
    if (body !== null) failedLately.keep(digestOf(visit, call), { status: answer.status, lines: answer.lines, body })
  })
}

/** The route that serves a key whose budget in USD is used up; null = none does. */
const cheaperOf = (config: GatewayConfig, key: GatewayKey | null): ResolvedRoute | null => {
  const name = key?.budget?.cheaperRoute
  return name === undefined ? null : (config.routes.get(name) ?? null)
}

/** What a request has used in all its attempts; unknown USD = the price of one of them is not known. */
const useOf = ({ billed, trail }: NativeReceipt): Use => ({
  tokens: (billed.promptTokens ?? 0) + (billed.completionTokens ?? 0),
  usd: trail.reduce<number | null>((sum, { costUsd }) => (sum === null || costUsd === null ? null : sum + costUsd), 0)
})

const askNative = async (
  visit: Visit,
  call: ReadCall,
  signal: AbortSignal,
  onFailed: GatewayCall["onFailed"]
): Promise<Answer> => {
  const { wire, asked, text, body } = call
  const { parts, request, budgets, key, target } = visit
  const admitted = await budgets.admit(key, parts.worstOf(asked, text, body))
  if (admitted._tag === "Away")
    return answers.busy(wire, 1, "The budgets of this gateway cannot be asked; nothing is spent without them.")
  const route = admitted._tag === "Admitted" ? asked : cheaperOf(parts.config, key)
  if (admitted._tag === "Refused" && (route === null || route === asked))
    return answers.overBudget(wire, admitted.limit, admitted.seconds)
  const fallback = request.headers["x-holdfast-fallback"]
  return parts.native({
    wire,
    route: route ?? asked,
    fallback: typeof fallback === "string" && fallback !== "" ? fallback : null,
    key: key?.name ?? null,
    target,
    headers: onwardFor(visit, route),
    text,
    body,
    signal,
    onFailed,
    onEnd: (receipt) => {
      if (admitted._tag === "Admitted") admitted.settle(useOf(receipt))
    }
  })
}
