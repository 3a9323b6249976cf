/** A run over time, drawn for a terminal and as a page of its own: requests per second, success, breakers. */
import type { Timeline } from "./FleetMetrics.ts"
import { cellsOf, tableLegend, type FleetRow } from "./FleetRow.ts"
import type { Scenario } from "./World.ts"

/** One line of a chart. */
export interface Series {
  readonly title: string
  readonly unit: string
  /** One value per step of time. */
  readonly values: ReadonlyArray<number>
  /** Top of the scale; null = the largest value. */
  readonly top: number | null
}

export interface ChartSpan {
  readonly fromSecond: number
  readonly toSecond: number
}

/** From a minute before the event to two and a half minutes after it. */
export const spanOf = (scenario: Scenario): ChartSpan => ({
  fromSecond: Math.max(0, scenario.eventFrom / 1000 - 60),
  toSecond: Math.min(scenario.horizonMillis / 1000, scenario.eventTo / 1000 + 150)
})

const perStep = (span: ChartSpan, steps: number, read: (from: number, to: number) => number): ReadonlyArray<number> => {
  const seconds = span.toSecond - span.fromSecond
  return Array.from({ length: steps }, (_, i) => {
    const from = span.fromSecond + Math.floor((i * seconds) / steps)
    return read(from, Math.max(from + 1, span.fromSecond + Math.floor(((i + 1) * seconds) / steps)))
  })
}

const total = (counts: Int32Array, from: number, to: number): number =>
  counts.subarray(from, to).reduce((sum, count) => sum + count, 0)

const mean = (values: Float64Array, from: number, to: number): number =>
  values.subarray(from, to).reduce((sum, value) => sum + value, 0) / Math.max(1, to - from)

/** What the chart shows of a run, in so many steps of time. */
const seriesOf = (timeline: Timeline, span: ChartSpan, steps: number): ReadonlyArray<Series> => {
  const rate = (counts: Int32Array) => perStep(span, steps, (from, to) => total(counts, from, to) / (to - from))
  return [
    { title: "requests sent", unit: "/s", values: rate(timeline.sent), top: null },
    { title: "rejected", unit: "/s", values: rate(timeline.rejected), top: null },
    {
      title: "success of what ended",
      unit: "%",
      values: perStep(span, steps, (from, to) => {
        const good = total(timeline.completed, from, to)
        const bad = total(timeline.failed, from, to)
        return good + bad === 0 ? 100 : (100 * good) / (good + bad)
      }),
      top: 100
    },
    {
      title: "breakers open (primary)",
      unit: "%",
      values: perStep(span, steps, (from, to) => 100 * mean(timeline.openShare, from, to)),
      top: 100
    }
  ]
}

const blocks = " ▁▂▃▄▅▆▇█"

const topOf = (series: Series): number => series.top ?? Math.max(1, ...series.values)

const spark = (series: Series): string =>
  series.values
    .map((value) => blocks.charAt(Math.round(Math.min(1, value / topOf(series)) * (blocks.length - 1))))
    .join("")

const short = (value: number): string => (value >= 100 ? value.toFixed(0) : value.toFixed(1))

/** Lines of blocks, one per series, over an axis that marks the event. */
export const terminalChart = (timeline: Timeline, scenario: Scenario, width: number): string => {
  const span = spanOf(scenario)
  const series = seriesOf(timeline, span, width)
  const titleWidth = Math.max(...series.map((one) => one.title.length))
  const place = (second: number): number =>
    Math.min(width - 1, Math.floor(((second - span.fromSecond) * width) / (span.toSecond - span.fromSecond)))
  const from = place(scenario.eventFrom / 1000)
  const to = Math.max(from, place(scenario.eventTo / 1000 - 1))
  const axis = Array.from({ length: width }, (_, i) => (i >= from && i <= to ? "━" : "─")).join("")
  const lines = series.map((one) => {
    const ends = `${short(Math.min(...one.values))} to ${short(Math.max(...one.values))} ${one.unit}`
    return `${one.title.padEnd(titleWidth)} ${spark(one)} ${ends}`
  })
  const margin = " ".repeat(titleWidth)
  return [
    ...lines,
    `${margin} ${axis} ━ event`,
    `${margin} ${`${span.fromSecond} s`.padEnd(width - `${span.toSecond} s`.length)}${span.toSecond} s`
  ].join("\n")
}

const escape = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;")

const panelWidth = 720
const panelHeight = 110
const panelGap = 44
const left = 60
const colours = ["#2563eb", "#d97706", "#059669", "#7c3aed", "#dc2626", "#0891b2", "#65a30d", "#db2777", "#64748b"]
/** Lines beyond the list share one colour. */
const colourOf = (place: number): string => colours[place] ?? "#000000"

/** A run with its name, for charts that compare. */
export interface NamedTimeline {
  readonly name: string
  readonly timeline: Timeline
}

const panel = (
  index: number,
  title: string,
  lines: ReadonlyArray<Series>,
  scenario: Scenario,
  span: ChartSpan
): string => {
  const y = 30 + index * (panelHeight + panelGap)
  const top = Math.max(...lines.map(topOf))
  const x = (second: number): number =>
    left + ((second - span.fromSecond) / (span.toSecond - span.fromSecond)) * panelWidth
  const from = x(scenario.eventFrom / 1000)
  const eventWidth = x(scenario.eventTo / 1000) - from
  const paths = lines.map((line, place) => {
    const points = line.values
      .map((value, i) => {
        const px = left + (i / Math.max(1, line.values.length - 1)) * panelWidth
        return `${px.toFixed(1)},${(y + panelHeight - Math.min(1, value / top) * panelHeight).toFixed(1)}`
      })
      .join(" ")
    return `<polyline points="${points}" fill="none" stroke="${colourOf(place)}" stroke-width="1.5"/>`
  })
  return [
    `<rect x="${from.toFixed(1)}" y="${y}" width="${eventWidth.toFixed(1)}" height="${panelHeight}" fill="#fee2e2"/>`,
    `<path d="M${left} ${y}V${y + panelHeight}H${left + panelWidth}" fill="none" stroke="#94a3b8"/>`,
    `<text x="${left}" y="${y - 8}" font-weight="bold">${escape(title)}</text>`,
    `<text x="${left - 6}" y="${y + 10}" text-anchor="end">${short(top)}</text>`,
    `<text x="${left - 6}" y="${y + panelHeight}" text-anchor="end">0</text>`,
    `<text x="${left}" y="${y + panelHeight + 14}">${span.fromSecond} s</text>`,
    `<text x="${left + panelWidth}" y="${y + panelHeight + 14}" text-anchor="end">${span.toSecond} s</text>`,
    ...paths
  ].join("\n")
}

/** One drawing without scripts, fonts or links: the event in red, one line per policy. */
export const svgOf = (runs: ReadonlyArray<NamedTimeline>, scenario: Scenario): string => {
  const span = spanOf(scenario)
  const steps = 180
  const all = runs.map((run) => seriesOf(run.timeline, span, steps))
  const panels = all
    .slice(0, 1)
    .flat()
    .map((first, index) =>
      panel(
        index,
        `${first.title} (${first.unit})`,
        all.flatMap((series) => series.slice(index, index + 1)),
        scenario,
        span
      )
    )
  const legendY = 30 + panels.length * (panelHeight + panelGap)
  const legend = runs.map((run, i) => {
    const x = left + (i % 6) * 120
    const y = legendY + Math.floor(i / 6) * 18
    return `<rect x="${x}" y="${y - 9}" width="12" height="4" fill="${colourOf(i)}"/><text x="${x + 18}" y="${y - 3}">${escape(run.name)}</text>`
  })
  const height = legendY + Math.ceil(runs.length / 6) * 18 + 10
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${left + panelWidth + 20} ${height}" font-family="system-ui, sans-serif" font-size="12" role="img">`,
    `<title>${escape(scenario.name)} over time</title>`,
    `<rect width="100%" height="100%" fill="#ffffff"/>`,
    ...panels,
    ...legend,
    "</svg>"
  ].join("\n")
}

/** A page that needs nothing but itself. */
export const htmlOf = (
  title: string,
  rows: ReadonlyArray<FleetRow>,
  runs: ReadonlyArray<NamedTimeline>,
  scenario: Scenario
): string => {
  const [head = [], ...body] = cellsOf(rows)
  const line = (cells: ReadonlyArray<string>, tag: string): string =>
    `<tr>${cells.map((cell) => `<${tag}>${escape(cell)}</${tag}>`).join("")}</tr>`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>${escape(title)}</title>
<style>
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 860px; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
td, th { border-bottom: 1px solid #cbd5e1; padding: 0.2rem 0.6rem; text-align: right; }
td:first-child, th:first-child { text-align: left; }
</style>
</head>
<body>
<h1>${escape(title)}</h1>
<table>
${line(head, "th")}
${body.map((cells) => line(cells, "td")).join("\n")}
</table>
${tableLegend.map((sentence) => `<p>${escape(sentence)}</p>`).join("\n")}
<p>The event is marked in red.</p>
${svgOf(runs, scenario)}
</body>
</html>
`
}
