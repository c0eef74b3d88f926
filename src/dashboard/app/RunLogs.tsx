import { type ComponentChildren, Fragment } from "preact"
import { useEffect, useRef, useState } from "preact/hooks"
import { type AttemptRun, differing, droppedOf, durationChange, linesOf, runsOf } from "./AttemptRuns"
import { PodLink } from "./Links"
import { Card } from "./parts/Card"
import { clockText, measured, useTick } from "./parts/Time"
import { useResource } from "./Resource"
import type { Job, JobLogs, LoggedLine } from "./Views"

// The attempts of a job side by side, and what each of them logged.

/** Attempts that are compared: more columns than this do not help. */
const mostCompared = 8

/** Milliseconds between two requests while the job runs: the service stores new lines about once a second. */
const followEvery = 1_500

const nameOf = (runs: ReadonlyArray<AttemptRun>, run: AttemptRun): string => {
  const same = runs.filter(({ attempt }) => attempt === run.attempt)
  return same.length === 1 ? `Attempt ${run.attempt}` : `Attempt ${run.attempt}, run ${same.indexOf(run) + 1}`
}

const ErrorCell = (props: {
  readonly before: AttemptRun | undefined
  readonly run: AttemptRun
  /** The error at the top of the page. */
  readonly last: string | null
}) => {
  const { before, last, run } = props
  const known = before?.error ?? null
  if (run.error === null) return <span class="quiet">–</span>
  if (before === undefined && last?.startsWith(run.error)) return <span class="quiet">as above</span>
  if (run.error === known) return <span class="quiet">same error</span>
  if (known === null) return <>{run.error}</>
  const [start, middle, end] = differing(run.error, known)
  // Texts that share little are two errors, not one with a change.
  if (start.length + end.length < run.error.length / 3) return <>{run.error}</>
  return (
    <>
      {start}
      <mark>{middle}</mark>
      {end}
    </>
  )
}

const Duration = ({
  before,
  now,
  run
}: {
  readonly before: AttemptRun | undefined
  readonly now: number
  readonly run: AttemptRun
}) => {
  const seconds = ((run.to ?? Math.max(now, run.from)) - run.from) / 1000
  const change =
    run.to === undefined || before?.to === undefined
      ? undefined
      : durationChange(seconds, (before.to - before.from) / 1000)
  return (
    <>
      {measured(seconds)}
      {change === undefined ? null : <span class="small change"> {change}</span>}
    </>
  )
}

/** Attempts as columns, with what changed from one to the next. */
const Compared = (props: {
  readonly runs: ReadonlyArray<AttemptRun>
  readonly logs: JobLogs
  readonly lastError: string | null
  readonly chosen: AttemptRun | undefined
  readonly choose: (run: AttemptRun) => void
}) => {
  const now = useTick()
  const { logs, runs } = props
  const shown = runs.slice(-mostCompared)
  const row = (name: string, cell: (run: AttemptRun, before: AttemptRun | undefined) => ComponentChildren) => (
    <tr>
      <th scope="row">{name}</th>
      {shown.map((run) => (
        <td key={run.from}>{cell(run, runs[runs.indexOf(run) - 1])}</td>
      ))}
    </tr>
  )
  return (
    <div class="table-wrap">
      <table class="compared" aria-label="Attempts side by side">
        <thead>
          <tr>
            <td />
            {shown.map((run) => (
              <th key={run.from} scope="col">
                <button
                  type="button"
                  class="link"
                  aria-pressed={run === props.chosen}
                  onClick={() => props.choose(run)}
                >
                  {nameOf(runs, run)}
                </button>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {row("Result", ({ outcome }) => outcome)}
          {row("Duration", (run, before) => (
            <Duration run={run} before={before} now={now} />
          ))}
          {row("Process", ({ pod }) => (pod === null ? <span class="quiet">–</span> : <PodLink id={pod} />))}
          {row("Error", (run, before) => (
            <ErrorCell run={run} before={before} last={props.lastError} />
          ))}
          {row("Log lines", (run) => linesOf(logs, runs, run).length + droppedOf(logs, runs, run))}
        </tbody>
      </table>
    </div>
  )
}

const fieldText = (value: unknown): string =>
  typeof value === "string" && /^[^\s"=]+$/.test(value) ? value : (JSON.stringify(value) ?? "")

const Line = ({ line }: { readonly line: LoggedLine }) => {
  const at = Date.parse(line.at)
  return (
    <li class={`log-line ${line.level}`}>
      <time dateTime={line.at} title={line.at}>
        {clockText(at / 1000, true)}.{String(at % 1000).padStart(3, "0")}
      </time>
      <span class="level">{line.level}</span>
      <span class="said">
        {line.step === null ? null : <span class="step">{line.step}</span>}
        {line.message}
        {line.fields === null
          ? null
          : Object.entries(line.fields).map(([name, value]) => (
              <Fragment key={name}>
                {" "}
                <span class="quiet">
                  {name}={fieldText(value)}
                </span>
              </Fragment>
            ))}
        {line.error === null ? null : <pre class="text">{line.error}</pre>}
      </span>
    </li>
  )
}

/** Keeps the end of a list in view while lines arrive, unless the reader has scrolled up. */
const useEnd = (count: number) => {
  const box = useRef<HTMLOListElement>(null)
  const isAtEnd = useRef(true)
  useEffect(() => {
    if (box.current !== null && isAtEnd.current) box.current.scrollTop = box.current.scrollHeight
  }, [count])
  const onScroll = () => {
    const { current } = box
    if (current !== null) isAtEnd.current = current.scrollHeight - current.scrollTop - current.clientHeight < 24
  }
  return { box, onScroll }
}

const Lines = (props: {
  readonly lines: ReadonlyArray<LoggedLine>
  readonly dropped: number
  readonly name: string
}) => {
  const { box, onScroll } = useEnd(props.lines.length)
  return (
    <>
      {props.dropped === 0 ? null : (
        <p class="small quiet">
          {props.dropped} older {props.dropped === 1 ? "line is" : "lines are"} not stored.
        </p>
      )}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard. */}
      <ol class="log mono" ref={box} onScroll={onScroll} tabIndex={0} aria-label={`Log of ${props.name}`}>
        {props.lines.map((line, place) => (
          <Line key={`${line.at} ${place}`} line={line} />
        ))}
      </ol>
    </>
  )
}

const nothingLogged = (isRunning: boolean) =>
  isRunning
    ? "Nothing logged yet. What the handler logs through its context appears here after about a second."
    : "This attempt logged nothing."

/** The attempts of a job and their logs. Absent until the job has run twice or has logged. */
export const RunLogs = ({ job }: { readonly job: Job }) => {
  const isRunning = job.state === "running"
  const logs = useResource<JobLogs>(`jobs/${job.id}/logs`, {
    pulse: `${job.state} ${job.startedAt} ${job.finishedAt}`,
    ...(isRunning ? { every: followEvery } : {})
  })
  const [chosen, choose] = useState<number>()
  const runs = runsOf(job)
  const data = logs.data ?? { attempts: [] }
  if (runs.length === 0 || (runs.length === 1 && data.attempts.length === 0 && !isRunning)) return null
  const run = runs.find(({ from }) => from === chosen) ?? runs.at(-1)
  if (run === undefined) return null
  const lines = linesOf(data, runs, run)
  const name = nameOf(runs, run)
  return (
    <>
      {runs.length < 2 ? null : (
        <Card name="Attempts" content="table">
          <Compared
            runs={runs}
            logs={data}
            lastError={job.lastError}
            chosen={run}
            choose={({ from }) => choose(from)}
          />
        </Card>
      )}
      <Card
        name="Log"
        title={runs.length < 2 ? "Log" : `Log of ${name.toLowerCase()}`}
        chips={run.to === undefined ? <span class="state running">live</span> : undefined}
      >
        {lines.length === 0 ? (
          <p class="quiet">{nothingLogged(run.to === undefined)}</p>
        ) : (
          <Lines key={run.from} name={name} lines={lines} dropped={droppedOf(data, runs, run)} />
        )}
      </Card>
    </>
  )
}
