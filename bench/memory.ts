/** holdfast's own work: CPU per healthy call over a client that answers from memory. */
import * as Effect from "effect/Effect"
import { RecoveryPolicy } from "../src/domain/recovery/RecoveryPolicy.ts"
import { makeReply } from "../src/layers/ScriptedModel.ts"
import { ModelClient } from "../src/services/ModelClient.ts"
import * as Stream from "effect/Stream"
import { compare, medianOf, type Row, type Table } from "./measure.ts"
import { messages, model, recoveryOver } from "./subjects.ts"

export const memory = async (): Promise<Table> => {
  const reply = makeReply({ text: "At noon.", model })
  const client = ModelClient.of({ generate: () => Effect.succeed(reply), stream: () => Stream.empty })
  const strict = await recoveryOver(client, RecoveryPolicy.strict)
  const broad = await recoveryOver(client, RecoveryPolicy.broad)
  const inFiber = (call: Effect.Effect<unknown, unknown>) => (count: number) =>
    Effect.runPromise(Effect.replicateEffect(call, count, { discard: true }))
  const wire = { messages, model, maxOutputTokens: 8_000, role: "main" as const }
  const rows: ReadonlyArray<Row> = [
    { name: "the client alone", run: inFiber(Effect.suspend(() => client.generate(wire))) },
    { name: "holdfast strict", run: inFiber(Effect.suspend(() => strict.complete({ messages }))) },
    { name: "holdfast broad", run: inFiber(Effect.suspend(() => broad.complete({ messages }))) }
  ]
  const figures = await compare(rows, { rounds: 15, count: 8_000, warmUp: 16_000 })
  const own = (name: string): number => medianOf(figures, name) - medianOf(figures, "the client alone")
  return {
    title: "A healthy call in memory",
    unit: "microseconds of CPU per call",
    figures,
    base: "holdfast strict",
    targets: [
      { name: "own work, strict, microseconds", value: own("holdfast strict"), limit: 15 },
      { name: "own work, broad, microseconds", value: own("holdfast broad"), limit: 15 }
    ]
  }
}
