/** Answers of the gateway: a provider's, passed on as they came, and its own. */
import { isSource, type NativeResponse } from "../../../layers/native/NativeResponse.ts"
import { sourceOf } from "../../../layers/provider/byteStreams.ts"

export type Answer = NativeResponse
export { isSource }

/** One JSON answer of the gateway's own. */
export const jsonAnswer = (status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Answer => ({
  status,
  lines: [["content-type", "application/json"], ...Object.entries(headers)],
  body: JSON.stringify(body)
})

export const textAnswer = (status: number, body: string, headers: Readonly<Record<string, string>>): Answer => ({
  status,
  lines: Object.entries(headers),
  body
})

export const answerOf = (response: Response): Answer => ({
  status: response.status,
  lines: [...response.headers],
  body: response.body === null ? "" : sourceOf(response.body)
})

/** All of a body as text, of an answer that is known to be small. */
export const bodyText = ({ body }: Answer): string | null =>
  typeof body === "string" ? body : isSource(body) ? null : Buffer.from(body).toString("utf8")
