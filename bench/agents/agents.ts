/** Coding agents as they are started without a screen: each with a home of its own, so that nothing of the user's is read. */
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import type { WireName } from "./answers.ts"

export interface Started {
  readonly args: ReadonlyArray<string>
  readonly env: Readonly<Record<string, string>>
}

export interface Agent {
  readonly name: string
  readonly wire: WireName
  readonly bin: string
  /** Writes what the agent reads at its start, below `home`, and says how it is called. */
  readonly start: (setting: {
    readonly home: string
    readonly folder: string
    readonly origin: string
    readonly model: string
    readonly task: string
  }) => Started
}

const put = (folder: string, name: string, text: string): void => {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, name), text)
}

const qwen: Agent = {
  name: "qwen-code",
  wire: "chat",
  bin: "qwen",
  start: ({ home, origin, model, task }) => {
    put(
      join(home, ".qwen"),
      "settings.json",
      JSON.stringify({ privacy: { usageStatisticsEnabled: false }, security: { auth: { selectedType: "openai" } } })
    )
    return {
      args: ["--yolo", "--model", model, "--prompt", task],
      env: { OPENAI_API_KEY: "none", OPENAI_BASE_URL: `${origin}/v1`, OPENAI_MODEL: model }
    }
  }
}

const codex: Agent = {
  name: "codex",
  wire: "responses",
  bin: "codex",
  start: ({ home, folder, origin, model, task }) => {
    const lines = [
      `model = ${JSON.stringify(model)}`,
      'model_provider = "scripted"',
      "[model_providers.scripted]",
      'name = "scripted"',
      `base_url = ${JSON.stringify(`${origin}/v1`)}`,
      'wire_api = "responses"',
      'env_key = "SCRIPTED_KEY"'
    ]
    put(join(home, ".codex"), "config.toml", `${lines.join("\n")}\n`)
    return {
      args: ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-C", folder, task],
      env: { CODEX_HOME: join(home, ".codex"), SCRIPTED_KEY: "none" }
    }
  }
}

const pi: Agent = {
  name: "pi",
  wire: "messages",
  bin: "pi",
  start: ({ home, origin, model, task }) => {
    const provider = {
      baseUrl: origin,
      api: "anthropic-messages",
      apiKey: "none",
      models: [
        {
          id: model,
          name: model,
          reasoning: false,
          input: ["text"],
          cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
          contextWindow: 200_000,
          maxTokens: 8_192
        }
      ]
    }
    put(join(home, ".pi", "agent"), "models.json", JSON.stringify({ providers: { scripted: provider } }))
    return {
      args: ["--print", "--no-session", "--provider", "scripted", "--model", model, task],
      env: { PI_OFFLINE: "1" }
    }
  }
}

/** Its package starts a program of its platform, which stands in another package beside it. */
const opencode: Agent = {
  name: "opencode",
  wire: "chat",
  bin: "opencode",
  start: ({ home, folder, origin, model, task }) => {
    const provider = {
      npm: "@ai-sdk/openai-compatible",
      name: "scripted",
      options: { baseURL: `${origin}/v1`, apiKey: "none" },
      models: { [model]: { name: model, tool_call: true, limit: { context: 200_000, output: 8_192 } } }
    }
    put(
      join(home, ".config", "opencode"),
      "opencode.json",
      JSON.stringify({
        provider: { scripted: provider },
        model: `scripted/${model}`,
        small_model: `scripted/${model}`,
        autoupdate: false,
        share: "disabled",
        permission: { "*": "allow" },
        // The name of the session would be one more request.
        agent: { title: { disable: true } }
      })
    )
    return {
      args: ["run", "--pure", "--dir", folder, "--title", "task", "--model", `scripted/${model}`, task],
      env: { OPENCODE_DISABLE_MODELS_FETCH: "1", OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_LSP_DOWNLOAD: "1" }
    }
  }
}

export const agents: ReadonlyArray<Agent> = [qwen, codex, pi, opencode]
