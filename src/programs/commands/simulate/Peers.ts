/** The retry defaults of five other clients, as far as they decide anything here. None has a fallback or a memory. */
import { giveUp, send, type Behaviour } from "./Behaviour.ts"
import { numberAt } from "../numberAt.ts"
import type { Random } from "./Random.ts"

export const peerNames = ["openai", "anthropic", "ai", "langchain", "litellm"] as const
export type PeerName = (typeof peerNames)[number]

interface Peer {
  /** Requests in all. */
  readonly attempts: number
  /** Wait after failure `index`, counted from 0, in milliseconds. */
  readonly backoff: (index: number, random: Random) => number
  /** Wait for a hint; null = the hint is not used. */
  readonly hinted: (hintMillis: number, random: Random) => number | null
  /** Whether a 429 without a hint is repeated. */
  readonly retriesBare429: boolean
}

const halfToEight = (index: number): number => Math.min(8_000, 500 * 2 ** index)

const upTo =
  (limitMillis: number) =>
  (hintMillis: number): number | null =>
    hintMillis <= limitMillis ? hintMillis : null

const peers: Readonly<Record<PeerName, Peer>> = {
  openai: {
    attempts: 3,
    backoff: (index, random) => halfToEight(index) * (1 - 0.25 * random()),
    hinted: upTo(60_000),
    retriesBare429: true
  },
  anthropic: {
    attempts: 3,
    backoff: (index, random) => halfToEight(index) * (1 - 0.25 * random()),
    hinted: upTo(2 ** 31 - 1),
    retriesBare429: true
  },
  ai: {
    attempts: 3,
    backoff: (index) => 2_000 * 2 ** index,
    hinted: upTo(59_999),
    retriesBare429: true
  },
  langchain: {
    attempts: 7,
    backoff: (index, random) => 1_000 * 2 ** index * (1 + random()),
    hinted: () => null,
    retriesBare429: false
  },
  litellm: {
    attempts: 3,
    backoff: (index, random) => halfToEight(index) + 750 * random(),
    hinted: (hintMillis, random) => (hintMillis <= 60_000 ? hintMillis + 750 * random() : null),
    retriesBare429: true
  }
}

export const peerBehaviour = (name: PeerName, requests: number, random: Random): Behaviour => {
  const peer = peers[name]
  const sent = new Uint8Array(requests)
  return {
    arrive: () => {},
    ask: () => send,
    routeOf: () => 0,
    accepted: () => {},
    failed: (request, status, hintMillis) => {
      const failures = numberAt(sent, request) + 1
      sent[request] = failures
      if (failures >= peer.attempts || (status === 429 && hintMillis < 0 && !peer.retriesBare429)) return giveUp
      const hinted = hintMillis < 0 ? null : peer.hinted(hintMillis, random)
      return hinted ?? peer.backoff(failures - 1, random)
    },
    ended: () => {},
    endOf: () => Infinity,
    openBreakers: () => 0
  }
}
