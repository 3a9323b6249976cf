/**
 * Ids that a client knows and a provider does not: an answer that was repaired keeps the id it began with, the provider
 * keeps the last attempt under another. Whatever the client later asks of the answer is asked of that one.
 */
const realIds = new Map<string, string>()

/** Answers that are remembered; the oldest is forgotten first. */
const remembered = 1_000

export const noteRealId = (shown: string, real: string): void => {
  realIds.delete(shown)
  realIds.set(shown, real)
  for (const oldest of realIds.keys()) {
    if (realIds.size <= remembered) break
    realIds.delete(oldest)
  }
}

/** The provider's id of an answer; null = it is the one given. */
export const realIdOf = (id: string): string | null => realIds.get(id) ?? null

/** An address of a response with the provider's id in it. */
export const withRealId = (url: string): string =>
  realIds.size === 0
    ? url
    : url.replace(/(\/responses\/)([^/?#]+)/, (whole, before: string, id: string) => {
        const real = realIds.get(decodeURIComponent(id))
        return real === undefined ? whole : before + encodeURIComponent(real)
      })
