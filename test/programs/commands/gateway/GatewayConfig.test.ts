import { assert, describe, it } from "@effect/vitest"
import { readConfigText } from "../../../../src/programs/commands/gateway/configText.ts"
import { resolveConfig, type GatewayConfig } from "../../../../src/programs/commands/gateway/GatewayConfig.ts"

const environment = { OPENAI_API_KEY: "sk-1", GATEWAY_KEY: "gw-1" }
const read = (text: string): GatewayConfig =>
  resolveConfig("gateway.yml", readConfigText("gateway.yml", text), environment)

const whole = `
listen: { host: 127.0.0.1, port: 8080 }
keys: [ "env:GATEWAY_KEY" ]
upstreams:
  main: { baseUrl: "https://api.example.com/v1/", apiKey: "env:OPENAI_API_KEY", profile: openai }
routes:
  large:
    upstream: main
    model: large-2026
    fallbacks: [ { upstream: main, model: small-2026, prices: { inputPerM: 1, outputPerM: 2 } } ]
    preset: broad
    stream: live
    prices: { inputPerM: 2, outputPerM: 8 }
    policy:
      firstTokenTimeout: 10 seconds
      fallbackAfter: { overload: 3, serverError: 2, silent: 1, cut: 2, rateLimit: 3, overflow: 1 }
      routeHealth: { coolDown: 3 seconds, coolDownMax: 10 seconds }
  "*": { upstream: main, stream: verified, prices: { inputPerM: 1, outputPerM: 1 } }
budgets:
  "env:GATEWAY_KEY": { usdPerDay: 20, tokensPerMinute: 200000, requestsPerMinute: 600 }
`

describe("the configuration of a gateway", () => {
  it("is read from YAML and from JSON alike", () => {
    const fromYaml = read(whole)
    const route = fromYaml.routes.get("large")
    assert.strictEqual(route?.upstream.baseUrl, "https://api.example.com/v1")
    assert.strictEqual(route?.policy.firstTokenTimeout, 10_000)
    assert.strictEqual(fromYaml.routes.get("*")?.stream, "verified")
    assert.strictEqual(fromYaml.keys[0]?.budget?.usdPerDay, 20)
    const asJson = JSON.stringify({
      upstreams: { a: { baseUrl: "http://127.0.0.1:1/v1" } },
      routes: { "*": { upstream: "a" } }
    })
    assert.deepStrictEqual([read(asJson).host, read(asJson).port, read(asJson).keys], ["127.0.0.1", 8080, []])
  })

  it("shows no secret, however it is printed", () => {
    assert.notInclude(JSON.stringify({ ...read(whole), routes: [...read(whole).routes] }), "sk-1")
    assert.notInclude(JSON.stringify(read(whole).keys), "gw-1")
  })

  it.each([
    { change: ["preset: broad", "presett: broad"], says: /line 11, column 5: routes\.large\.presett is not a field/ },
    { change: ["stream: live", "stream: lively"], says: /line 12, column 5: routes\.large\.stream/ },
    {
      change: ["upstream: main\n", "upstream: mein\n"],
      says: /line 8, column 5: routes\.large\.upstream names "mein"/
    },
    {
      change: ["firstTokenTimeout: 10 seconds", "firstTokenTimeout: soon"],
      says: /line 15, column 7.*firstTokenTimeout/
    },
    { change: ["firstTokenTimeout:", "firstTokTimeout:"], says: /firstTokTimeout/ },
    { change: ['"env:OPENAI_API_KEY"', "sk-secret"], says: /apiKey must name a variable/ },
    { change: ["env:OPENAI_API_KEY", "env:NOBODY"], says: /names NOBODY, which is not set/ },
    { change: ["https://api", "ftp://api"], says: /baseUrl is not an http or https address/ },
    { change: ["https://api", "https://u:p@api"], says: /baseUrl holds a password/ },
    { change: ["profile: openai", "profile: opnai"], says: /names "opnai", which is no profile/ },
    { change: ["model: small-2026", "model: large-2026"], says: /fallbacks\.0 is the route itself/ },
    { change: ["host: 127.0.0.1", "host: 0.0.0.0"], says: null },
    { change: ["{ usdPerDay: 20,", "{ usdPerDay: -1,"], says: /usdPerDay/ },
    { change: ["prices: { inputPerM: 1, outputPerM: 1 }", ""], says: /has no prices/ },
    {
      change: ["listen: {", "store: { sqlit: a }\nlisten: {"],
      says: /line \d+, column \d+: store\.sqlit is not a field/
    },
    { change: ["listen: {", "store: {}\nlisten: {"], says: /store names one of sqlite, redis and postgres/ },
    { change: ["listen: {", "store: { sqlite: a, redis: 'env:A' }\nlisten: {"], says: /store names one of/ },
    { change: ["listen: {", "store: { redis: 'redis://u:p@x' }\nlisten: {"], says: /redis must name a variable/ },
    { change: ["listen: {", "store: { redis: 'env:NOBODY' }\nlisten: {"], says: /names NOBODY, which is not set/ },
    {
      change: ["listen: {", "store: { postgres: 'env:OPENAI_API_KEY' }\nlisten: {"],
      says: /postgres names a variable that holds no address postgres:/
    },
    { change: ["listen: {", "store: { sqlite: a, usdWhileAway: 0 }\nlisten: {"], says: /usdWhileAway/ },
    { change: ["listen: {", "listen: {{"], says: /line \d+, column \d+ cannot be read/ }
  ])("answers $change with a sentence that names the place", ({ change: [from = "", to = ""], says }) => {
    const text = whole.replace(from, to)
    assert.notStrictEqual(text, whole)
    if (says === null) assert.strictEqual(read(text).host, "0.0.0.0")
    else {
      try {
        read(text)
        assert.fail("was taken")
      } catch (error) {
        assert.match(String(error), says)
        assert.notInclude(String(error), "sk-secret")
      }
    }
  })

  it("serves others than the loopback only with keys", () => {
    const open = whole
      .replace('keys: [ "env:GATEWAY_KEY" ]', "")
      .replace(/budgets:[^]*/, "")
      .replace("127.0.0.1", "0.0.0.0")
    assert.throws(() => read(open), /without keys only the loopback is served/)
  })
})
