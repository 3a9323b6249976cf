import { assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { createServer, request as forward, type Server } from "node:http"
import { connect, type AddressInfo, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { afterEach } from "vitest"
import { ProxyAgent } from "undici"
import { proxiesOf } from "../../../src/layers/provider/proxies.ts"

const root = join(import.meta.dirname, "../../..")
const run = promisify(execFile)

const ends: Array<() => void> = []
afterEach(() => {
  for (const end of ends.splice(0)) end()
})

const listen = async (server: Server): Promise<number> => {
  const sockets = new Set<Socket>()
  server.on("connection", (socket) => {
    sockets.add(socket)
    socket.on("error", () => undefined)
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  ends.push(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

/** A provider of both wires that counts its requests. */
const provider = async () => {
  let requests = 0
  const port = await listen(
    createServer((incoming, response) => {
      requests += 1
      incoming.resume()
      const body = incoming.url?.includes("messages")
        ? { type: "message", role: "assistant", content: [{ type: "text", text: "fine" }], stop_reason: "end_turn" }
        : { choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: "fine" } }] }
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(body))
    })
  )
  return { port, requests: () => requests }
}

/** A proxy as companies run them: forwards plain requests, tunnels with CONNECT; any host leads to `port`. */
const proxy = async (port: number) => {
  const seen: Array<{ readonly how: string; readonly target: string; readonly auth: string | undefined }> = []
  const note = (how: string, target: string, auth: string | undefined): void => {
    seen.push({ how, target, auth })
  }
  const server = createServer((incoming, response) => {
    const target = new URL(incoming.url ?? "")
    note("forward", target.host, incoming.headers["proxy-authorization"])
    const onward = forward({
      host: "127.0.0.1",
      port,
      path: target.pathname,
      method: incoming.method,
      headers: incoming.headers
    })
    onward.on("response", (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
    })
    incoming.pipe(onward)
  })
  server.on("connect", (incoming, client) => {
    note("connect", incoming.url ?? "", incoming.headers["proxy-authorization"])
    const onward = connect(port, "127.0.0.1", () => {
      client.write("HTTP/1.1 200 Connection Established\r\n\r\n")
      onward.pipe(client)
      client.pipe(onward)
    })
    onward.on("error", () => client.destroy())
    client.on("error", () => onward.destroy())
  })
  const own = await listen(server)
  return { url: `http://127.0.0.1:${own}`, seen }
}

/** The environment of a child: none of our own proxies, and what the test sets. */
const environmentWith = (given: Readonly<Record<string, string>>): NodeJS.ProcessEnv => {
  const clean = Object.fromEntries(
    Object.entries(process.env).filter(
      ([name]) => !/^((http|https|no|all)_proxy|NODE_OPTIONS|NODE_USE_ENV_PROXY|HOLDFAST_PROPERTY_RUNS)$/i.test(name)
    )
  )
  return { ...clean, ...given }
}

/** Runs a program in a process of its own, as a user's program runs. */
const program = async (text: string, env: Readonly<Record<string, string>> = {}): Promise<string> => {
  const { stdout } = await run(process.execPath, ["--no-warnings", "--input-type=module", "-e", text], {
    cwd: root,
    env: environmentWith(env),
    timeout: 60_000
  })
  return stdout.trim()
}

const asking = (entry: "openai" | "anthropic", options: string): string => `
  import { createRecovery } from "./src/promise.ts"
  import * as adapter from "./src/${entry}.ts"
  const recovery = createRecovery({
    policy: { routes: [{ model: "m" }], maxAttempts: 1, deadline: 20_000 },
    client: adapter.make({ apiKey: "sk-test-12345678", ${options} })
  })
  try { console.log((await recovery.complete({ messages: [{ role: "user", content: "go" }] })).text) }
  catch (failure) { console.log(failure._tag, failure.code) }
  await recovery.close()
`

describe("the proxies of the environment", () => {
  it.each(["HTTP_PROXY", "http_proxy"])("carries a request when %s is set, over both wires", async (name) => {
    const { port, requests } = await provider()
    const { url, seen } = await proxy(port)
    for (const wire of ["openai", "anthropic"] as const)
      assert.strictEqual(await program(asking(wire, 'baseUrl: "http://provider.test/v1"'), { [name]: url }), "fine")
    assert.strictEqual(requests(), 2)
    assert.deepStrictEqual(
      seen.map(({ target }) => target.replace(/:80$/, "")),
      ["provider.test", "provider.test"]
    )
  })

  it.each(["HTTPS_PROXY", "https_proxy"])("tunnels to an https address when %s is set", async (name) => {
    const { port } = await provider()
    const { url, seen } = await proxy(port)
    // The server behind the tunnel speaks no TLS: what counts is where the proxy was asked to go.
    const said = await program(asking("openai", 'baseUrl: "https://provider.test/v1"'), { [name]: url })
    assert.match(said, /^ModelConnectionError/)
    assert.deepInclude(seen[0], { how: "connect", target: "provider.test:443" })
  })

  it.each(["other.test,127.0.0.1:PORT"])("goes around the proxy for the hosts of NO_PROXY: %s", async (hosts) => {
    const { port } = await provider()
    const { url, seen } = await proxy(port)
    const address = `baseUrl: "http://127.0.0.1:${port}/v1"`
    const noProxy = hosts.replace("PORT", String(port))
    assert.strictEqual(await program(asking("openai", address), { HTTP_PROXY: url, NO_PROXY: noProxy }), "fine")
    assert.deepStrictEqual(seen, [])
    assert.strictEqual(await program(asking("openai", address), { HTTP_PROXY: url, NO_PROXY: "other.test" }), "fine")
    assert.strictEqual(seen.length, 1)
  })

  it("signs in to a proxy with the name and password of its address, and prints neither", async () => {
    const { port } = await provider()
    const { url, seen } = await proxy(port)
    const named = url.replace("//", "//ann:s3cret@")
    const said = await program(asking("openai", 'baseUrl: "http://provider.test/v1"'), { HTTP_PROXY: named })
    assert.strictEqual(said, "fine")
    assert.strictEqual(seen[0]?.auth, `Basic ${Buffer.from("ann:s3cret").toString("base64")}`)
    const refused = proxiesFault({ HTTPS_PROXY: "ftp://ann:s3cret@proxy.test" })
    assert.strictEqual(refused, "HTTPS_PROXY is set but is not an http, https or socks5 address of a proxy")
  })

  it("carries the command line's requests", async () => {
    const { port, requests } = await provider()
    const { url, seen } = await proxy(port)
    const given = { OPENAI_API_KEY: "sk-test-12345678", OPENAI_MODEL: "m", OPENAI_FALLBACK_MODEL: "none" }
    const base = { OPENAI_BASE_URL: "http://provider.test/v1", HTTP_PROXY: url }
    const args = [
      "--no-warnings",
      "src/cli.ts",
      "run",
      "--prompt",
      "go",
      "--json",
      "--dir",
      "docs",
      "--session",
      join(tmpdir(), `${process.pid}-proxied.json`)
    ]
    await run(process.execPath, args, { cwd: root, env: environmentWith({ ...given, ...base }), timeout: 60_000 })
    assert.deepStrictEqual([requests() > 0, seen.length > 0], [true, true])
  })
})

const proxiesFault = (environment: Readonly<Record<string, string>>): string => {
  try {
    proxiesOf(environment)
    return ""
  } catch (cause) {
    return String(cause instanceof Error ? cause.message : cause)
  }
}

describe("reading the variables", () => {
  it.each([
    [{}, null],
    [{ HTTP_PROXY: "" }, null],
    [{ NO_PROXY: "*" }, null],
    [{ HTTP_PROXY: "http://a.test:1" }, { httpProxy: "http://a.test:1", httpsProxy: "", noProxy: "" }],
    [{ HTTP_PROXY: "a.test:1" }, { httpProxy: "http://a.test:1", httpsProxy: "", noProxy: "" }],
    [{ HTTPS_PROXY: " socks5://a.test:1 " }, { httpProxy: "", httpsProxy: "socks5://a.test:1", noProxy: "" }],
    [
      { http_proxy: "http://low.test", HTTP_PROXY: "http://up.test" },
      { httpProxy: "http://low.test", httpsProxy: "", noProxy: "" }
    ],
    // Set to nothing in lower case, it is off, whatever stands in upper case.
    [{ https_proxy: "", HTTPS_PROXY: "http://up.test" }, null]
  ])("%j is %j", (environment, proxies) => {
    assert.deepStrictEqual(proxiesOf(environment), proxies)
  })

  it.each(["ftp://a.test", "http://", "http:// a b", "file:///etc/passwd", "javascript://x"])(
    "refuses %s and names the variable, not the value",
    (value) => {
      const said = proxiesFault({ https_proxy: value })
      assert.match(said, /^https_proxy is set but is not/)
      assert.notInclude(said, value)
    }
  )
})

describe("a process that imports holdfast", () => {
  const symbols = `[1, 2].map((at) => Symbol.for("undici.globalDispatcher." + at))`

  it("has the globals and the dispatcher it had before", async () => {
    const said = await program(`
      // One symbol of the openai package's own is not ours to keep away.
      const names = () => Reflect.ownKeys(globalThis).map(String).filter((name) => !name.includes("openai.node")).sort().join()
      const read = () => JSON.stringify(${symbols}.map((name) => typeof globalThis[name]))
      await fetch("http://127.0.0.1:9").catch(() => undefined)
      const before = ${symbols}.map((name) => globalThis[name])
      const [namesBefore, readBefore] = [names(), read()]
      for (const entry of ["index", "promise", "openai", "anthropic", "agent", "testing"]) await import("./src/" + entry + ".ts")
      const { make } = await import("./src/openai.ts")
      make({ apiKey: "sk-test-12345678" })
      const after = ${symbols}.map((name) => globalThis[name])
      console.log(names() === namesBefore, read() === readBefore, before.every((one, at) => one === after[at]))
    `)
    assert.strictEqual(said, "true true true")
  })

  it("keeps Node's own NODE_USE_ENV_PROXY working", async () => {
    const { port } = await provider()
    const { url, seen } = await proxy(port)
    const said = await program(
      `
      const { make } = await import("./src/openai.ts")
      make({ apiKey: "sk-test-12345678" })
      const answer = await fetch("http://plain.test/v1/chat/completions", { method: "POST", body: "{}" })
      console.log(answer.status)
    `,
      { HTTP_PROXY: url, NODE_USE_ENV_PROXY: "1" }
    )
    // Node 22.21 and newer read the variable; an older one goes past the proxy and finds no such host.
    assert.strictEqual(said, "200")
    assert.strictEqual(seen.length, 1)
  })
})

describe("a dispatcher of the caller's own", () => {
  it.each(["openai", "anthropic"] as const)("is used in fetchOptions: %s", async (wire) => {
    const { port } = await provider()
    const { url, seen } = await proxy(port)
    const said = await program(
      `import { ProxyAgent } from "undici"\n${asking(wire, `baseUrl: "http://provider.test/v1", fetchOptions: { dispatcher: new ProxyAgent("${url}") }`)}`
    )
    assert.strictEqual(said, "fine")
    assert.strictEqual(seen.length, 1)
  })

  it("is used in a client of the caller's own", async () => {
    const { port } = await provider()
    const { url, seen } = await proxy(port)
    const client = `client: new OpenAI({ apiKey: "sk-test-12345678", baseURL: "http://provider.test/v1", fetchOptions: { dispatcher: new ProxyAgent("${url}") } })`
    const text = asking("openai", client).replace('apiKey: "sk-test-12345678", client', "client")
    assert.strictEqual(
      await program(`import OpenAI from "openai"\nimport { ProxyAgent } from "undici"\n${text}`),
      "fine"
    )
    assert.strictEqual(seen.length, 1)
  })

  it("wins over the environment", async () => {
    const { port } = await provider()
    const [own, other] = [await proxy(port), await proxy(port)]
    const { makeUndiciFetch } = await import("../../../src/openai.ts")
    const agent = new ProxyAgent(own.url)
    const answer = await makeUndiciFetch(agent)("http://provider.test/v1/x")
    assert.strictEqual(answer.status, 200)
    assert.deepStrictEqual([own.seen.length, other.seen.length], [1, 0])
    await agent.close()
  })

  it.each([null, "http://proxy.test", {}, 7])(
    "is refused before anything is sent when it is none: %j",
    async (dispatcher) => {
      const { makeUndiciFetch } = await import("../../../src/openai.ts")
      const init: RequestInit = {}
      Reflect.set(init, "dispatcher", dispatcher)
      const failure = await makeUndiciFetch()("http://provider.test", init).then(
        () => "sent",
        (cause: unknown) => String(cause instanceof Error ? cause.message : cause)
      )
      assert.match(failure, /^fetchOptions\.dispatcher /)
    }
  )
})
