import { useState } from "preact/hooks"
import { JobCharts } from "../JobCharts"
import { useNews } from "../Live"
import { Shown } from "../parts/Notice"
import { RangeButtons, useRange } from "../parts/Range"
import { span } from "../parts/Time"
import { useResource } from "../Resource"
import { to } from "../Route"
import { brief, type Queue, states } from "../Views"

const places = {
  scheduled: "scheduled",
  retrying: "retries",
  pending: "jobs",
  running: "jobs",
  done: "jobs",
  dead: "dead"
}

const Tiles = ({ queues }: { readonly queues: ReadonlyArray<Pick<Queue, "counts" | "oldestDueAgeSeconds">> }) => {
  const oldest = Math.max(0, ...queues.map(({ oldestDueAgeSeconds }) => oldestDueAgeSeconds ?? 0))
  return (
    <div class="tiles">
      {states.map((state) => (
        <a class="card tile" key={state} href={to(places[state], places[state] === "jobs" ? { state } : {})}>
          <div class="figure">{brief(queues.reduce((sum, { counts }) => sum + (counts[state] ?? 0), 0))}</div>
          <span class={`state ${state}`}>{state}</span>
        </a>
      ))}
      <a class="card tile" href={to("queues")}>
        <div class="figure">{oldest === 0 ? "–" : span(oldest)}</div>
        <span class="quiet">oldest due</span>
      </a>
    </div>
  )
}

const QueueList = ({ queues }: { readonly queues: ReadonlyArray<Queue> }) => (
  <section class="card">
    <header>
      <h2>Queues</h2>
      <a class="small" href={to("queues")}>
        All queues
      </a>
    </header>
    <div class="table-wrap">
      <table>
        <thead>
          <tr>
            <th>Queue</th>
            <th class="number">Pending</th>
            <th class="number">Running</th>
            <th class="number">Dead</th>
            <th class="number">Oldest due</th>
          </tr>
        </thead>
        <tbody>
          {queues.map((queue) => (
            <tr key={queue.name}>
              <td>
                <a href={to("jobs", { queue: queue.name })}>{queue.name}</a>{" "}
                {queue.paused ? <span class="chip">paused</span> : null}
                {queue.throttledUntil === null ? null : <span class="chip">cooling down</span>}
              </td>
              <td class="number">{brief(queue.counts.pending)}</td>
              <td class="number">{brief(queue.counts.running)}</td>
              <td class="number">{brief(queue.counts.dead)}</td>
              <td class="number">{queue.oldestDueAgeSeconds === null ? "–" : span(queue.oldestDueAgeSeconds)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  </section>
)

/**
 * Current warnings. The line is always present: a warning that appears while the user drags over a chart must not move
 * the chart.
 */
const Warnings = ({ all }: { readonly all: ReadonlyArray<string> | undefined }) => {
  const [open, setOpen] = useState(false)
  const [first, ...others] = all ?? []
  if (first === undefined)
    return (
      <div class="notice" role="status">
        {all === undefined ? "Loading warnings…" : <span class="state done">No warnings</span>}
      </div>
    )
  return (
    <div class="notice warning" role="status">
      <div>{first}</div>
      {open ? others.map((warning) => <div key={warning}>{warning}</div>) : null}
      {others.length === 0 ? null : (
        <button type="button" class="link" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "Show less" : `Show ${others.length} more`}
        </button>
      )}
    </div>
  )
}

export const Overview = () => {
  const { pulse, warnings } = useNews()
  const range = useRange()
  const queues = useResource<{ queues: ReadonlyArray<Queue> }>("queues", { pulse, every: 10_000 })
  return (
    <>
      <div class="head">
        <h1>Overview</h1>
        <div class="side">
          <RangeButtons range={range} />
        </div>
      </div>
      <Warnings all={warnings} />
      <Shown of={queues}>{(data) => <Tiles queues={data.queues} />}</Shown>
      <JobCharts range={range} />
      {queues.data === undefined ? null : <QueueList queues={queues.data.queues} />}
    </>
  )
}
