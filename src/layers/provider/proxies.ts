/** Proxies of an environment, as curl and Node read them: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, lower case first. */
import { ConfigurationError } from "../../domain/failure/ConfigurationError.ts"

/** Addresses of proxies; an empty text is none. */
export interface Proxies {
  /** For http addresses, and for https where there is no other. */
  readonly httpProxy: string
  readonly httpsProxy: string
  /** Hosts that are reached directly. */
  readonly noProxy: string
}

export type Environment = Readonly<Record<string, string | undefined>>

const protocols: ReadonlySet<string> = new Set(["http:", "https:", "socks:", "socks5:"])

/** A value as an address; without a scheme it is an http one. An error names the variable, never the value: it may hold a password. */
const addressIn = (name: string, value: string): string => {
  const address = value.includes("://") ? value : `http://${value}`
  const url = URL.canParse(address) ? new URL(address) : null
  if (url === null || url.hostname === "" || !protocols.has(url.protocol))
    throw new ConfigurationError({
      field: name,
      reason: "is set but is not an http, https or socks5 address of a proxy"
    })
  return address
}

/** The first name that is set; a name that is set to nothing switches the proxy off. */
const valueOf = (environment: Environment, name: string): readonly [name: string, value: string] => {
  for (const one of [name.toLowerCase(), name]) {
    const value = environment[one]
    if (value !== undefined) return [one, value.trim()]
  }
  return [name, ""]
}

const proxyIn = (environment: Environment, name: string): string => {
  const [found, value] = valueOf(environment, name)
  return value === "" ? "" : addressIn(found, value)
}

/** null = every address is reached directly. A value that is no address is a ConfigurationError. */
export const proxiesOf = (environment: Environment): Proxies | null => {
  const httpProxy = proxyIn(environment, "HTTP_PROXY")
  const httpsProxy = proxyIn(environment, "HTTPS_PROXY")
  const noProxy = valueOf(environment, "NO_PROXY")[1]
  return httpProxy === "" && httpsProxy === "" ? null : { httpProxy, httpsProxy, noProxy }
}
