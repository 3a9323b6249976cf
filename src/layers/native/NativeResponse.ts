/**
 * The answer of a native request as data: a head and a body that is whole or comes by and by. A client of `fetch` gets a
 * Response made of it; a server writes it as it is.
 */
import type { ByteSource, HeadLines } from "../../programs/request/ByteSource.ts"
import { streamOf } from "../provider/byteStreams.ts"

export interface NativeResponse {
  readonly status: number
  readonly lines: HeadLines
  /** The upstream that gave it, as its route names it; none = the primary. */
  readonly client?: string | null
  readonly body: Uint8Array | string | ByteSource
}

export const isSource = (body: NativeResponse["body"]): body is ByteSource => typeof body === "object" && "take" in body

export const toResponse = ({ status, lines, body }: NativeResponse): Response => {
  const headers = lines.map(([name, value]): [string, string] => [name, value])
  // A copy: the bytes may be a view of a pool that holds other answers.
  const content = isSource(body) ? streamOf(body) : typeof body === "string" ? body : new Uint8Array(body)
  return new Response(content, { status, headers })
}
