/**
 * The gateway's page in a real browser: `npm run browser [-- --screenshots]`. Healthy and failing requests go through the
 * gateway first; then the page is read, used with the keyboard alone, in light and dark, at 1,100 and 390 pixels.
 */
import assert from "node:assert/strict"
import { existsSync, mkdirSync } from "node:fs"
import { join } from "node:path"
import { chromium, type Page } from "playwright-core"
import { ask } from "../../bench/wall/client.ts"
import { startProvider } from "../../bench/wall/provider.ts"
import { startSubjects } from "../../bench/wall/subjects.ts"

const executablePath = "/usr/bin/chromium"
const pictures = join(import.meta.dirname, "../../docs/images")
const isDrawing = process.argv.includes("--screenshots")

if (!existsSync(executablePath)) {
  console.error("browser: there is no /usr/bin/chromium (Debian's package chromium)")
  process.exit(1)
}

const provider = await startProvider({ unit: 20 })
const gateway = startSubjects().find(({ name }) => name === "gateway live")!
const started = await gateway.start({ provider: provider.baseUrl, unit: 20 })
const { baseUrl } = started.target("ok", "fb-ok")
for (const wire of ["chat", "responses", "messages"] as const)
  for (const model of ["ok", "s01", "s03", "s04", "s08", "s13"]) await ask({ ...started.target(model, "fb-ok"), wire })

const browser = await chromium.launch({
  executablePath,
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run"
  ]
})

const open = async (width: number, colorScheme: "light" | "dark"): Promise<Page> => {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme })
  const page = await context.newPage()
  const problems: Array<string> = []
  page.on("console", (message) => {
    if (message.type() === "error") problems.push(message.text())
  })
  page.on("pageerror", (error) => problems.push(String(error)))
  page.on("request", (request) => assert.ok(request.url().startsWith(baseUrl.replace("/v1", "")), request.url()))
  await page.goto(`${baseUrl.replace("/v1", "")}/dashboard`)
  await page.waitForFunction("document.getElementById('state').textContent === 'live'")
  assert.deepEqual(problems, [])
  return page
}

const draw = async (page: Page, name: string): Promise<void> => {
  if (!isDrawing) return
  mkdirSync(pictures, { recursive: true })
  await page.screenshot({ path: join(pictures, `${name}.png`) })
}

const wide = await open(1_100, "light")
assert.equal(await wide.locator("#latest tr").count(), 18)
assert.match((await wide.locator("#numbers").textContent()) ?? "", /18requests/)
assert.match(
  (await wide.locator("#latest").textContent()) ?? "",
  /answered.*ModelRequestError|ModelRequestError.*answered/s
)
await draw(wide, "gateway-light")

// The keyboard alone: to the first request, its time line, and back to where one was.
await wide.locator("#latest button").first().focus()
await wide.keyboard.press("Enter")
await wide.locator("#trail[open]").waitFor()
assert.ok((await wide.locator("#moments li").count()) >= 2)
await draw(wide, "gateway-trail")
await wide.keyboard.press("Escape")
await wide.locator("#trail:not([open])").waitFor({ state: "attached" })
assert.ok(await wide.evaluate("document.activeElement.tagName === 'BUTTON'"))

const dark = await open(1_100, "dark")
const backgroundOf = "getComputedStyle(document.body).backgroundColor"
const background = await dark.evaluate(backgroundOf)
assert.notEqual(background, await wide.evaluate(backgroundOf))
await draw(dark, "gateway-dark")

const narrow = await open(390, "light")
assert.ok(await narrow.evaluate("document.documentElement.scrollWidth <= 390"), "the page is wider than a phone")
await draw(narrow, "gateway-narrow")

const text = await wide.content()
for (const canary of ["Say the sixty words", "word60", "Bearer"]) assert.ok(!text.includes(canary), canary)

await browser.close()
await started.close()
await provider.close()
console.log("browser: the page holds in light and dark, at 1,100 and 390 pixels, with the keyboard alone")
process.exit(0)
