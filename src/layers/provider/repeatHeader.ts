/** What tells a provider that a request may be one it has had before. */
import type { WireRequest } from "../../domain/chat/ModelRequest.ts"

/** As long as providers take it; the end is what differs. */
const maxLength = 200

export const repeatHeader = ({ idempotencyKey }: WireRequest): Readonly<Record<string, string>> =>
  idempotencyKey === undefined
    ? {}
    : { "Idempotency-Key": encodeURIComponent(idempotencyKey.toWellFormed()).slice(-maxLength) }
