/**
 * The gateway's page: one self-contained document that asks for its data every two seconds. Works with a keyboard, in
 * light and dark, on a narrow screen; loads nothing from elsewhere.
 */

const style = `
:root { color-scheme: light dark; --line: light-dark(#d4d7dc, #3a3f47); --soft: light-dark(#5a6270, #9aa3b0);
  --card: light-dark(#ffffff, #1d2025); --page: light-dark(#f4f5f7, #131518); --ink: light-dark(#16191d, #e8eaed);
  --good: light-dark(#17734a, #58c48f); --bad: light-dark(#b3261e, #f2857d); --busy: light-dark(#8a5a00, #e5b454);
  --bar: light-dark(#2f5fb3, #7ea6ee); }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; }
header, main { max-width: 1080px; margin: 0 auto; padding: 16px; }
header { display: flex; flex-wrap: wrap; gap: 8px 24px; align-items: baseline; }
h1 { font-size: 20px; margin: 0; } h2 { font-size: 16px; margin: 0 0 8px; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 12px 14px; margin: 0 0 16px; }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(120px, 1fr)); gap: 8px; }
.numbers div { display: flex; flex-direction: column; } .numbers b { font-size: 20px; font-variant-numeric: tabular-nums; }
.soft, th { color: var(--soft); } .good { color: var(--good); } .bad { color: var(--bad); } .busy { color: var(--busy); }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 500; } th, td { padding: 4px 10px 4px 0; white-space: nowrap; border-bottom: 1px solid var(--line); }
td.end { white-space: normal; }
button { font: inherit; color: inherit; background: none; border: 0; border-bottom: 1px dotted var(--soft); padding: 0; cursor: pointer; }
:focus-visible { outline: 2px solid var(--bar); outline-offset: 2px; }
svg { width: 100%; height: 96px; display: block; } svg rect { fill: var(--bar); } svg rect.failed { fill: var(--bad); } svg rect.outputTokens { fill: var(--busy); }
h2 span { font-weight: 400; font-size: 13px; } .charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(280px, 1fr)); gap: 0 16px; }
ol { margin: 0; padding: 0; list-style: none; } ol li { display: flex; gap: 12px; padding: 3px 0; border-bottom: 1px solid var(--line); }
ol time { flex: 0 0 76px; text-align: right; color: var(--soft); }
dialog { border: 1px solid var(--line); border-radius: 8px; background: var(--card); color: var(--ink); width: min(680px, calc(100vw - 24px)); max-height: 84vh; }
@media (max-width: 480px) { header, main { padding: 12px; } }
`

const script = `
const $ = (id) => document.getElementById(id)
const make = (tag, text, kind) => { const node = document.createElement(tag); if (text !== undefined) node.textContent = text; if (kind) node.className = kind; return node }
const span = (ms) => ms === null ? "runs" : ms < 1000 ? Math.round(ms) + " ms" : (ms / 1000).toFixed(1) + " s"
const usd = (value) => value === null ? "unknown" : "$" + value.toFixed(value < 1 ? 4 : 2)
const row = (cells) => { const tr = make("tr"); for (const [text, kind] of cells) tr.append(text instanceof Node ? text : make("td", text, kind)); return tr }
const stateKind = { closed: "good", open: "bad", ramp: "busy", unknown: "soft" }
const stateText = { closed: "open for calls", open: "closed after failures", ramp: "coming back", unknown: "not asked yet" }

async function show(id) {
  const trail = await (await fetch("trail/" + encodeURIComponent(id))).json()
  $("trail-name").textContent = trail.id + ": " + trail.route + ", " + trail.wire
  $("moments").replaceChildren(...trail.moments.map((moment) => {
    const li = make("li"); li.append(make("time", span(moment.atMs)), make("span", moment.text)); return li
  }))
  $("trail").showModal()
}

const ns = "http://www.w3.org/2000/svg"
function bars(id, minutes, layers, peakText) {
  const peak = Math.max(0, ...minutes.map((one) => one[layers[0]]))
  const width = 600 / Math.max(60, minutes.length)
  const rect = (x, height, kind) => { const node = document.createElementNS(ns, "rect"); for (const [k, v] of Object.entries({ x, y: 94 - height, height, width: width * 0.8 })) node.setAttribute(k, v); if (kind) node.setAttribute("class", kind); return node }
  $(id).replaceChildren(...minutes.flatMap((one, at) => layers.map((name, layer) => rect(at * width, peak === 0 ? 0 : 92 * one[name] / peak, layer === 0 ? "" : name))))
  const text = peak === 0 ? "nothing yet" : "at most " + peakText(peak) + " in a minute"
  $(id).setAttribute("aria-label", text); $(id + "-peak").textContent = text
}

async function refresh() {
  try {
    const answer = await fetch("dashboard/data.json")
    if (!answer.ok) throw new Error(answer.status)
    const data = await answer.json()
    $("state").textContent = "live"; $("state").className = "good"
    const sum = (name) => data.minutes.reduce((total, one) => total + one[name], 0)
    const numbers = [["requests", sum("requests")], ["under way", data.inFlight], ["recovered", sum("recovered")], ["failed", sum("failed")],
      ["tokens in", sum("inputTokens")], ["tokens out", sum("outputTokens")], ["cost", sum("unpriced") === 0 ? usd(sum("costUsd")) : "over " + usd(sum("costUsd"))]]
    $("numbers").replaceChildren(...numbers.map(([name, value]) => { const div = make("div"); div.append(make("b", String(value)), make("span", name, "soft")); return div }))
    const minutes = data.minutes.map((one) => ({ ...one, tokens: one.inputTokens + one.outputTokens }))
    bars("bars", minutes, ["requests", "failed"], String)
    bars("token-bars", minutes, ["tokens", "outputTokens"], String)
    bars("cost-bars", minutes, ["costUsd"], usd)
    $("routes").replaceChildren(...data.routes.map((one) => row([[one.name], [one.upstream], [one.model], [stateText[one.state], stateKind[one.state]]])))
    const roads = Object.entries(data.roads)
    $("roads").replaceChildren(...(roads.length === 0 ? [row([["nothing had to be recovered yet", "soft"]])] : roads.map(([name, count]) => row([[name], [String(count)]]))))
    const focused = document.activeElement?.dataset?.id
    $("latest").replaceChildren(...data.latest.map((one) => {
      const button = make("button", one.id); button.dataset.id = one.id; button.onclick = () => show(one.id)
      const cell = make("td"); cell.append(button)
      return row([[cell], [one.route], [one.wire], [String(one.attempts)], [span(one.tookMs)], [usd(one.costUsd)], [one.ending, "end " + (one.ok === null ? "soft" : one.ok ? "good" : "bad")]])
    }))
    if (focused) document.querySelector('[data-id="' + CSS.escape(focused) + '"]')?.focus()
  } catch { $("state").textContent = "the gateway does not answer"; $("state").className = "bad" }
}
$("close").onclick = () => $("trail").close()
refresh(); setInterval(refresh, 2000)
`

export const dashboardPage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>holdfast gateway</title><link rel="icon" href="data:,">
<style>${style}</style>
</head>
<body>
<header><h1>holdfast gateway</h1><span id="state" class="soft" role="status">asking</span></header>
<main>
<section aria-label="the last two hours"><div id="numbers" class="numbers"></div></section>
<div class="charts">
<section><h2>Requests <span id="bars-peak" class="soft"></span></h2><svg id="bars" viewBox="0 0 600 96" preserveAspectRatio="none" role="img" aria-label="nothing yet"></svg></section>
<section><h2>Tokens <span id="token-bars-peak" class="soft"></span></h2><svg id="token-bars" viewBox="0 0 600 96" preserveAspectRatio="none" role="img" aria-label="nothing yet"></svg></section>
<section><h2>Cost <span id="cost-bars-peak" class="soft"></span></h2><svg id="cost-bars" viewBox="0 0 600 96" preserveAspectRatio="none" role="img" aria-label="nothing yet"></svg></section>
</div>
<section><h2>Routes</h2><div class="wide"><table><thead><tr><th>route</th><th>upstream</th><th>model</th><th>health</th></tr></thead><tbody id="routes"></tbody></table></div></section>
<section><h2>Recoveries</h2><table><tbody id="roads"></tbody></table></section>
<section><h2>The last requests</h2><div class="wide"><table><thead><tr><th>request</th><th>route</th><th>API</th><th>sent</th><th>took</th><th>cost</th><th>ended</th></tr></thead><tbody id="latest"></tbody></table></div></section>
</main>
<dialog id="trail" aria-labelledby="trail-name"><h2 id="trail-name"></h2><ol id="moments"></ol><p><button id="close">Close</button></p></dialog>
<script>${script}</script>
</body>
</html>
`

/** The page loads nothing and is framed by nobody. */
export const dashboardHeaders: Readonly<Record<string, string>> = {
  "content-type": "text/html; charset=utf-8",
  "cache-control": "no-store",
  "content-security-policy":
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer"
}
