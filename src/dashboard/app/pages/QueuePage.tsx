import * as Api from "../Api"
import { JobCharts, useSeries } from "../JobCharts"
import { asRows, JobTable } from "../JobTable"
import { useLiveUpdates } from "../Live"
import { Empty, Shown } from "../parts/Notice"
import { RangeButtons, useAddressRange } from "../parts/Range"
import { QueueCard } from "../QueueCard"
import { slowPoll, useResource } from "../Resource"
import { to } from "../Route"
import type { JobPage, QueueSeries } from "../Views"
import type { QueueList } from "./Queues"

/** One queue: its settings, charts and newest jobs. */
export const QueuePage = ({ name }: { readonly name: string }) => {
  const { pulse } = useLiveUpdates()
  const range = useAddressRange()
  const measured = useSeries(range, { queue: name })
  const queues = useResource<QueueList>("queues", { pulse, every: 10_000 })
  const series = useResource<QueueSeries>("metrics/queues", { every: 5_000 })
  const jobs = useResource<JobPage>(`jobs${Api.query({ queue: name, limit: 10 })}`, { pulse, every: slowPoll })
  return (
    <>
      <div class="head">
        <h1>{name}</h1>
        <span class="chip">queue</span>
        <div class="side">
          <RangeButtons range={range} />
        </div>
      </div>
      <Shown of={queues}>
        {(data) => {
          const queue = data.queues.find((each) => each.name === name)
          return queue === undefined ? (
            <Empty>
              There is no queue {name}. <a href={to("queues")}>Show all queues</a>
            </Empty>
          ) : (
            <QueueCard queue={queue} series={series.data} onChange={queues.reload} />
          )
        }}
      </Shown>
      <JobCharts range={range} series={measured} />
      <section class="card" aria-label="Newest jobs">
        <header>
          <h2>Newest jobs</h2>
          <a class="small" href={to("jobs", { queue: name })}>
            Show all
          </a>
        </header>
        <Shown of={jobs}>{(page) => <JobTable rows={asRows(page.jobs)} empty="This queue has no jobs." />}</Shown>
      </section>
    </>
  )
}
