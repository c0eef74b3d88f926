import type { Job, JobLogs, LoggedLine } from "./Views"

/** One run of a job's handler. Runs that did not use up the attempt share its number. */
export interface AttemptRun {
  readonly attempt: number
  readonly outcome: string
  /** Epoch milliseconds. */
  readonly from: number
  /** Undefined while it runs. */
  readonly to: number | undefined
  readonly pod: string | null
  readonly error: string | null
  /** The error with its stack trace. */
  readonly message: string | null
}

/** The message of an error. */
export const withoutTrace = (text: string | null): string | null =>
  text?.split(/\n(?: {4}at |Caused by: )/, 1)[0] ?? null

/** The runs that are known of a job, oldest first. */
export const runsOf = ({ attempt, finishedAt, history, pod, startedAt, state }: Job): ReadonlyArray<AttemptRun> => {
  const ended = history.map(
    (run): AttemptRun => ({
      attempt: run.attempt,
      outcome: run.outcome.replaceAll("_", " "),
      from: Date.parse(run.startedAt),
      to: Date.parse(run.endedAt),
      pod: run.pod,
      error: withoutTrace(run.message),
      message: run.message
    })
  )
  // The last run is in the history unless it succeeded or runs.
  const isLastKnown = startedAt === null || (state !== "running" && state !== "done")
  if (isLastKnown || ended.some(({ from, to }) => from === Date.parse(startedAt) && to !== undefined)) return ended
  const to = finishedAt === null ? undefined : Date.parse(finishedAt)
  return [...ended, { attempt, outcome: state, from: Date.parse(startedAt), to, pod, error: null, message: null }]
}

/** A text in three parts: what it shares with another at its start, where they differ, and what they share at the end. */
export const differing = (text: string, other: string): readonly [start: string, middle: string, end: string] => {
  const words = text.split(/(\W+)/)
  const others = other.split(/(\W+)/)
  const most = Math.min(words.length, others.length)
  let start = 0
  while (start < most && words[start] === others[start]) start += 1
  let end = 0
  while (end < most - start && words.at(-1 - end) === others.at(-1 - end)) end += 1
  const middle = words.length - end
  return [words.slice(0, start).join(""), words.slice(start, middle).join(""), words.slice(middle).join("")]
}

/** What a run logged. The runs of an attempt share a log, so their lines are assigned to runs by time. */
export const linesOf = (
  { attempts }: JobLogs,
  runs: ReadonlyArray<AttemptRun>,
  run: AttemptRun
): ReadonlyArray<LoggedLine> => {
  const log = attempts.find(({ attempt }) => attempt === run.attempt)
  if (log === undefined) return []
  const same = runs.filter(({ attempt }) => attempt === run.attempt)
  if (same.length === 1) return log.lines
  // A line belongs to the last run that had started: clocks of processes differ by milliseconds, and so may its end.
  const next = same[same.indexOf(run) + 1]
  const from = same[0] === run ? Number.NEGATIVE_INFINITY : run.from
  return log.lines.filter(({ at }) => Date.parse(at) >= from && (next === undefined || Date.parse(at) < next.from))
}

/** Older lines of the run's attempt that are not stored. They are counted for its first run. */
export const droppedOf = ({ attempts }: JobLogs, runs: ReadonlyArray<AttemptRun>, run: AttemptRun): number =>
  runs.find(({ attempt }) => attempt === run.attempt) === run
    ? (attempts.find(({ attempt }) => attempt === run.attempt)?.dropped ?? 0)
    : 0

/** How a duration differs from the one before, in words: `twice as long`. Undefined if they are about the same. */
export const durationChange = (seconds: number, before: number): string | undefined => {
  if (Math.max(seconds, before) < 0.05) return undefined
  const factor = seconds / Math.max(before, 0.001)
  const times = (value: number) => `${value < 10 ? Number(value.toPrecision(2)) : Math.round(value)}×`
  if (factor >= 1.5) return `${times(factor)} longer`
  return factor <= 1 / 1.5 ? `${times(1 / Math.max(factor, 0.001))} shorter` : undefined
}
