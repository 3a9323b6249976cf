/** A server of the Model Context Protocol: what is in stock. */
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js"
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js"
import { z } from "zod"

const server = new McpServer({ name: "stock", version: "1.0.0" })

server.registerTool(
  "in_stock",
  {
    description: "how many of an article are there",
    inputSchema: { article: z.string() },
    annotations: { readOnlyHint: true }
  },
  ({ article }) => ({ content: [{ type: "text", text: `${article}: 3` }] })
)

await server.connect(new StdioServerTransport())
