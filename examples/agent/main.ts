/** An agent with tools of an MCP server and one of its own that a person has to approve. */
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { RecoveryPolicy } from "holdfast"
import { make } from "holdfast/openai"
import { createAgent, createRecovery, defineTool, mcpTools } from "holdfast/promise"
import { createInterface } from "node:readline/promises"
import { z } from "zod"

const stock = new Client({ name: "example", version: "1.0.0" })
await stock.connect(
  new StdioClientTransport({ command: process.execPath, args: [new URL("stock.ts", import.meta.url).pathname] })
)

const order = defineTool({
  name: "order",
  description: "orders articles",
  parameters: z.object({ article: z.string(), count: z.number().int().positive() }),
  approval: true,
  run: async ({ article, count }) => `ordered ${count} x ${article}`
})

const terminal = createInterface({ input: process.stdin, output: process.stderr })
const recovery = createRecovery({
  policy: { ...RecoveryPolicy.broad, routes: [{ model: "large" }, { model: "small" }] },
  client: make({ apiKey: process.env["OPENAI_API_KEY"] ?? "", baseUrl: process.env["OPENAI_BASE_URL"] ?? "" })
})
const agent = createAgent({
  recovery,
  tools: [...(await mcpTools(stock)), order],
  system: "You keep the stock. Order what is running out.",
  approve: async (call) => (await terminal.question(`${call.name} ${call.arguments}? (yes/no) `)) === "yes"
})

for await (const event of agent.stream(process.argv[2] ?? "Is there enough of article 7?")) {
  if (event._tag === "PartSeen" && event.part._tag === "TextDelta") process.stdout.write(event.part.text)
  if (event._tag === "ToolEnded") console.error(`${event.call.name}: ${event.result.content}`)
}
process.stdout.write("\n")
terminal.close()
await stock.close()
await recovery.close()
