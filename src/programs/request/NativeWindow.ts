/**
 * What is sent of a native request: the caller's own bytes, or those bytes with what recovery had to change. Local to one
 * logical request; the caller's text is never touched.
 */
import type { Message, ToolSpec } from "../../domain/chat/Message.ts"
import type { AttemptPlan } from "../../domain/recovery/AttemptPlan.ts"
import type { Route } from "../../domain/recovery/RecoveryPolicy.ts"
import type { NativeWire, RequestView, UsageRepair } from "../../domain/wires/native/NativeWire.ts"
import { keptFrom, unitsOf } from "../../domain/wires/native/patch.ts"
import { summaryMessage } from "../../domain/chat/RequestWindow.ts"
import type { ModelReply } from "../../domain/chat/ModelReply.ts"
import type { TokenEstimate } from "../../services/Overrides.ts"

export interface NativeWindowOptions {
  readonly wire: NativeWire
  readonly view: RequestView
  readonly text: string
  readonly continuationPrompt: string
  readonly estimate: (typeof TokenEstimate)["Service"]
  /** The route that the caller's own bytes are for. */
  readonly isHome: (route: Route) => boolean
}

export interface OldItems {
  readonly messages: ReadonlyArray<Message>
  readonly until: number
}

export class NativeWindow {
  private readonly options: NativeWindowOptions
  readonly fragments: Array<string> = []
  private summary: { readonly text: string; readonly until: number } | null = null
  private measured: number | null = null
  private promptBefore: number | null = null
  private earlierOutput = 0

  constructor(options: NativeWindowOptions) {
    this.options = options
  }

  /** Estimated tokens of what would be sent now. */
  promptTokens(): number {
    this.measured ??= Math.max(0, Math.ceil(this.options.estimate(this.messages(), this.tools())))
    return this.measured
  }

  private tools(): ReadonlyArray<ToolSpec> {
    const { wire, view } = this.options
    return view.hasTools ? wire.toolsOf(view.tools) : []
  }

  private base(): ReadonlyArray<Message> {
    const { wire, view } = this.options
    const { items } = view
    if (this.summary === null) return wire.messagesOf(items)
    return [
      ...wire.messagesOf(items.slice(0, view.leading)),
      summaryMessage(this.summary.text),
      ...wire.messagesOf(items.slice(this.summary.until))
    ]
  }

  private messages(): ReadonlyArray<Message> {
    return [...this.base(), ...this.added(this.options.continuationPrompt)]
  }

  private added(prompt: string): ReadonlyArray<Message> {
    return this.fragments.flatMap((fragment): ReadonlyArray<Message> => [
      { role: "assistant", content: fragment },
      { role: "user", content: prompt }
    ])
  }

  get messageCount(): number {
    return this.messages().length
  }

  /** The text for one attempt; the caller's own when nothing has to be different. */
  textFor(plan: AttemptPlan, isRaised: boolean): string {
    const { wire, view, text, continuationPrompt, isHome } = this.options
    const budget = plan.maxOutputTokens
    const isOverCap = view.cap !== null && budget !== null && budget < view.cap
    return wire.patch(text, view, {
      model: plan.route.model,
      maxOutputTokens: isRaised || isOverCap ? plan.maxOutputTokens : null,
      leavesHome: !isHome(plan.route),
      summary: this.summary,
      fragments: this.fragments,
      continuationPrompt
    })
  }

  /** A fragment that the next request goes on from. `reply` = the whole cut reply, when it came to its end. */
  keep(fragment: string, reply: ModelReply | null): void {
    const { estimate } = this.options
    const own: ReadonlyArray<Message> = [{ role: "assistant", content: fragment }]
    if (this.fragments.length === 0) this.promptBefore = reply?.usage.promptTokens ?? null
    this.earlierOutput += reply?.usage.completionTokens ?? Math.ceil(estimate(own, []))
    this.fragments.push(fragment)
    this.measured = null
  }

  /** null = no attempt has gone on from a fragment. */
  get usage(): UsageRepair | null {
    if (this.fragments.length === 0) return null
    return {
      promptTokens: this.promptBefore,
      addedPromptTokens: Math.ceil(this.options.estimate(this.added(this.options.continuationPrompt), [])),
      estimatedPromptTokens: Math.ceil(this.options.estimate(this.base(), this.tools())),
      earlierOutputTokens: this.earlierOutput
    }
  }

  /** Whole units between the leading rules and the last ones; null = there is nothing old. */
  old(keepRecent: number): OldItems | null {
    const { wire, view } = this.options
    const units = unitsOf(view.items, view.leading, wire.sideOf)
    const until = keptFrom(units, keepRecent, view.items.length)
    const items = view.items.slice(view.leading, until)
    return items.length === 0 ? null : { messages: wire.messagesOf(items), until }
  }

  compact(text: string, until: number): void {
    this.summary = { text, until }
    this.measured = null
  }
}
