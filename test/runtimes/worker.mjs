/** The program for a worker: the provider's address is in the query of the request. */
import { perform } from "./program.mjs"

export default {
  fetch: async (request) => {
    const origin = new URL(request.url).searchParams.get("origin") ?? ""
    return new Response(await perform(origin).catch((cause) => `failed: ${String(cause)}`))
  }
}
