/**
 * The API's own SDK under `holdfast(client)`, asked as a program would ask it: a body in the API's form goes in, what the
 * SDK gives back is read. For a drill it stands where Recovery stands, so that everything around it is the same.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import type { Json } from "../../../../domain/chat/json.ts"
import type { ModelReply } from "../../../../domain/chat/ModelReply.ts"
import type { ModelRequest, WireRequest } from "../../../../domain/chat/ModelRequest.ts"
import type { CacheTtl } from "../../../../domain/chat/PromptCache.ts"
import type { ReplyPart } from "../../../../domain/chat/ReplyPart.ts"
import type { BudgetParam, ProviderProfile } from "../../../../domain/provider/ProviderProfile.ts"
import { forBackground, RecoveryPolicy, type RecoveryPolicyInput } from "../../../../domain/recovery/RecoveryPolicy.ts"
import { toBody as toMessages } from "../../../../domain/wires/anthropicWire.ts"
import { chatNative } from "../../../../domain/wires/native/chatNative.ts"
import { messagesNative } from "../../../../domain/wires/native/messagesNative.ts"
import type { NativeWire } from "../../../../domain/wires/native/NativeWire.ts"
import { responsesNative } from "../../../../domain/wires/native/responsesNative.ts"
import { budgetParamOf, toBody as toChat } from "../../../../domain/wires/openAiWire.ts"
import { toBody as toResponses } from "../../../../domain/wires/responsesWire.ts"
import * as HealthMemory from "../../../../layers/stores/HealthMemory.ts"
import { failureOf } from "../../../../layers/native/failureStore.ts"
import { holdfast } from "../../../../layers/native/holdfast.ts"
import type { NativeReceipt } from "../../../../layers/native/callNative.ts"
import { messages } from "../../../../layers/provider/AnthropicCalls.ts"
import type { ClientCall, ClientOptions, OnText } from "../../../../layers/provider/ClientCall.ts"
import { chat, responses } from "../../../../layers/provider/OpenAiCalls.ts"
import type { Fetch } from "../../../../layers/provider/undiciFetch.ts"
import { defaultInstructions } from "../../../../layers/ModelSummarizer.ts"
import { PromptCacheTtl } from "../../../../services/PromptCacheTtl.ts"
import { HealthStore } from "../../../../services/HealthStore.ts"
import { Recovery, type ModelRequestExecutor, type RequestFailure } from "../../../../services/Recovery.ts"
import { changesOf } from "../drillPolicy.ts"
import type { Play } from "../Stage.ts"
import { timed } from "../ResultLine.ts"
import type { Adapter } from "../Scenario.ts"
import { roleHeader } from "../ScriptBook.ts"

export interface ClientSettings {
  readonly policy: RecoveryPolicyInput
  readonly profile: ProviderProfile
  readonly apiKey: string
  readonly baseUrl: string | null
}

/** What a program has settled before it writes a body. */
interface Around {
  readonly profile: ProviderProfile
  readonly streams: boolean
  readonly cacheTtl: CacheTtl | null
  /** The name of the budget for a model, where the script gives it one of its own. */
  readonly budgetParam: (model: string) => BudgetParam
}

interface Api {
  readonly wire: NativeWire
  readonly bodyOf: (request: WireRequest, around: Around) => Json
  readonly ask: ClientCall
}

const apis: { readonly [A in Adapter]: Api } = {
  openai: {
    wire: chatNative,
    bodyOf: (request, { profile, streams, budgetParam }) =>
      toChat(request, profile, budgetParam(request.model), streams),
    ask: chat
  },
  responses: {
    wire: responsesNative,
    bodyOf: (request, { profile, streams }) => toResponses(request, profile, streams),
    ask: responses
  },
  anthropic: {
    wire: messagesNative,
    bodyOf: (request, { profile, streams, cacheTtl }) => toMessages(request, profile, cacheTtl, streams),
    ask: messages
  }
}

/** A summary is asked for through the caller's own client: only its words tell it apart. */
const asked =
  (fetch: Fetch): Fetch =>
  (input, init) => {
    const isSummary =
      typeof init?.body === "string" && init.body.includes(JSON.stringify(defaultInstructions).slice(1, -1))
    if (!isSummary) return fetch(input, init)
    const headers = new Headers(init.headers)
    headers.set(roleHeader, "summarizer")
    return fetch(input, { ...init, headers })
  }

const addressOf = (adapter: Adapter, settings: ClientSettings, play: Play): string =>
  settings.baseUrl ?? String(play.stage.client.baseUrl ?? `http://drill.invalid${adapter === "anthropic" ? "" : "/v1"}`)

/** One call of the program, from its request to what it gets. */
const callOf = (play: Play, settings: ClientSettings, health: (typeof HealthStore)["Service"]) => {
  const { scenario, stage } = play
  const adapter = scenario.adapter ?? "openai"
  const api = apis[adapter]
  const given = new RecoveryPolicy(settings.policy)
  const background = new RecoveryPolicy({ ...forBackground(given), ...changesOf(scenario.config ?? {}) })
  const fetch = asked(stage.client.fetch ?? globalThis.fetch)

  return (request: ModelRequest, onText: OnText | null): Effect.Effect<ModelReply, RequestFailure> =>
    Effect.gen(function* () {
      const around = yield* Effect.context<never>()
      const isBackground = request.priority === "background"
      const policy = isBackground ? background : given
      const role = isBackground ? "background" : "main"
      const [{ model }] = policy.routes
      // The budget of a policy is a habit of this client; a cap of the call is the caller's own.
      const maxOutputTokens = request.maxOutputTokens ?? policy.initialMaxTokens
      const { profile } = settings
      const body = api.bodyOf(
        { ...request, model, maxOutputTokens, role },
        {
          profile,
          streams: onText !== null,
          cacheTtl: profile.capabilities.cacheMarkers ? yield* PromptCacheTtl : null,
          budgetParam: (name) => scenario.config?.budgetParam?.[name] ?? budgetParamOf(profile, name)
        }
      )
      const receipts: Array<NativeReceipt> = []
      const options: ClientOptions = {
        apiKey: settings.apiKey,
        baseURL: addressOf(adapter, settings, play),
        fetch,
        defaultHeaders: { ...scenario.config?.headers, [roleHeader]: role },
        wrap: (client) =>
          holdfast(client, policy, {
            fetch,
            profile,
            truncation: request.maxOutputTokens === undefined ? "always" : "uncapped",
            context: Context.add(around, HealthStore, health),
            onEvent: (event) => play.events.push(timed(event, stage.now())),
            onEnd: (receipt) => receipts.push(receipt)
          })
      }
      const answer = yield* Effect.tryPromise({
        try: (signal) => api.ask(options, body, signal, onText),
        catch: (cause) => ({ cause, failure: failureOf(cause) })
      }).pipe(Effect.catch(({ cause, failure }) => (failure === null ? Effect.die(cause) : Effect.fail(failure))))
      const served = receipts.at(-1)?.trail.at(-1)?.model ?? model
      const context = { profile, model: served, requestId: null }
      const read = api.wire.readBody(context, JSON.stringify(answer), {})
      // What the API's reply has no place for is told when the request has ended.
      const warnings = receipts.at(-1)?.reply?.warnings ?? []
      return Result.isSuccess(read)
        ? { ...read.success, warnings }
        : yield* Effect.die(new Error(`what the SDK gave back is no reply: ${JSON.stringify(read.failure)}`))
    })
}

const partsOf = (reply: ModelReply): ReadonlyArray<ReplyPart> => [
  ...reply.toolCalls.map(({ id, name, arguments: args }) => ({
    _tag: "ToolCallReady" as const,
    id,
    name,
    arguments: args
  })),
  { _tag: "Finish", reply }
]

export const clientRecovery = (play: Play, settings: ClientSettings): (typeof Recovery)["Service"] => {
  const call = callOf(play, settings, HealthMemory.make())
  const executor: ModelRequestExecutor = {
    complete: (request) => call(request, null),
    stream: (request) =>
      Stream.callback<ReplyPart, RequestFailure>((out) =>
        call(request, (text) => Queue.offerUnsafe(out, { _tag: "TextDelta", text })).pipe(
          Effect.tap((reply) => Queue.offerAll(out, partsOf(reply))),
          Effect.matchCauseEffect({
            onFailure: (cause) => Queue.failCause(out, cause),
            onSuccess: () => Queue.end(out)
          })
        )
      ),
    // A client knows no turns: each of its calls is its own.
    turn: (body) => body
  }
  return Recovery.of(executor as (typeof Recovery)["Service"])
}
