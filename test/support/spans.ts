/** What whoever traces would see. */
import * as Tracer from "effect/Tracer"

/** A tracer that keeps what an exporter would send. */
export const recorder = () => {
  const spans: Array<Tracer.NativeSpan> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    }
  })
  return { spans, tracer }
}

export const attributesOf = (span: Tracer.NativeSpan | undefined): Record<string, unknown> =>
  Object.fromEntries(span?.attributes ?? [])
