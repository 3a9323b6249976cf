/** The program for runtimes with a command line: the provider's address is the last argument. */
import { perform } from "./program.mjs"

console.log(await perform(process.argv.at(-1) ?? ""))
