import { JobCharts, useSeries } from "../JobCharts"
import { useQueues } from "../LiveQueues"
import { Head } from "../parts/Head"
import { Empty, Shown } from "../parts/Notice"
import { RangeButtons, useAddressRange } from "../parts/Range"
import { QueueCard } from "../QueueCard"
import { useResource } from "../Resource"
import { to } from "../Route"
import { SomeJobs } from "../SomeJobs"
import type { QueueSeries } from "../Views"

/** One queue: its settings, charts and newest jobs. */
export const QueuePage = ({ name }: { readonly name: string }) => {
  const range = useAddressRange()
  const measured = useSeries(range, { queue: name })
  const queues = useQueues()
  const series = useResource<QueueSeries>("metrics/queues", { every: 5_000, announced: true })
  return (
    <>
      <Head title={name} side={<RangeButtons range={range} />}>
        <span class="chip">queue</span>
      </Head>
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
      <JobCharts range={range} series={measured} of={{ queue: name }} />
      <SomeJobs title="Newest jobs" query={{ queue: name }} limit={10} empty="This queue has no jobs." />
    </>
  )
}
