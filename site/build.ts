/**
 * `npm run site` (after `npm ci --prefix site --ignore-scripts`): gathers README, documents and the API reference, which is
 * made from the source, and builds the site. A link from page to page that leads nowhere ends it.
 */
import { execFileSync } from "node:child_process"
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { dirname, join, posix, relative } from "node:path"

const here = import.meta.dirname
const root = join(here, "..")
const pages = join(here, ".pages")

const bin = (name: string): string => join(here, "node_modules", ".bin", name)
const run = (name: string, args: ReadonlyArray<string>): void => {
  execFileSync(bin(name), args, { cwd: here, stdio: "inherit" })
}

rmSync(pages, { recursive: true, force: true })
mkdirSync(pages)
for (const name of ["TOUR.md", "CHANGELOG.md", "docs"]) cpSync(join(root, name), join(pages, name), { recursive: true })
cpSync(join(root, "README.md"), join(pages, "index.md"))

run("typedoc", ["--options", join(here, "typedoc.json")])

const filesIn = (folder: string): ReadonlyArray<string> =>
  readdirSync(folder).flatMap((name) => {
    const path = join(folder, name)
    return statSync(path).isDirectory() ? filesIn(path) : [path]
  })

/** Links to what is no page (source files, folders) have no place here: their words stay. */
const withoutForeignLinks = (text: string, file: string): string =>
  text.replaceAll(/(?<!!)\[([^\]]+)\]\(([^)\s]+)\)/g, (whole, words: string, target: string) => {
    if (/^[a-z]+:|^#/.test(target)) return whole
    const [path = ""] = target.split("#")
    const wanted = posix.join(posix.dirname(relative(pages, file)), path)
    if (wanted === "README.md") return whole.replace(target, `/${target.slice(path.length)}`)
    // What is nowhere is left for the site's compiler to find.
    const isElsewhere = existsSync(join(root, wanted)) && !existsSync(join(pages, wanted))
    return isElsewhere || wanted.startsWith("..") ? words : whole
  })

/** Angle brackets and braces outside of code are templates to the site's compiler. */
const escaped = (text: string): string =>
  text
    .split(/(```[\s\S]*?```|`[^`\n]*`)/)
    .map((part, at) => (at % 2 === 1 ? part : part.replaceAll("{{", "&#123;&#123;")))
    .join("")

for (const file of filesIn(pages)) {
  if (!file.endsWith(".md")) continue
  mkdirSync(dirname(file), { recursive: true })
  const text = readFileSync(file, "utf8")
  writeFileSync(file, escaped(file.includes("/api/") ? text : withoutForeignLinks(text, file)))
}

run("vitepress", ["build"])
