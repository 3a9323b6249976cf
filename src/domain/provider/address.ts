/** What may be shown of an address, and whether a key can travel in a header. */

/** Why a key cannot travel in a header; null = it can. White space around it is cut by HTTP. */
export const keyFlaw = (key: string): string | null =>
  /^[\t\x20-\x7e\x80-\xff]*$/.test(key.trim()) ? null : "has a character that no HTTP header can carry"

/** An address for eyes: without user, password and the values of its query, which may be keys. */
export const shownAddress = (address: string): string => {
  const url = new URL(address)
  url.username = ""
  url.password = ""
  for (const name of new URLSearchParams(url.search).keys()) url.searchParams.set(name, "hidden")
  return String(url)
}

/** Host and port of an address, for eyes: no user, no path, no query. null = it is none. */
export const hostAndPort = (address: string): string | null => {
  if (!URL.canParse(address)) return null
  const { protocol, hostname, port } = new URL(address)
  return `${protocol}//${hostname}:${port === "" ? (protocol === "http:" ? 80 : 443) : port}`
}
