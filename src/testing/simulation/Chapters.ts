import type { Step } from "../../client/workflow/Step.js"
import type { NewJob } from "../../queue/NewJob.js"
import type { Signal } from "../../queue/workflow/Workflows.js"

// What executions of the simulation do beside steps, sleeps and children, in every second seed. Each has one chapter, or
// none, by its number: a seed has a dozen executions, and more in each would cost time without another order of events.

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
}

type Chapter = "none" | "messages" | "beats" | "lines"

const chapters: ReadonlyArray<Chapter> = ["none", "messages", "beats", "lines"]

const chapterOf = (seed: number, n: number): Chapter =>
  (seed % 2 === 0 ? chapters[n % chapters.length] : undefined) ?? "none"

/** What the client sends to the execution of a job: the first message before it starts, the other one after that. */
export const messagesTo = (seed: number, n: number, { dedupe }: NewJob): ReadonlyArray<Signal> => {
  if (chapterOf(seed, n) !== "messages" || dedupe === undefined) return []
  return [1, 2].map((value) => ({ execution: dedupe.key, name: `message ${value}`, value }))
}

const receive = async ({ expect, step }: Story, expected: number) => {
  const value = await step.waitFor<number>(`message ${expected}`)
  expect("messages", value === expected, `received message ${value} in place of ${expected}`)
}

/** Continues with a new journal while a message is unread. Nothing comes before it, because nothing could undo that. */
export const begin = async (story: Story): Promise<void> => {
  const { n, part, seed, step } = story
  if (chapterOf(seed, n) !== "messages" || part > 0) return
  await receive(story, 1)
  await step.continueAs({ n, part: 1 })
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

/** Runs the chapter of an execution. */
export const run = async (story: Story): Promise<void> => {
  const chapter = chapterOf(story.seed, story.n)
  if (chapter === "messages") await receive(story, 2)
  if (chapter === "beats") await beats(story)
  if (chapter === "lines") await lines(story)
}
