import type { ChildCall, Step } from "../../client/workflow/Step.js"
import type { Ask } from "../../queue/workflow/Asks.js"
import type { Signal } from "../../queue/workflow/Workflows.js"

// What executions of the simulation do beside steps, sleeps and children. Each has one chapter, or none, by its seed and its
// number: a seed has a dozen executions, and more in each would cost time without another order of events.

/** The run of an execution, for a chapter. */
export interface Story {
  readonly seed: number
  readonly n: number
  /** How often the execution has continued with a new journal. */
  readonly part: number
  readonly step: Step
  /** Waits in virtual time. */
  readonly sleep: (millis: number, signal: AbortSignal) => Promise<void>
  /** Reports what must not happen, with the invariant that it breaks. */
  readonly expect: (invariant: string, holds: boolean, found: string) => void
  /** The code of a step with a limit starts. Returns a function to call at its end. */
  readonly enter: (most: number) => () => void
  /** A child that may misbehave. */
  readonly leaf: (index: number) => ChildCall<unknown>
  /** Whether a child of a step is done. */
  readonly isDone: (step: string, index: number) => boolean
}

type Chapter = "none" | "messages" | "beats" | "lines" | "asks" | "race" | "marks"

/** Chapters by the seed modulo 8, and then by the number of the execution. Other seeds have none. */
const chapters: ReadonlyArray<ReadonlyArray<Chapter>> = Array.from({ length: 8 }, (_, kind) => {
  if (kind % 2 === 0) return ["none", "messages", "beats", "lines"]
  if (kind % 4 === 3) return ["asks", "race", "marks"]
  return kind === 1 ? ["none", "messages"] : ["none"]
})

const chapterOf = (seed: number, n: number): Chapter => {
  const ofSeed = chapters[seed % chapters.length] ?? []
  return ofSeed[n % ofSeed.length] ?? "none"
}

/** Whether the executions of a seed are pinned to the release that runs them first. */
export const arePinned = (seed: number): boolean => seed % 8 === 1

/** What clients do with an execution. */
export interface Mail {
  readonly execution: string
  /** The first is sent before the execution starts. */
  readonly signals: ReadonlyArray<Signal>
  readonly asks: ReadonlyArray<Ask>
  /** How often a client reads what the execution has set. */
  readonly reads: number
  /** Whether an operator lets every release run it. */
  readonly unpins: boolean
}

const messages = [1, 2, 3]
const asked = [1, 2]
const stages = [1, 2, 3]

/** With ids, because the client repeats a request whose answer was lost. */
export const mailTo = (seed: number, n: number, execution: string): Mail => {
  const chapter = chapterOf(seed, n)
  const named = (name: string) => (value: number) => ({ execution, name, value, id: `${name} ${value}` })
  return {
    execution,
    signals: chapter === "messages" ? messages.map(named("message")) : [],
    asks: chapter === "asks" ? asked.map(named("add")) : [],
    reads: chapter === "marks" ? 5 : 0,
    unpins: arePinned(seed) && n % 3 === 0
  }
}

const receive = async ({ expect, step }: Story, expected: number) => {
  const value = await step.next<number>("message")
  expect("messages", value === expected, `received message ${value} in place of ${expected}`)
}

/** A step that takes longer than a run may without heartbeats, and of which one runs at a time. */
const beats = async ({ enter, expect, sleep, step }: Story) => {
  const most = 1
  const code: Parameters<typeof step.run<Promise<void>>>[1] = async ({ heartbeat, lastHeartbeat, signal }) => {
    const leave = enter(most)
    try {
      const from = Number(lastHeartbeat ?? 0)
      expect("heartbeats", from === 0 || from === 1 || from === 2, `goes on from heartbeat ${from}`)
      for (let beat = from + 1; beat <= 2; beat += 1) {
        await sleep(3_000, signal)
        heartbeat(beat)
      }
    } finally {
      leave()
    }
  }
  await step.run("pack", code, { attempts: 3, backoff: "2 seconds", concurrency: most }).catch(() => {})
}

/** What a complete stream of an execution holds. */
export const streamed = [1, 2, 3]

const lines = async ({ expect, sleep, step }: Story) => {
  const code = async function* ({ signal }: { readonly signal: AbortSignal }) {
    for (const line of streamed) {
      yield line
      await sleep(400, signal)
    }
  }
  const written = await step.stream("lines", code, { attempts: 3, backoff: "2 seconds" }).catch(() => undefined)
  if (written !== undefined)
    expect("streams", written.count === streamed.length, `wrote a stream of ${written.count} chunks`)
}

/**
 * Answers each ask with its number among those received, which it sets before. Continues when all have come or time is up: the
 * client cannot ask an execution that has ended, and an operator may run that again.
 */
const answers = async ({ step }: Story) => {
  const added: Array<unknown> = []
  const all = new Promise<void>((resolve) => {
    step.answer("add", async (value) => {
      const number = added.push(value)
      if (number === asked.length) resolve()
      await step.set("added", [...added])
      return number
    })
  })
  await Promise.race([all, step.sleep("timeout", "8 seconds")])
}

/** Continues with the first child that ends. The other one is cancelled. */
const race = async ({ expect, isDone, leaf, step }: Story) => {
  const first = await step.race("rivals", [0, 1], (index) => leaf(10 + index)).catch(() => undefined)
  if (first !== undefined)
    expect("race", isDone("rivals", first.index), `goes on with its child ${first.index}, which is not done`)
}

/** Says how far it is, in a value and in a tag. */
const marks = async ({ step }: Story) => {
  for (const stage of stages) {
    await step.set("stage", stage)
    await step.tag({ stage: String(stage) })
    if (stage !== stages.at(-1)) await step.sleep(`stage ${stage}`, "600ms")
  }
}

/** Continues with a new journal while messages are unread. Nothing comes before it, because nothing could undo that. */
const continued = async (story: Story) => {
  const { n, part, step } = story
  if (part > 0) return
  await receive(story, 1)
  await step.continueAs({ n, part: 1 })
}

/** Runs what comes before the first step: chapters that faults would often miss after it. */
export const begin = async (story: Story): Promise<void> => {
  const chapter = chapterOf(story.seed, story.n)
  if (chapter === "messages") await continued(story)
  if (chapter === "asks") await answers(story)
  if (chapter === "race") await race(story)
  if (chapter === "marks") await marks(story)
}

/** Runs the rest of the chapter, and the children of executions that have had none. */
export const run = async (story: Story): Promise<void> => {
  const chapter = chapterOf(story.seed, story.n)
  if (chapter === "asks" || chapter === "race" || chapter === "marks") return
  if (chapter === "messages") for (const expected of messages.slice(1)) await receive(story, expected)
  if (chapter === "beats") await beats(story)
  if (chapter === "lines") await lines(story)
  await story.step.allSettled("leaves", [1, 2], story.leaf)
}
