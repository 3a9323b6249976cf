/** Writes docs/configuration.md from the tables of variables and of policy fields: `npm run docs`. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { settingVariables } from "../src/programs/commands/settingVariables.ts"
import { presetNames } from "../src/domain/recovery/PolicyField.ts"
import { markdownTable } from "./markdownTable.ts"
import { policyFieldNames, presets } from "../src/domain/recovery/policyFields.ts"
import { policyWords, wordsOf } from "../src/domain/recovery/policyWords.ts"

const variablesTable = markdownTable([
  ["variable", "meaning", "default"],
  ...settingVariables.map(({ name, about, otherwise }) => [`\`${name}\``, about, otherwise])
])

const fieldsTable = markdownTable([
  ["field", "meaning", ...presetNames],
  ...policyFieldNames.map((name) => [
    `\`${name}\``,
    policyWords[name].about,
    ...presetNames.map((preset) => wordsOf(name, presets[preset][name]))
  ])
])

export const configurationPage = `# Configuration

This page is made from the source by \`npm run docs\`.

## Variables of the commands

Flags win over the environment, the environment over a \`.env\` file in the working folder, \`.env\` over defaults. A value
that cannot be used ends the command with exit code 2 and one sentence that names the variable; so does a \`HOLDFAST_*\`
variable that is not in this table, which is most likely misspelt. In \`.env\` a value with \`#\` in it stands in quotes.

\`holdfast config\` shows the resolved table and needs none of the required variables: it lists those that are not set. A
command that sends requests names all of them at once. \`holdfast run --provider embedded\` needs none.

${variablesTable}

Prices are needed for a limit in USD only (\`holdfast run --max-usd N\`): then every model that may be asked must have one, or the
command ends with exit code 2 and names the model before anything is sent. Without a limit a cost that is not known is shown as
unknown.

## Fields of a policy

\`new RecoveryPolicy({ ...RecoveryPolicy.broad, routes })\` takes these fields; what is left out is as in \`strict\`. Spans of time
are any \`Duration.Input\`: \`"30 seconds"\`, or a number of milliseconds. Each route of \`routes\` has a \`model\` and may have
\`client\` (the name of a registered client), \`outputLimit\`, \`contextWindow\` (tokens), \`prices\` (USD per million tokens),
\`tools\` and \`thinking\` (whether the model can call tools, and takes its own thinking back).

${fieldsTable}
`

const path = join(import.meta.dirname, "..", "docs", "configuration.md")
if (process.argv[1] === import.meta.filename) writeFileSync(path, configurationPage)
