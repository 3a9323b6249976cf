import { assert, describe, it } from "@effect/vitest"
import { readConfigText } from "../../../../src/programs/commands/gateway/configText.ts"
import { fromLitellm } from "../../../../src/programs/commands/gateway/fromLitellm.ts"
import { resolveConfig } from "../../../../src/programs/commands/gateway/GatewayConfig.ts"

const text = `
model_list:
  - model_name: large
    litellm_params: { model: openai/gpt-large, api_key: os.environ/OPENAI_API_KEY, rpm: 60 }
  - model_name: large
    litellm_params: { model: openai/gpt-large, api_base: "https://east.example.com/v1", api_key: os.environ/EAST_KEY }
  - model_name: claude
    litellm_params: { model: anthropic/claude-large }
  - model_name: local
    litellm_params: { model: hosted_vllm/qwen, api_base: "http://127.0.0.1:9000/v1" }
  - model_name: bard
    litellm_params: { model: vertex_ai/gemini }
  - model_name: open
    litellm_params: { model: groq/llama, api_key: sk-in-the-file }
litellm_settings: { num_retries: 3, fallbacks: [ { large: [claude, nobody] } ], success_callback: [langfuse] }
general_settings: { master_key: os.environ/MASTER, database_url: "postgres://u:p@h/db" }
`

describe("a configuration of LiteLLM", () => {
  const given = fromLitellm("litellm.yml", readConfigText("litellm.yml", text).value)

  it("becomes a configuration that the gateway takes", () => {
    const environment = { OPENAI_API_KEY: "a", EAST_KEY: "b", ANTHROPIC_API_KEY: "c", MASTER: "d", GROQ_API_KEY: "e" }
    const written = JSON.stringify(given.config)
    const config = resolveConfig("gateway.json", readConfigText("gateway.json", written), environment)
    const large = config.routes.get("large")
    assert.deepStrictEqual(
      large?.fallbacks.map(({ upstream, model }) => [upstream.name, model]),
      [
        ["openai-east.example.com", "gpt-large"],
        ["anthropic", "claude-large"]
      ]
    )
    assert.strictEqual(config.routes.get("local")?.upstream.baseUrl, "http://127.0.0.1:9000/v1")
    assert.deepStrictEqual(
      config.keys.map(({ name }) => name),
      ["MASTER"]
    )
  })

  it("says what has no place here, and carries no key over", () => {
    const report = given.left.join("\n")
    for (const part of [
      "bard: vertex_ai",
      "large: litellm_params.rpm",
      "its fallback nobody",
      "success_callback",
      "database_url",
      "open: a key stands in the file"
    ])
      assert.include(report, part)
    assert.notInclude(JSON.stringify(given), "sk-in-the-file")
    assert.notInclude(JSON.stringify(given), "u:p@h")
  })

  it.each([null, [], { model_list: 3 }, "text"])("refuses %j", (file) => {
    assert.throws(() => fromLitellm("x.yml", file), /x\.yml has no model_list/)
  })
})
