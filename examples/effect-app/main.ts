/** An HTTP API of Effect. A client that goes away interrupts the handler, and with it the model call, wherever it is. */
import { NodeHttpServer, NodeRuntime } from "@effect/platform-node"
import * as Effect from "effect/Effect"
import { HttpRouter, HttpServer, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { ModelSummarizer, Recovery, RecoveryLive, RecoveryPolicy } from "holdfast"
import * as OpenAiModelClient from "holdfast/openai"
import { createServer } from "node:http"

const policy = new RecoveryPolicy({ ...RecoveryPolicy.broad, routes: [{ model: "large" }, { model: "small" }] })

const RecoveryLayer = RecoveryLive.layer(policy).pipe(
  Layer.provide(ModelSummarizer.layer({ model: "small" })),
  Layer.provide(
    OpenAiModelClient.layer({
      apiKey: process.env["OPENAI_API_KEY"] ?? "",
      baseUrl: process.env["OPENAI_BASE_URL"] ?? ""
    })
  )
)

const Ask = Schema.Struct({ prompt: Schema.NonEmptyString })

const ask = Effect.gen(function* () {
  const { prompt } = yield* HttpServerRequest.schemaBodyJson(Ask)
  const { complete } = yield* Recovery
  const reply = yield* complete({ messages: [{ role: "user", content: prompt }] })
  return yield* HttpServerResponse.json({ text: reply.text, model: reply.model })
}).pipe(
  // Whoever is overloaded says so; everything else is told with what to do about it.
  Effect.catchTag("ModelOverloadedError", (failure) =>
    HttpServerResponse.json({ error: failure.guidance }, { status: 503, headers: { "retry-after": "30" } })
  ),
  Effect.catch((failure) =>
    HttpServerResponse.json({ error: "guidance" in failure ? failure.guidance : "bad request" }, { status: 502 })
  )
)

const Routes = HttpRouter.add("POST", "/ask", ask)

const Server = HttpRouter.serve(Routes, { disableListenLog: true }).pipe(
  Layer.merge(
    Layer.effectDiscard(
      Effect.flatMap(HttpServer.HttpServer, ({ address }) =>
        Effect.sync(() => console.log(`listening on http://127.0.0.1:${"port" in address ? address.port : "?"}`))
      )
    )
  ),
  Layer.provide(RecoveryLayer),
  Layer.provide(NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: Number(process.env["PORT"] ?? 3000) }))
)

NodeRuntime.runMain(Layer.launch(Server))
