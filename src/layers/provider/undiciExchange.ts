/** The exchange over undici's dispatcher. */
import type { Dispatcher } from "undici"
import { DispatchedExchange, placeOf } from "./DispatchedExchange.ts"
import { withExchange, type Exchange, type Outgoing } from "./exchange.ts"
import * as UndiciFetch from "./undiciFetch.ts"

/** The dispatcher's own words for a request. */
const optionsOf = ({ url, method, headers, body }: Outgoing): Dispatcher.DispatchOptions => {
  const { origin, path } = placeOf(url)
  return { origin, path, method: method as Dispatcher.HttpMethod, headers, body }
}

/** Over the process's shared agent; null = undici is not here. */
export const undiciExchange = (): Exchange | null => {
  const dispatcher = UndiciFetch.processDispatcher()
  if (dispatcher === null) return null
  return (outgoing, told) => {
    const exchange = new DispatchedExchange(told)
    try {
      dispatcher.dispatch(optionsOf(outgoing), exchange)
    } catch (cause) {
      told({ cause })
    }
    return () => exchange.cancel() ?? Promise.resolve()
  }
}

/** The default transport as a fetch, which native requests use without its Responses. */
export const undiciTransport = (): UndiciFetch.Fetch => {
  const exchange = undiciExchange()
  const send = UndiciFetch.make()
  // Elsewhere than in Node the platform's fetch is the transport: it is everybody's.
  return exchange === null ? send : withExchange(send, exchange)
}
