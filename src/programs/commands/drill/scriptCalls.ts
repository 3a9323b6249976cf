/** The calls of a scenario, in order or side by side, and what the user does meanwhile. */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { type Message, isMessage } from "../../../domain/chat/Message.ts"
import { ConfigurationError } from "../../../domain/failure/ConfigurationError.ts"
import type { Play } from "./Stage.ts"
import type { Scenario, ScenarioCall } from "./Scenario.ts"
import { type Ended, endOf, stringify } from "./callLine.ts"
import { runCall } from "./runCall.ts"

const messagesOf = (raw: ReadonlyArray<unknown>): ReadonlyArray<Message> =>
  raw.map((value, index) => {
    if (isMessage(value)) return value
    throw new ConfigurationError({ field: `messages[${index}]`, reason: "is not a message" })
  })

/** How the calls ended, and the history at the end; null for calls side by side. */
export interface Calls {
  readonly ended: ReadonlyArray<Ended>
  readonly history: ReadonlyArray<Message> | null
}

const single = Effect.fnUntraced(function* (play: Play, call: ScenarioCall, messages: ReadonlyArray<Message>) {
  const before = stringify(messages)
  return endOf(play, before, yield* runCall(play, call, messages))
})

const sideBySide = (play: Play, parallel: ReadonlyArray<ScenarioCall>) =>
  Effect.map(
    Effect.forEach(parallel, (call) => single(play, call, messagesOf(call.messages ?? [])), {
      concurrency: "unbounded"
    }),
    (ended): Calls => ({ ended, history: null })
  )

type ScriptEntry = NonNullable<Scenario["script"]>[number]

/** The history as the user of a script changes it between calls. */
const edited = (history: ReadonlyArray<Message>, { say, drop }: ScriptEntry): ReadonlyArray<Message> => {
  const said: ReadonlyArray<Message> = say === undefined ? history : [...history, { role: "user", content: say }]
  if (drop === undefined) return said
  const gone = new Set(drop)
  return said.filter((_, index) => !gone.has(index))
}

/** A call takes what it leaves out from the call before, and its history from the one so far. */
const inOrder = Effect.fnUntraced(function* (play: Play) {
  const { scenario } = play
  const ended: Array<Ended> = []
  let history: ReadonlyArray<Message> = []
  let last: ScenarioCall = {}
  const turn = Effect.fnUntraced(function* (messages: ReadonlyArray<Message>) {
    const one = yield* single(play, last, messages)
    history = one.history
    ended.push(one)
  })
  for (const entry of scenario.script ?? [{ call: scenario.request ?? {} }]) {
    history = edited(history, entry)
    if (entry.call === undefined) continue
    const { messages: raw, ...rest } = entry.call
    last = { ...last, ...rest }
    yield* turn(raw === undefined ? history : messagesOf(raw))
  }
  for (const action of scenario.actions?.filter((other) => other.do === "userMessage") ?? []) {
    yield* Effect.sleep(Math.max(0, action.atMs - play.stage.now()))
    yield* turn([...history, { role: "user", content: action.text ?? "" }])
  }
  const calls: Calls = { ended, history }
  return calls
})

export const calls = (play: Play) =>
  play.scenario.parallel === undefined ? inOrder(play) : sideBySide(play, play.scenario.parallel)

/** What the user does while calls run, at its time. */
export const actions = (play: Play): Effect.Effect<void> =>
  Effect.forEach(
    (play.scenario.actions ?? []).filter((action) => action.do !== "userMessage" && action.atMs >= 0),
    (action) =>
      Effect.andThen(
        Effect.sleep(action.atMs),
        Effect.suspend(() =>
          action.do === "interrupt"
            ? Effect.forEach([...play.running], (fiber) => Fiber.interrupt(fiber), { discard: true })
            : Effect.forEach([...play.agent.toolboxes], (toolbox) => toolbox.interrupt(action.id ?? ""), {
                discard: true
              })
        )
      ),
    { concurrency: "unbounded", discard: true }
  )
