/**
 * One native request under the loop: bytes in the API's own form go up, the API's own answer comes down. The driver keeps
 * what was sent and what was shown; what happens next is the machine's decision as it is for every other caller.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import { isJson, parsedObject } from "../../domain/chat/json.ts"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import * as Usage from "../../domain/chat/Usage.ts"
import { makeModelError, type ModelError } from "../../domain/failure/ModelError.ts"
import type { AttemptPlan } from "../../domain/recovery/AttemptPlan.ts"
import type { Outcome, Seen } from "../../domain/recovery/Outcome.ts"
import { outcomeOfError, outcomeOfReply } from "../../domain/recovery/outcomeOf.ts"
import type { RecoveryAction } from "../../domain/recovery/RecoveryAction.ts"
import type { Route } from "../../domain/recovery/RecoveryPolicy.ts"
import type { NativeWire, RequestView } from "../../domain/wires/native/NativeWire.ts"
import { readBodyRoughly, readerOf, roughReply } from "../../domain/wires/native/roughReading.ts"
import type { Verdict } from "../../domain/provider/classify.ts"
import type { Flaw } from "../../domain/wires/wireReply.ts"
import type { TokenEstimate } from "../../services/Overrides.ts"
import type { RequestFailure } from "../../services/Recovery.ts"
import type { Summarizer } from "../../services/Summarizer.ts"
import type { Transcript } from "../../services/Transcript.ts"
import type { AttemptDriver } from "./AttemptDriver.ts"
import type { Progress } from "./attemptWatch.ts"
import { withLine } from "./ByteSource.ts"
import type { NativeAnswer, NativeHead, NativeOut, NativeSender } from "./NativeSender.ts"
import { isProblem, NativeView, type Brought } from "./NativeView.ts"
import { NativeWindow } from "./NativeWindow.ts"
import type { Meter } from "./httpRequest.ts"
import { recover } from "./recover.ts"
import type { RecoverOptions } from "./Run.ts"
import { summaryOf } from "./shorten.ts"

export interface NativeRequestOptions {
  readonly loop: RecoverOptions
  readonly wire: NativeWire
  readonly view: RequestView
  /** The body as the caller sent it. */
  readonly text: string
  readonly sender: NativeSender
  readonly out: NativeOut
  /** Nothing of a stream is shown before it is whole. */
  readonly isVerified: boolean
  /** A length stop is a value. */
  readonly passTruncated: boolean
  readonly isHome: (route: Route) => boolean
  readonly estimate: (typeof TokenEstimate)["Service"]
  /** Asked for when the window has to be compacted. */
  readonly summarizer: () => (typeof Summarizer)["Service"]
  readonly transcript: (typeof Transcript)["Service"] | null
  /** A comment to put before the last event of a stream, when it is known what the request cost; null = none. */
  readonly closing: (() => string | null) | null
}

/** What a native request ends with when it is whole. */
export interface NativeReply {
  readonly head: NativeHead
  /** The body of an answer that is no stream; null = it was written to `out`. */
  readonly body: Uint8Array | null
  readonly reply: ModelReply
  /** Ids of items that the client has and the provider does not. */
  readonly deadItems: ReadonlyArray<string>
  /** The answer's id for the client, and the provider's own; null = they are the same. */
  readonly renamed: { readonly shown: string; readonly real: string } | null
}

/** How long usage and the wire's own end may come behind a finish reason, and how long a server may take to close. */
const endingGraceMillis = 5_000
const closingGraceMillis = 250

const decoder = new TextDecoder()
const encoder = new TextEncoder()

const joined = (reads: ReadonlyArray<Uint8Array>): Uint8Array => {
  const [first] = reads
  if (reads.length === 1 && first !== undefined) return first
  const all = new Uint8Array(reads.reduce((sum, read) => sum + read.length, 0))
  let at = 0
  for (const read of reads) {
    all.set(read, at)
    at += read.length
  }
  return all
}

/** One request on its way: window, view and what the last attempt brought. */
class NativeRun {
  readonly options: NativeRequestOptions
  readonly window: NativeWindow
  readonly shownView: NativeView
  readonly now: () => number
  /** Choices of a chat answer that is read roughly; null = the strict reader will do. */
  readonly choices: number | null
  head: NativeHead | null = null
  body: Uint8Array | null = null
  last: ModelReply | null = null
  aside: ModelReply | null = null
  isOpen = false
  isRaised = false
  /** The stream that the next attempt takes up again; null = it begins anew. */
  taken: { readonly id: string; readonly after: number } | null = null
  /** Times in this request that taking it up has failed. */
  failedTakeUps = 0
  /** The provider does not hand out the rest of this answer. */
  isLost = false
  private readonly pending: Array<Uint8Array> = []

  constructor(options: NativeRequestOptions, now: () => number) {
    const { wire, view, text, isHome, estimate } = options
    this.options = options
    this.now = now
    this.window = new NativeWindow({
      wire,
      view,
      text,
      continuationPrompt: options.loop.policy.continuationPrompt,
      estimate,
      isHome
    })
    const n: unknown = view.only === null ? null : (parsedObject(text)?.["n"] ?? 1)
    this.choices = view.only === null ? null : typeof n === "number" ? Math.max(1, n) : 1
    this.shownView = new NativeView({
      wire,
      isVerified: options.isVerified,
      isRough: view.only !== null,
      limits: options.loop.policy.answerLimits,
      write: (bytes) => this.write(bytes)
    })
  }

  /** Verified bytes wait until the answer is whole: they may be committed, and are not shown. */
  private write(bytes: Uint8Array): void {
    if (this.options.isVerified) {
      this.pending.push(bytes)
      return
    }
    this.open()
    this.options.out.write(bytes)
  }

  private open(): void {
    if (this.isOpen || this.head === null) return
    this.isOpen = true
    this.options.out.open(this.head)
  }

  /** Everything that is left goes to the client. */
  complete(): void {
    this.shownView.complete(this.window.usage, this.options.closing?.() ?? null)
    this.open()
    for (const bytes of this.pending.splice(0)) this.options.out.write(bytes)
  }

  get seen(): Seen {
    const { shown, replayDiffers } = this.shownView
    return {
      delivered: shown.text.length,
      unfinishable: this.shownView.isUnfinishable(),
      replayDiffers
    }
  }

  /** What is on screen can neither be dropped nor gone on from: no further attempt can make it right. */
  get isStuck(): boolean {
    const { shown, replayDiffers } = this.shownView
    if (shown.other) return true
    return this.options.view.isStructured && replayDiffers
  }
}

/** Tells timers and receipt what an event has brought. */
const note =
  (meter: Meter, progress: Progress) =>
  (brought: Brought): void => {
    if (brought.usage !== null) meter.usage = Usage.update(meter.usage, brought.usage)
    if (brought.text === null && !brought.reasoning && !brought.call) return
    // The events of one read came at one instant.
    progress.firstDeltaAt ??= progress.lastByteAt
    progress.lastDeltaAt = progress.lastByteAt
  }

/** Waiting for the client is not the provider's silence: the timers are told. */
const makeRoom = (run: NativeRun, progress: Progress): Effect.Effect<void> => {
  const room = run.options.out.room()
  if (room === null) return Effect.void
  progress.blocked = true
  return Effect.map(room, () => {
    const at = run.now()
    progress.blocked = false
    progress.lastByteAt = at
    if (progress.firstDeltaAt !== null) progress.lastDeltaAt = at
  })
}

/** The bytes are one JSON value. */
const isWholeBody = (reads: ReadonlyArray<Uint8Array>): boolean => isJson(decoder.decode(joined(reads)))

const isBlank = (byte: number): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

/** A body on its way: what has come of it, and whether it could be the whole by how it ends. */
class Arriving {
  readonly reads: Array<Uint8Array> = []
  size = 0
  /** Since when it ends like a JSON value; null = it does not, or was found to be none. */
  endedAt: number | null = null

  add(read: Uint8Array, at: number): void {
    this.reads.push(read)
    this.size += read.length
    let last = read.length - 1
    while (last >= 0 && isBlank(read[last] ?? 0)) last -= 1
    if (last < 0) return
    this.endedAt = read[last] === 0x7d || read[last] === 0x5d ? at : null
  }
}

/**
 * The whole body. One that is whole is waited behind for a while only: an open line, and one that breaks off, change
 * nothing then. Whether it is whole is looked at when nothing more comes.
 */
const readWhole = (
  answer: NativeAnswer,
  first: Uint8Array | null,
  progress: Progress,
  run: NativeRun
): Effect.Effect<Uint8Array, ModelError> => {
  const { replyBytes } = run.options.loop.policy.answerLimits
  const arriving = new Arriving()
  if (first !== null) arriving.add(first, run.now())
  const take = (read: Uint8Array): boolean => {
    progress.lastByteAt = run.now()
    arriving.add(read, progress.lastByteAt)
    return arriving.size <= replyBytes
  }
  const patience = (): number =>
    arriving.endedAt === null ? Infinity : Math.max(0, arriving.endedAt + endingGraceMillis - run.now())
  const isWhole = (): boolean => arriving.endedAt !== null && isWholeBody(arriving.reads)
  const onward = (): Effect.Effect<Uint8Array, ModelError> =>
    Effect.matchEffect(answer.flow(take, patience), {
      onFailure: (error) => (isWhole() ? Effect.succeed(joined(arriving.reads)) : Effect.fail(error)),
      onSuccess: (isOver) => {
        if (isOver) return Effect.succeed(joined(arriving.reads))
        if (arriving.size > replyBytes)
          return Effect.fail(answer.problem({ kind: "malformed_response", code: "answer_too_large", usage: null }))
        if (isWhole()) return Effect.succeed(joined(arriving.reads))
        arriving.endedAt = null
        return onward()
      }
    })
  return onward()
}

/** An empty continuation says that there is nothing left to say. */
const orNothingMore = (run: NativeRun, answer: NativeAnswer, problem: Flaw | Verdict): ModelReply | Flaw | Verdict =>
  problem.kind === "empty_reply" && !("inBand" in problem) && run.window.fragments.length > 0
    ? roughReply(answer.context, "", "stop", problem.usage)
    : problem

const readBody = (run: NativeRun, answer: NativeAnswer, progress: Progress): Effect.Effect<ModelReply, ModelError> =>
  Effect.flatMap(readWhole(answer, null, progress, run), (bytes) => {
    const read = readBodyRoughly(run.options.wire, answer.context, decoder.decode(bytes), answer.allowed)
    const reply = Result.isSuccess(read) ? read.success : orNothingMore(run, answer, read.failure)
    if (isProblem(reply)) return Effect.fail(answer.problem(reply))
    run.head = answer.head
    run.body = bytes
    return Effect.succeed(reply)
  })

/** The first read tells what the body is, whatever its content type says. */
const isBody = (first: Uint8Array): boolean => /^[\s\uFEFF]*[{[]/.test(decoder.decode(first.subarray(0, 64)))

/** The server still works on what it was asked for: its stream, or its end, is asked for again. */
const isUnderWay = (text: string): boolean => {
  const status = parsedObject(text)?.["status"]
  return status === "queued" || status === "in_progress"
}

/** A body in place of a stream: read as a whole and shown as the events it would have been. */
const readAsEvents = Effect.fnUntraced(function* (
  run: NativeRun,
  answer: NativeAnswer,
  first: Uint8Array,
  progress: Progress
): Effect.fn.Return<ModelReply, ModelError> {
  const text = decoder.decode(yield* readWhole(answer, first, progress, run))
  if (run.taken !== null && isUnderWay(text))
    return yield* Effect.fail(answer.problem({ kind: "interrupted", code: "still_running", usage: null }))
  const read = readBodyRoughly(run.options.wire, answer.context, text, answer.allowed)
  if (Result.isFailure(read)) return yield* Effect.fail(answer.problem(read.failure))
  const { lines } = answer.head
  run.head = { ...answer.head, lines: withLine(lines, "content-type", "text/event-stream") }
  // The whole of what was shown in part: it begins again, and what the client has is not shown again.
  if (run.taken !== null) {
    run.shownView.splice()
    run.shownView.begin(readerOf(run.options.wire, answer.context, answer.allowed, run.choices))
  }
  const body = parsedObject(text)
  if (body !== null) run.shownView.asEvents(body)
  const reply = run.shownView.end(run.window.usage, () => undefined)
  return isProblem(reply) ? yield* Effect.fail(answer.problem(reply)) : reply
})

/** One stream that is read: what ended its reading before its end. */
interface Reading {
  isFirst: boolean
  /** The first read, where it is that of a body. */
  body: Uint8Array | null
  problem: Flaw | Verdict | null
  /** When the answer said that it ends, or the wire did. */
  endingFrom: number
}

/** Takes one read; false = something has to be done before the next. */
const takerOf = (run: NativeRun, answer: NativeAnswer, reading: Reading, meter: Meter, progress: Progress) => {
  const { shownView, window } = run
  const onBrought = note(meter, progress)
  return (bytes: Uint8Array): boolean => {
    const { finished, done } = shownView
    progress.lastByteAt = run.now()
    if (reading.isFirst && bytes.length > 0) {
      reading.isFirst = false
      if (isBody(bytes)) {
        reading.body = bytes
        return false
      }
      run.head ??= answer.head
    }
    const problem = shownView.feed(bytes, window.usage, onBrought)
    // Behind the word that ends an answer only the wire's own end changes anything.
    if (shownView.finished) {
      if (!finished || shownView.done !== done) reading.endingFrom = progress.lastByteAt
      return true
    }
    reading.problem = problem
    return problem === null && !(run.isOpen && run.options.out.room() !== null)
  }
}

/** Reads until something has to be done; true = the body has ended. */
const readOn = (
  run: NativeRun,
  answer: NativeAnswer,
  take: (bytes: Uint8Array) => boolean,
  reading: Reading
): Effect.Effect<boolean, ModelError> => {
  const { shownView } = run
  // The reply is whole: a connection that stays open or breaks now changes nothing.
  const patience = (): number =>
    shownView.finished
      ? Math.max(0, reading.endingFrom + (shownView.done ? closingGraceMillis : endingGraceMillis) - run.now())
      : Infinity
  return Effect.matchEffect(answer.flow(take, patience), {
    onFailure: (error) => (shownView.finished ? Effect.succeed(true) : Effect.fail(error)),
    onSuccess: (isOver) => Effect.succeed(isOver || shownView.finished)
  })
}

const readStream = (
  run: NativeRun,
  answer: NativeAnswer,
  meter: Meter,
  progress: Progress
): Effect.Effect<ModelReply, ModelError> => {
  const { shownView, window } = run
  const reading: Reading = { isFirst: true, body: null, problem: null, endingFrom: run.now() }
  const take = takerOf(run, answer, reading, meter, progress)
  const onward = (): Effect.Effect<ModelReply, ModelError> =>
    Effect.flatMap(readOn(run, answer, take, reading), (isOver) => {
      if (reading.body !== null) return readAsEvents(run, answer, reading.body, progress)
      if (reading.problem !== null) return Effect.fail(answer.problem(reading.problem))
      if (!isOver) return run.isOpen ? Effect.flatMap(makeRoom(run, progress), onward) : onward()
      const read = shownView.end(window.usage, note(meter, progress))
      const reply = isProblem(read) ? orNothingMore(run, answer, read) : read
      return isProblem(reply) ? Effect.fail(answer.problem(reply)) : Effect.succeed(reply)
    })
  return onward()
}

/** Headers have come: the answer is read to its end. */
const receive = (
  run: NativeRun,
  answer: NativeAnswer,
  meter: Meter,
  progress: Progress,
  accepted: Effect.Effect<void>
): Effect.Effect<ModelReply, ModelError> => {
  meter.began = true
  progress.headersAt = run.now()
  progress.lastByteAt = progress.headersAt
  if (!run.isOpen) run.head = null
  const { wire, view } = run.options
  if (run.taken === null) run.shownView.begin(readerOf(wire, answer.context, answer.allowed, run.choices))
  else run.shownView.takeUp()
  const read = view.streams ? readStream(run, answer, meter, progress) : readBody(run, answer, progress)
  return Effect.andThen(
    accepted,
    Effect.map(read, (reply) => {
      if (!run.isOpen) run.head ??= answer.head
      run.last = reply
      return reply
    })
  )
}

/** Tries at a stream that the provider may have kept, before it is asked anew: few providers keep one. */
const takeUps = 2

const goneFor = (run: NativeRun, error: ModelError): ModelError => {
  if (run.taken === null || run.options.view.isBackground) return error
  run.failedTakeUps += 1
  const mayPass = error.status === null || error.status >= 500
  if (mayPass && run.failedTakeUps < takeUps) return error
  // What the provider has not kept is a stream that broke off.
  run.isLost = true
  return makeModelError({ kind: "interrupted", status: null, code: "not_kept", model: error.model })
}

const send = (run: NativeRun, plan: AttemptPlan): Effect.Effect<NativeAnswer, ModelError, Scope.Scope> => {
  const { sender } = run.options
  if (run.taken === null) return sender.send(plan.route, run.window.textFor(plan, run.isRaised))
  return Effect.mapError(sender.takeUp(plan.route, run.taken.id, run.taken.after), (error) => goneFor(run, error))
}

const classify = (
  run: NativeRun,
  result: Result.Result<ModelReply, ModelError>,
  plan: AttemptPlan,
  durationMillis: number
): Outcome => {
  const { loop, view, passTruncated } = run.options
  // A text in a form that was asked for is raised, never continued: behind the raise it is what it is.
  const isValue = passTruncated || (view.isStructured && run.isRaised)
  const outcome = Result.isFailure(result)
    ? outcomeOfError(loop.policy, result.failure, plan, run.seen)
    : outcomeOfReply(result.success, plan, durationMillis, run.seen, isValue)
  // What the server makes on its own is taken up again, and never asked for twice.
  const isStuck = run.isStuck || (view.isBackground && !isKept(run))
  return isStuck && outcome._tag === "Faulted" ? { ...outcome, shouldRetry: false } : outcome
}

/** Whether the provider has kept the stream that broke off. */
const isKept = (run: NativeRun): boolean =>
  run.options.view.streams &&
  run.options.view.isStored &&
  run.shownView.id !== null &&
  run.shownView.sequence >= 0 &&
  !run.shownView.finished &&
  !run.isLost

const prepare = (run: NativeRun, action: RecoveryAction): boolean => {
  const { shownView, window } = run
  const { id, sequence } = shownView
  run.taken = id !== null && action._tag === "Retry" && isKept(run) ? { id, after: sequence } : null
  if (run.taken !== null) return false
  switch (action._tag) {
    case "Continue":
      return goOn(run)
    case "Escalate":
      run.aside = run.last
      run.isRaised = true
      break
    default:
  }
  const decided = "shown" in action ? action.shown : "none"
  if (decided === "none") return action._tag === "Escalate"
  if (decided === "resume") {
    window.keep(shownView.shown.text, null)
    shownView.goOn()
    return false
  }
  // A client cannot be told to forget: what was shown is what the next answer has to begin with.
  shownView.splice()
  return action._tag === "Escalate"
}

const goOn = (run: NativeRun): boolean => {
  const { shownView, window, options } = run
  const cut = run.last ?? run.aside
  run.aside = null
  if (!options.view.streams) {
    window.keep(cut?.text ?? "", cut)
    return false
  }
  shownView.commitText(window.usage)
  window.keep(shownView.shown.text, cut)
  shownView.goOn()
  return false
}

type Compact = AttemptDriver["compact"]

const compact = Effect.fnUntraced(function* (
  run: NativeRun,
  plan: Parameters<Compact>[0],
  book: Parameters<Compact>[1]
): Effect.fn.Return<Effect.Success<ReturnType<Compact>>, Effect.Error<ReturnType<Compact>>> {
  const { window, options } = run
  const { policy, requestId } = options.loop
  const old = window.old(policy.compaction.keepRecentMessages)
  if (old === null) return { _tag: "NothingToCompact" }
  const text = yield* summaryOf({
    requestId,
    all: options.wire.messagesOf(options.view.items),
    old: old.messages,
    route: plan.route,
    summarizer: options.summarizer(),
    transcript: options.transcript,
    book
  })
  const before = window.promptTokens()
  const messagesBefore = window.messageCount
  window.compact(text, old.until)
  return {
    _tag: "Compacted",
    before,
    after: window.promptTokens(),
    messagesBefore,
    messagesAfter: window.messageCount
  }
})

const fragmentText = (run: NativeRun): string => run.window.fragments.join("")

const driverOf = (run: NativeRun): AttemptDriver => ({
  streaming: run.options.view.streams,
  promptTokens: () => run.window.promptTokens(),
  // The caller's own request: the provider has the say.
  fault: () => null,
  attempt: (plan, meter, progress, accepted) => {
    run.last = null
    return Effect.scoped(Effect.flatMap(send(run, plan), (answer) => receive(run, answer, meter, progress, accepted)))
  },
  classify: (result, plan, durationMillis) => classify(run, result, plan, durationMillis),
  prepare: (action) => Effect.sync(() => prepare(run, action)),
  compact: (plan, book) => compact(run, plan, book),
  merge: (last) =>
    run.window.fragments.length === 0 || last.refusal !== null
      ? last
      : { ...last, text: fragmentText(run) + (last.text ?? "") },
  partial: () => {
    const cut = (run.last ?? run.aside)?.text ?? ""
    const { text } = run.shownView.shown
    const all = fragmentText(run) + (text === "" ? cut : text)
    return all === "" ? null : all
  }
})

const bodyOf = (run: NativeRun): Uint8Array | null => {
  const { window, body, options } = run
  const usage = window.usage
  if (body === null || usage === null) return body
  const parsed = parsedObject(decoder.decode(body))
  return parsed === null
    ? body
    : encoder.encode(JSON.stringify(options.wire.mergedBody(parsed, fragmentText(run), usage)))
}

const renamedBy = (run: NativeRun): NativeReply["renamed"] => {
  const { shownId: shown, id: real } = run.shownView
  return shown === null || real === null || shown === real ? null : { shown, real }
}

/** How long a provider may take to hear that nobody waits. */
const givingUp = "5 seconds"

/** A server that goes on without us is told to stop; whether it hears that changes nothing for a caller who has left. */
const giveUp = (run: NativeRun): Effect.Effect<void> => {
  const { view, sender, loop } = run.options
  const { id, finished } = run.shownView
  if (!view.isBackground || id === null || finished) return Effect.void
  return sender.giveUp(loop.policy.routes[0], id).pipe(Effect.timeoutOption(givingUp), Effect.ignoreCause)
}

/** A native request, recovered. What it fails with says nothing of what a client has seen by then. */
export const nativeRequest = (options: NativeRequestOptions): Effect.Effect<NativeReply, RequestFailure> =>
  Effect.withFiber((fiber) => {
    const clock = fiber.getRef(Clock.Clock)
    const run = new NativeRun(options, () => Number(clock.monotonicTimeNanosUnsafe()) / 1e6)
    const recovered = recover(options.loop, driverOf(run))
    // Only what the server makes on its own has to be told that nobody waits.
    const watched = options.view.isBackground ? Effect.onInterrupt(recovered, () => giveUp(run)) : recovered
    return Effect.flatMap(watched, (reply) => replyOf(run, reply))
  })

const replyOf = (run: NativeRun, reply: ModelReply): Effect.Effect<NativeReply> => {
  const { streams } = run.options.view
  if (streams) run.complete()
  const { head } = run
  if (head === null) return Effect.die(new Error("a whole answer has no head"))
  const { deadItems } = run.shownView
  return Effect.succeed({ head, body: streams ? null : bodyOf(run), reply, deadItems, renamed: renamedBy(run) })
}
