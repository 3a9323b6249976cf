import { assert, it } from "@effect/vitest"
import {
  BudgetExceeded,
  ContentFilteredError,
  isAgentError,
  LoopBroken,
  StepLimitReached,
  TruncatedReplyError
} from "../../../src/domain/failure/AgentError.ts"
import { partialOf } from "../../../src/domain/failure/partial.ts"
import { makeModelError } from "../../../src/domain/failure/ModelError.ts"

const fields = { attempts: 1, elapsedMs: 5, trail: [], guidance: "do this" }
const budget = { ...fields, lastOutcome: "none", lastCause: null, lastStatus: null, code: null, model: null }
const ending = { ...fields, steps: 3, lastOutcome: "completed" }
const loop = { ...ending, atCall: 8, count: 8, cycle: 3, tool: "read" }

it.each([
  {
    make: (text: string | null) =>
      new BudgetExceeded({ ...budget, limit: "usd", allowed: 5, spent: 4, reserved: 2, ...partialOf(text) }),
    says: ["5 usd", "4 spent", "2 reserved"]
  },
  {
    make: (text: string | null) => new LoopBroken({ ...loop, detector: "repeat", ...partialOf(text) }),
    says: ["read", "repeat", "8 times"]
  },
  {
    make: (text: string | null) => new LoopBroken({ ...loop, detector: "no_progress", ...partialOf(text) }),
    says: ["read", "no_progress", "8 times"]
  },
  {
    make: (text: string | null) => new LoopBroken({ ...loop, detector: "ping_pong", ...partialOf(text) }),
    says: ["3 tool calls", "8 calls", "read"]
  },
  {
    make: (text: string | null) => new StepLimitReached({ ...ending, maxSteps: 15, ...partialOf(text) }),
    says: ["15 steps"]
  },
  {
    make: (text: string | null) => new ContentFilteredError({ ...ending, ...partialOf(text) }),
    says: ["content filter"]
  },
  { make: (text: string | null) => new TruncatedReplyError({ ...ending, ...partialOf(text) }), says: ["output budget"] }
])("an agent failure says $says, keeps the partial text and shows it to nobody by itself", ({ make, says }) => {
  const error = make("SECRET WORDS")
  for (const words of says) assert.include(error.message, words)
  assert.isTrue(isAgentError(error))
  assert.strictEqual(error.partial, "SECRET WORDS")
  assert.notInclude(`${String(error)} ${error.stack} ${JSON.stringify(error)}`, "SECRET WORDS")
  assert.isNull(make(null).partial)
  assert.isNull(make("").partial)
})

it("no other failure is an agent failure", () => {
  assert.isFalse(isAgentError(makeModelError({ kind: "auth", status: 401 })))
  assert.isFalse(isAgentError(new Error("LoopBroken")))
  assert.isFalse(isAgentError({ _tag: "LoopBroken" }))
  assert.isFalse(isAgentError(Object.assign(new Error("x"), { _tag: 7 })))
})
