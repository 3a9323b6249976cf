/** Tools as values, and the Toolbox over them. */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import { ConfigurationError } from "../domain/failure/ConfigurationError.ts"
import { isJournalFailure } from "../domain/agent/JournalError.ts"
import * as ToolResult from "../domain/agent/ToolResult.ts"
import type { Tool } from "../programs/agent/tool.ts"
import { Toolbox, type ToolboxShape } from "../services/Toolbox.ts"

export { fromJsonSchema, tool, type RunOptions, type Tool } from "../programs/agent/tool.ts"

/** The time-out of a tool; private to this file. */
class TimedOut {
  readonly _tag = "TimedOut"
}

const textOf = (error: unknown): string =>
  error instanceof Error ? error.message || error.name : typeof error === "string" ? error : "an unknown failure"

const tagOf = (error: unknown): string => {
  if (typeof error === "object" && error !== null && "_tag" in error && typeof error._tag === "string")
    return error._tag
  return error instanceof Error ? error.name : typeof error
}

const resultOf = (exit: Exit.Exit<unknown, unknown>, timeoutMillis: number | null): ToolResult.ToolResult => {
  if (Exit.isSuccess(exit)) return ToolResult.given(exit.value)
  const found = Cause.findErrorOption(exit.cause)
  if (found._tag === "Some")
    return found.value instanceof TimedOut
      ? ToolResult.timedOut(timeoutMillis ?? 0)
      : ToolResult.failed(tagOf(found.value), textOf(found.value))
  return Cause.hasInterruptsOnly(exit.cause)
    ? ToolResult.interrupted
    : ToolResult.failed("Defect", textOf(Cause.squash(exit.cause)))
}

/** Tools that are not known are harmless: the call becomes a result at once. */
const unknownTraits: ToolResult.ToolTraits = { parallel: true, polling: false, repeat: "safe" }

/** The toolbox as a value. Two tools of one name are a ConfigurationError. */
export const make = <R>(tools: ReadonlyArray<Tool<R>>): Effect.Effect<ToolboxShape, ConfigurationError, R> =>
  Effect.gen(function* () {
    const byName = new Map<string, Tool<R>>()
    for (const one of tools) {
      const { name } = one.spec.function
      if (byName.has(name))
        return yield* new ConfigurationError({ field: `tools.${name}`, reason: "stands there twice" })
      byName.set(name, one)
    }
    const services = yield* Effect.context<R>()
    // Invariant: holds exactly the calls whose handler is running now.
    const running = new Map<string, Fiber.Fiber<unknown, unknown>>()

    const execute = Effect.fnUntraced(function* (
      one: Tool<R>,
      call: ToolResult.KeyedCall,
      work: Effect.Effect<unknown, unknown, R>
    ) {
      // What is fiber-local at the call (budget, turn, overrides) wins over what was there when the layer was built.
      const local = yield* Effect.context<never>()
      const { timeoutMillis } = one
      const provided = Effect.provideContext(work, Context.merge(services, local))
      const fiber = yield* Effect.forkChild(
        timeoutMillis === null
          ? provided
          : Effect.timeoutOrElse(provided, { duration: timeoutMillis, orElse: () => Effect.fail(new TimedOut()) })
      )
      running.set(call.id, fiber)
      const exit = yield* Effect.onExit(Fiber.await(fiber), () =>
        Effect.suspend(() => {
          if (running.get(call.id) === fiber) running.delete(call.id)
          return Fiber.interrupt(fiber)
        })
      )
      // A nested agent that is parked or cancelled has no result: the turn it is part of ends with it.
      const defect = Exit.isFailure(exit) ? exit.cause.reasons.find((reason) => reason._tag === "Die")?.defect : null
      if (isJournalFailure(defect)) return yield* Effect.die(defect)
      return resultOf(exit, timeoutMillis)
    })

    const settle = (one: Tool<R>, call: ToolResult.KeyedCall): Effect.Effect<ToolResult.ToolResult | null> =>
      one.settle === undefined || call.key === undefined
        ? Effect.succeed(ToolResult.inDoubt)
        : Effect.map(Effect.exit(Effect.provideContext(one.settle(call.key), services)), (exit) =>
            Exit.isFailure(exit)
              ? ToolResult.inDoubt
              : exit.value === null || exit.value === undefined
                ? null
                : ToolResult.given(exit.value)
          )

    return {
      specs: Effect.succeed(tools.map((one) => one.spec)),
      traits: (name) => byName.get(name)?.traits ?? unknownTraits,
      run: (call) =>
        Effect.suspend(() => {
          const one = byName.get(call.name)
          if (one === undefined) return Effect.succeed(ToolResult.unknownTool(call.name, [...byName.keys()]))
          const begun = one.begin(call)
          return Result.isFailure(begun)
            ? Effect.succeed(ToolResult.invalidArguments(call.name, begun.failure))
            : execute(one, call, begun.success)
        }),
      settle: (call) =>
        Effect.suspend(() => {
          const one = byName.get(call.name)
          return one === undefined ? Effect.succeed(ToolResult.inDoubt) : settle(one, call)
        }),
      interrupt: (callId) =>
        Effect.suspend(() => {
          const fiber = running.get(callId)
          return fiber === undefined ? Effect.succeed(false) : Effect.as(Fiber.interrupt(fiber), true)
        })
    }
  })

/** Services the handlers need are taken when the layer is built. */
export const layer = <R>(tools: ReadonlyArray<Tool<R>>): Layer.Layer<Toolbox, ConfigurationError, R> =>
  Layer.effect(Toolbox, Effect.map(make(tools), Toolbox.of))
