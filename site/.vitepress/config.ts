/** The site over the pages that build.ts has gathered; a link that leads nowhere ends the build. */
import { defineConfig } from "vitepress"

const page = (text: string, link: string) => ({ text, link })

export default defineConfig({
  title: "holdfast",
  description: "Keeps an agent's model calls alive.",
  srcDir: ".pages",
  outDir: "dist",
  cleanUrls: true,
  themeConfig: {
    nav: [page("Guide", "/"), page("API", "/api/")],
    sidebar: {
      "/": [
        {
          text: "Begin",
          items: [
            page("holdfast", "/"),
            page("One line", "/docs/one-line"),
            page("Coming from something else", "/docs/migration"),
            page("Where do my parameters go?", "/docs/parameters")
          ]
        },
        {
          text: "What happens to a request",
          items: [
            page("Transient", "/docs/roads/transient"),
            page("Truncation", "/docs/roads/truncation"),
            page("Overflow", "/docs/roads/overflow"),
            page("Policies", "/docs/policies"),
            page("Configuration", "/docs/configuration"),
            page("Errors", "/docs/errors"),
            page("Providers", "/docs/providers")
          ]
        },
        {
          text: "Agents",
          items: [
            page("The agent", "/docs/agent"),
            page("Durable turns", "/docs/durable"),
            page("effect/ai", "/docs/effect-ai")
          ]
        },
        {
          text: "Run it",
          items: [
            page("The gateway", "/docs/gateway"),
            page("Its clients", "/docs/clients"),
            page("Shared state", "/docs/shared-state"),
            page("The command line", "/docs/cli"),
            page("Telemetry", "/docs/telemetry"),
            page("Events", "/docs/events"),
            page("Runtimes", "/docs/runtimes")
          ]
        },
        { text: "Test it", items: [page("Testing", "/docs/testing"), page("Fault scripts", "/docs/drill")] },
        {
          text: "Why, and how fast",
          items: [
            page("The rules", "/docs/design"),
            page("Many clients", "/docs/fleet"),
            page("Benchmarks", "/docs/benchmarks"),
            page("The code in three paths", "/TOUR"),
            page("Changes", "/CHANGELOG")
          ]
        }
      ]
    }
  }
})
