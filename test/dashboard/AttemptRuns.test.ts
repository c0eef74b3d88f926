import { beforeAll, describe, expect, it } from "vitest"

interface Run {
  readonly attempt: number
  readonly outcome: string
  readonly from: number
  readonly to: number | undefined
  readonly error: string | null
}

/** The module under test. The pages are compiled with other settings, so its own types cannot be imported. */
interface AttemptRuns {
  readonly runsOf: (job: object) => ReadonlyArray<Run>
  readonly differing: (text: string, other: string) => ReadonlyArray<string>
  readonly linesOf: (logs: object, runs: ReadonlyArray<Run>, run: Run) => ReadonlyArray<{ readonly message: string }>
  readonly droppedOf: (logs: object, runs: ReadonlyArray<Run>, run: Run) => number
  readonly durationChange: (seconds: number, before: number) => string | undefined
}

let attempts: AttemptRuns

beforeAll(async () => {
  attempts = await import(new URL("../../src/dashboard/app/AttemptRuns.ts", import.meta.url).href)
})

const at = (second: number) => new Date(Date.UTC(2026, 0, 31, 9, 0, second)).toISOString()

const entry = (
  attempt: number,
  from: number,
  to: number,
  outcome = "failed",
  message: string | null = "Error: no"
) => ({
  attempt,
  pod: "p",
  startedAt: at(from),
  endedAt: at(to),
  outcome,
  message
})

const runsOf = (more: object) =>
  attempts.runsOf({ attempt: 1, state: "dead", history: [], pod: null, startedAt: null, finishedAt: null, ...more })

const line = (second: number, message: string) => ({
  at: at(second),
  level: "info",
  message,
  step: null,
  error: null,
  fields: null
})

describe("the runs of a job", () => {
  it("are those of its history, and the one that runs or succeeded", () => {
    const history = [entry(1, 0, 1), entry(2, 5, 7, "timed_out", "Error: slow\n    at x")]
    expect(
      runsOf({ history, startedAt: at(5), finishedAt: at(7) }).map(({ error, outcome }) => [outcome, error])
    ).toEqual([
      ["failed", "Error: no"],
      ["timed out", "Error: slow"]
    ])
    const running = runsOf({ history, state: "running", attempt: 3, startedAt: at(9), pod: "q" })
    expect(running.at(-1)).toEqual({
      attempt: 3,
      outcome: "running",
      from: Date.parse(at(9)),
      to: undefined,
      pod: "q",
      error: null,
      message: null
    })
    const done = runsOf({ history, state: "done", attempt: 3, startedAt: at(9), finishedAt: at(10) })
    expect(done.at(-1)).toMatchObject({ outcome: "done", to: Date.parse(at(10)) })
    expect(runsOf({ state: "pending" })).toEqual([])
  })

  it("include a success that its history already has, once", () => {
    const history = [entry(1, 0, 1, "done", "a cancel was requested too late")]
    expect(runsOf({ history, state: "done", startedAt: at(0), finishedAt: at(1) })).toHaveLength(1)
  })

  it("share the log of their attempt by time", () => {
    const history = [entry(1, 10, 20, "crashed"), entry(1, 30, 40), entry(2, 50, 60)]
    const runs = runsOf({ history })
    const logs = {
      attempts: [
        { attempt: 1, dropped: 4, lines: [line(9, "early"), line(15, "a"), line(21, "b"), line(30, "c")] },
        { attempt: 2, dropped: 0, lines: [line(1, "d")] }
      ]
    }
    const texts = runs.map((run) => attempts.linesOf(logs, runs, run).map(({ message }) => message))
    expect(texts).toEqual([["early", "a", "b"], ["c"], ["d"]])
    expect(runs.map((run) => attempts.droppedOf(logs, runs, run))).toEqual([4, 0, 0])
  })
})

describe("differences between attempts", () => {
  it.each([
    ["timeout after 30 s at db-1", "timeout after 60 s at db-1", ["timeout after ", "60", " s at db-1"]],
    ["same", "same", ["same", "", ""]],
    ["a b", "a b c", ["a b", " c", ""]],
    ["x", "", ["", "", ""]],
    ["no", "yes", ["", "yes", ""]]
  ])("of errors: %s, %s", (other, text, parts) => {
    expect(attempts.differing(text, other)).toEqual(parts)
  })

  it.each([
    [2, 1, "2× longer"],
    [1, 2, "2× shorter"],
    [1.2, 1, undefined],
    [0.02, 0.001, undefined],
    [60, 0.5, "120× longer"],
    [0, 3, "1000× shorter"]
  ])("of durations: %s after %s", (seconds, before, words) => {
    expect(attempts.durationChange(seconds, before)).toBe(words)
  })
})
