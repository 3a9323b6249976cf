/** Who stands before the wall: each takes a provider's address and says where its requests go. */
import type { AskOptions } from "./client.ts"

export interface Started {
  /** Where a request for a model goes, with what tells the subject of the fallback. */
  readonly target: (model: string, fallback: string) => Omit<AskOptions, "wire">
  readonly close: () => Promise<void>
}

export interface Subject {
  readonly name: string
  /** Shown for comparison: its verdicts change no exit code. */
  readonly isReference: boolean
  readonly start: (setting: { readonly provider: string; readonly unit: number }) => Promise<Started>
}

/** No recovery at all: what the faults do to a client that asks once. */
const bare: Subject = {
  name: "bare",
  isReference: true,
  start: ({ provider }) =>
    Promise.resolve({
      target: (model) => ({ baseUrl: provider, model }),
      close: () => Promise.resolve()
    })
}

export const startSubjects = (): ReadonlyArray<Subject> => [bare]
