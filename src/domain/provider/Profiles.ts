/** All provider profiles that come with the library, by name. Chosen by the caller or by base URL, never by an answer. */
import { anthropic } from "./profiles/anthropic.ts"
import { azure } from "./profiles/azure.ts"
import { bedrock } from "./profiles/bedrock.ts"
import { cerebras } from "./profiles/cerebras.ts"
import { cloudflare } from "./profiles/cloudflare.ts"
import { cohere } from "./profiles/cohere.ts"
import { copilot } from "./profiles/copilot.ts"
import { dashscope } from "./profiles/dashscope.ts"
import { deepseek } from "./profiles/deepseek.ts"
import { fireworks } from "./profiles/fireworks.ts"
import { gemini } from "./profiles/gemini.ts"
import { generic } from "./profiles/generic.ts"
import { groq } from "./profiles/groq.ts"
import { litellm } from "./profiles/litellm.ts"
import { llamacpp } from "./profiles/llamacpp.ts"
import { lmstudio } from "./profiles/lmstudio.ts"
import { minimax } from "./profiles/minimax.ts"
import { mistral } from "./profiles/mistral.ts"
import { moonshot } from "./profiles/moonshot.ts"
import { ollama } from "./profiles/ollama.ts"
import { openai } from "./profiles/openai.ts"
import { openrouter } from "./profiles/openrouter.ts"
import { sglang } from "./profiles/sglang.ts"
import { siliconflow } from "./profiles/siliconflow.ts"
import { tgi } from "./profiles/tgi.ts"
import { together } from "./profiles/together.ts"
import { vllm } from "./profiles/vllm.ts"
import { volcengine } from "./profiles/volcengine.ts"
import { xai } from "./profiles/xai.ts"
import { zhipu } from "./profiles/zhipu.ts"
import type { ProviderProfile } from "./ProviderProfile.ts"

export const profiles: ReadonlyArray<ProviderProfile> = [
  openai,
  azure,
  anthropic,
  gemini,
  bedrock,
  openrouter,
  groq,
  mistral,
  deepseek,
  together,
  fireworks,
  cerebras,
  xai,
  moonshot,
  dashscope,
  zhipu,
  minimax,
  volcengine,
  siliconflow,
  vllm,
  sglang,
  llamacpp,
  ollama,
  lmstudio,
  tgi,
  litellm,
  cloudflare,
  copilot,
  cohere,
  generic
]

const aliases: Readonly<Record<string, string>> = {
  "azure-openai": "azure",
  "github-copilot": "copilot",
  "generic-proxy": "generic"
}

/** The profile of this name or alias; null = there is none. */
export const profileNamed = (name: string): ProviderProfile | null => {
  const own = Object.hasOwn(aliases, name) ? aliases[name] : name
  return profiles.find((profile) => profile.name === own) ?? null
}

/** A host with its port, matched from the end; `*` stands for one or more labels. */
const matches = (pattern: string, host: string): boolean => {
  const [head = "", ...tail] = pattern.split("*")
  const end = tail.join("*")
  return tail.length === 0
    ? pattern === host
    : host.startsWith(head) && host.endsWith(end) && host.length > head.length + end.length
}

/** The profile of a base URL; generic when no profile claims its host. */
export const profileForBaseUrl = (baseUrl: string | URL): ProviderProfile => {
  const url = URL.canParse(String(baseUrl)) ? new URL(String(baseUrl)) : null
  if (url === null) return generic
  return profiles.find((profile) => profile.baseUrls.some((pattern) => matches(pattern, url.host))) ?? generic
}
