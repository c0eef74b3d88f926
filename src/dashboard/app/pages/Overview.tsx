import { Attention } from "../Attention"
import { FirstSteps } from "../FirstSteps"
import { JobCharts, useSeries } from "../JobCharts"
import { QueueLink } from "../Links"
import { useQueues } from "../LiveQueues"
import { Card } from "../parts/Card"
import { Head } from "../parts/Head"
import { Shown } from "../parts/Notice"
import { RangeButtons, useAddressRange } from "../parts/Range"
import { StateBadge } from "../parts/StateBadge"
import { Table } from "../parts/Table"
import { Tile } from "../parts/Tile"
import { span } from "../parts/Time"
import { QueueChips } from "../QueueCard"
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
const hasPaused = (queues: ReadonlyArray<Queue>) =>
  queues.some(({ counts, paused }) => paused && counts.pending.value > 0)

const StateTiles = ({ queues }: { readonly queues: ReadonlyArray<Queue> }) => {
  const isPaused = hasPaused(queues)
  const ages = queues.filter(({ paused }) => !paused).map(({ oldestDueAgeSeconds }) => oldestDueAgeSeconds ?? 0)
  const oldest = Math.max(0, ...ages)
  const age = oldest === 0 ? "–" : span(oldest)
  return (
    <div class="tiles">
      {states.map((state) => (
        <Tile
          key={state}
          figure={stateCount(queues, state)}
          href={to(places[state], places[state] === "jobs" ? { state } : {})}
        >
          <StateBadge state={state} />
        </Tile>
      ))}
      <Tile figure={age} long={age.length > 6} href={to("queues")}>
        <span class="quiet">{isPaused ? "oldest due *" : "oldest due"}</span>
      </Tile>
    </div>
  )
}

const QueueList = ({ queues }: { readonly queues: ReadonlyArray<Queue> }) => (
  <Card
    name="Queues"
    content="table"
    chips={
      <>
        <a class="small" href={to("queues")}>
          All queues
        </a>
        {hasPaused(queues) ? <span class="quiet small side">* without paused queues</span> : null}
      </>
    }
  >
    <Table
      headings={[
        "Queue",
        ["Pending", "number"],
        ["Running", "number hide-narrow"],
        ["Dead", "number"],
        ["Oldest due", "number"]
      ]}
    >
      {queues.map((queue) => (
        <tr key={queue.name}>
          <td>
            <QueueLink name={queue.name} /> <QueueChips queue={queue} />
          </td>
          <td class="number">{stateCount([queue], "pending")}</td>
          <td class="number hide-narrow">{stateCount([queue], "running")}</td>
          <td class="number">{stateCount([queue], "dead")}</td>
          <td class="number">{queue.oldestDueAgeSeconds === null ? "–" : span(queue.oldestDueAgeSeconds)}</td>
        </tr>
      ))}
    </Table>
  </Card>
)

export const Overview = () => {
  const range = useAddressRange()
  const series = useSeries(range)
  const queues = useQueues()
  return (
    <>
      <Head title="Overview" side={<RangeButtons range={range} />} />
      <Attention queues={queues.data?.queues} />
      {queues.data === undefined ? null : <FirstSteps queues={queues.data.queues} />}
      <Shown of={queues}>{(data) => <StateTiles queues={data.queues} />}</Shown>
      <JobCharts range={range} series={series} />
      {queues.data === undefined ? null : <QueueList queues={queues.data.queues} />}
    </>
  )
}
