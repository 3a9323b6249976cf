/** An MCP server over standard input and output: one tool, which counts in `counter` how often it ran. */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Effect, Layer, Schema } from "effect"
import { McpProtocol, McpServer, Tool, Toolkit } from "effect/ai"
import { appendFileSync } from "node:fs"

const [counter] = process.argv.slice(2)

const InStock = Tool.make("in_stock", {
  description: "How many pieces of an article are in stock",
  parameters: Schema.Struct({ article: Schema.String }),
  success: Schema.Struct({ article: Schema.String, pieces: Schema.Number })
})

const tools = Toolkit.make(InStock)

const registrations = McpServer.toolkit(tools).pipe(
  Layer.provide(
    tools.toLayer({
      in_stock: ({ article }) =>
        Effect.sync(() => {
          if (counter !== undefined) appendFileSync(counter, `${article}\n`)
          return { article, pieces: 7 }
        })
    })
  )
)

McpServer.layerStdio({
  name: "stock",
  version: "1.0.0",
  protocols: [McpProtocol.v2026_07_28],
  registrations
}).pipe(Layer.provide(NodeServices.layer), Layer.launch, NodeRuntime.runMain)
