/**
 * The cheapest HTTP proxy that Node and undici make, in a process of its own: what any gateway of one process costs at least.
 * `node proxy.ts UPSTREAM`; prints its port on stdout, ends with its parent.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import { Pool } from "undici"

const upstream = new Pool(process.argv[2] ?? "", { connections: 256 })

const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const { authorization } = request.headers
  const reply = await upstream.request({
    path: request.url ?? "/",
    method: "POST",
    headers: { "content-type": "application/json", ...(authorization === undefined ? {} : { authorization }) },
    body: Buffer.concat(chunks)
  })
  response.writeHead(reply.statusCode, { "content-type": String(reply.headers["content-type"]) })
  for await (const chunk of reply.body) response.write(chunk)
  response.end()
}

const server = createServer((request, response) => {
  answer(request, response).catch(() => response.destroy())
})
server.listen(0, "127.0.0.1", () => {
  const address = server.address()
  if (address !== null && typeof address === "object") console.log(address.port)
})
process.stdin.on("end", () => process.exit(0)).resume()
