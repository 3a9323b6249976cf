/** Codes that say what their HTTP status says already. A file of its own: the machine needs it, and no profile. */

/** Codes, without case and punctuation, that name a refused request and say no more than its status. */
const statusWords: ReadonlySet<string> = new Set([
  "",
  "error",
  "apierror",
  "badrequest",
  "badrequesterror",
  "invalidargument",
  "invalidrequest",
  "invalidrequesterror",
  "requesttoolarge",
  "unprocessableentity",
  "unprocessableentityerror"
])

/** Whether a code tells nothing beyond its status: the answer is bare, whatever a wire calls every refused request. */
export const isBare = (code: string | null, status: number): boolean =>
  code === null || code === String(status) || statusWords.has(code.toLowerCase().replace(/[^a-z]/g, ""))
