/** Options that were given: a field that says undefined is left out, as if nobody had written it. Pure. */

export type Given<A> = { readonly [Name in keyof A]?: Exclude<A[Name], undefined> }

export const given = <A extends object>(options: A): Given<A> => {
  const found: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(options)) if (value !== undefined) found[name] = value
  return found as Given<A>
}
