/** Route health in a memory of its own, instead of the one that is shared by the whole process. */
import * as Layer from "effect/Layer"
import { HealthStore } from "../../services/HealthStore.ts"
import { makeHealthTable, type HealthTableOptions } from "../../services/healthTable.ts"

/** A fresh memory each time the layer is built. */
export const layer = (options: HealthTableOptions = {}): Layer.Layer<never> =>
  Layer.sync(HealthStore, () => makeHealthTable(options))
