/** A streaming handler: what the model says goes on as it comes; a client that leaves ends the model call. */
import { serve } from "@hono/node-server"
import { Hono } from "hono"
import { streamText } from "hono/streaming"
import { make } from "holdfast/openai"
import { createRecovery } from "holdfast/promise"
import { RecoveryPolicy, renderFailure } from "holdfast"

const recovery = createRecovery({
  policy: { ...RecoveryPolicy.broad, routes: [{ model: "large" }, { model: "small" }] },
  client: make({ apiKey: process.env["OPENAI_API_KEY"] ?? "", baseUrl: process.env["OPENAI_BASE_URL"] ?? "" })
})

const app = new Hono()

app.post("/ask", async (context) => {
  const { prompt } = await context.req.json<{ prompt: string }>()
  return streamText(context, async (out) => {
    const left = new AbortController()
    out.onAbort(() => left.abort("the client left"))
    const parts = recovery.stream({ messages: [{ role: "user", content: prompt }] }, { signal: left.signal })
    try {
      for await (const part of parts) {
        if (part._tag === "TextDelta") await out.write(part.text)
        // Plain text cannot be taken back: say so. A page of your own would drop what it shows.
        if (part._tag === "Reset") await out.write("\n[once more]\n")
      }
    } catch (failure) {
      if (!out.aborted) await out.write(`\n[${renderFailure(failure as Parameters<typeof renderFailure>[0])}]\n`)
    }
  })
})

const server = serve(
  { fetch: app.fetch, port: Number(process.env["PORT"] ?? 3000), hostname: "127.0.0.1" },
  ({ port }) => console.log(`listening on http://127.0.0.1:${port}`)
)
process.on("SIGTERM", () => server.close(() => void recovery.close()))
