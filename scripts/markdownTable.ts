/** A table with columns of equal width, as the formatter leaves it. */
export const markdownTable = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const [head = [], ...body] = rows.map((row) => row.map((cell) => cell.replaceAll("|", "\\|")))
  const widths = head.map((_, column) => Math.max(3, ...[head, ...body].map((row) => row[column]?.length ?? 0)))
  const line = (row: ReadonlyArray<string>): string =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`
  return [line(head), `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...body.map(line)].join("\n")
}
