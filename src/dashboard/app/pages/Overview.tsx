import { Attention } from "../Attention"
import { JobCharts, useSeries } from "../JobCharts"
import { useLiveUpdates } from "../Live"
import { Shown } from "../parts/Notice"
import { RangeButtons, useAddressRange } from "../parts/Range"
import { span } from "../parts/Time"
import { QueueChips } from "../QueueCard"
import { useResource } from "../Resource"
import { to } from "../Route"
import { type Queue, stateCount, states } from "../Views"

const places = {
  scheduled: "scheduled",
  retrying: "retries",
  pending: "jobs",
  running: "jobs",
  done: "jobs",
  dead: "dead",
  cancelled: "jobs"
}

/** Whether a paused queue has due jobs. They wait on purpose, so they do not count as the oldest due. */
const hasPaused = (queues: ReadonlyArray<Queue>) => queues.some(({ counts, paused }) => paused && counts.pending > 0)

const Tiles = ({ queues }: { readonly queues: ReadonlyArray<Queue> }) => {
  const isPaused = hasPaused(queues)
  const ages = queues.filter(({ paused }) => !paused).map(({ oldestDueAgeSeconds }) => oldestDueAgeSeconds ?? 0)
  const oldest = Math.max(0, ...ages)
  const age = oldest === 0 ? "–" : span(oldest)
  return (
    <div class="tiles">
      {states.map((state) => (
        <a class="card tile" key={state} href={to(places[state], places[state] === "jobs" ? { state } : {})}>
          <div class="figure">{stateCount(queues, state)}</div>
          <span class={`state ${state}`}>{state}</span>
        </a>
      ))}
      <a class="card tile" href={to("queues")}>
        <div class={age.length > 6 ? "figure long" : "figure"}>{age}</div>
        <span class="quiet">{isPaused ? "oldest due *" : "oldest due"}</span>
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
      {hasPaused(queues) ? <span class="quiet small side">* without paused queues</span> : null}
    </header>
    <div class="table-wrap">
      <table>
        <thead>
          <tr>
            <th>Queue</th>
            <th class="number">Pending</th>
            <th class="number hide-narrow">Running</th>
            <th class="number">Dead</th>
            <th class="number">Oldest due</th>
          </tr>
        </thead>
        <tbody>
          {queues.map((queue) => (
            <tr key={queue.name}>
              <td>
                <a href={to(`queues/${encodeURIComponent(queue.name)}`)}>{queue.name}</a> <QueueChips queue={queue} />
              </td>
              <td class="number">{stateCount([queue], "pending")}</td>
              <td class="number hide-narrow">{stateCount([queue], "running")}</td>
              <td class="number">{stateCount([queue], "dead")}</td>
              <td class="number">{queue.oldestDueAgeSeconds === null ? "–" : span(queue.oldestDueAgeSeconds)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  </section>
)

export const Overview = () => {
  const { pulse } = useLiveUpdates()
  const range = useAddressRange()
  const series = useSeries(range)
  const queues = useResource<{ queues: ReadonlyArray<Queue> }>("queues", { pulse, every: 10_000 })
  return (
    <>
      <div class="head">
        <h1>Overview</h1>
        <div class="side">
          <RangeButtons range={range} />
        </div>
      </div>
      <Attention queues={queues.data?.queues} />
      <Shown of={queues}>{(data) => <Tiles queues={data.queues} />}</Shown>
      <JobCharts range={range} series={series} />
      {queues.data === undefined ? null : <QueueList queues={queues.data.queues} />}
    </>
  )
}
