import { QueueLink, queueAddress } from "../Links"
import { useQueues, useUnserved } from "../LiveQueues"
import { PauseButton } from "../PauseButton"
import { Chunks } from "../parts/Chunks"
import { FilterSelect } from "../parts/Filters"
import { Head } from "../parts/Head"
import { Menu } from "../parts/Menu"
import { Empty, Shown } from "../parts/Notice"
import { type Order, readOrder, SortHeader, turned } from "../parts/SortHeader"
import { rateText, Sparkline } from "../parts/Sparkline"
import { Table } from "../parts/Table"
import { FilterCount, hasWords, TextFilter } from "../parts/TextFilter"
import { Age, span } from "../parts/Time"
import { QueueChips } from "../QueueCard"
import { useResource } from "../Resource"
import { type Route, refine, to } from "../Route"
import { useMayAct } from "../Session"
import { type Queue, type QueueSeries, type State, stateCount } from "../Views"

const rateOf = ({ throughput }: Queue) =>
  throughput === null || throughput.seconds <= 0 ? 0 : throughput.completed / throughput.seconds

const counted: ReadonlyArray<State> = ["pending", "scheduled", "retrying", "dead"]

/** The value of a queue in a column. */
const sortValue = (queue: Queue, by: string): number | string => {
  if (by === "rate") return rateOf(queue)
  if (by === "running") return queue.counts.running.value
  if (by === "oldest") return queue.oldestDueAgeSeconds ?? -1
  const state = counted.find((each) => each === by)
  return state === undefined ? queue.name : queue.counts[state].value
}

const byName: Order = { by: "name", descending: false }

const sorted = (queues: ReadonlyArray<Queue>, { by, descending }: Order): ReadonlyArray<Queue> =>
  queues.toSorted((a, b) => {
    const [left, right] = [sortValue(a, by), sortValue(b, by)]
    if (left === right) return a.name < b.name ? -1 : 1
    return left < right === descending ? 1 : -1
  })

/** What the filter by state selects. */
const conditions: Readonly<Record<string, (queue: Queue, unserved: ReadonlySet<unknown>) => boolean>> = {
  "without a process": ({ name }, unserved) => unserved.has(name),
  paused: ({ paused }) => paused,
  "with due jobs": ({ oldestDueAgeSeconds }) => oldestDueAgeSeconds !== null,
  "with running jobs": ({ counts }) => counts.running.value > 0,
  "with retries": ({ counts }) => counts.retrying.value > 0,
  "with dead jobs": ({ counts }) => counts.dead.value > 0
}

/** A count as a link to its jobs. */
const Count = ({ queue, state }: { readonly queue: Queue; readonly state: State }) => (
  <a
    class={queue.counts[state].value === 0 ? "quiet" : state === "dead" ? "state dead" : ""}
    href={to("jobs", { queue: queue.name, state })}
  >
    {stateCount([queue], state)}
  </a>
)

const QueueRow = (props: {
  readonly queue: Queue
  readonly series: QueueSeries | undefined
  readonly onChange: () => void
}) => {
  const { onChange, queue, series } = props
  const mayAct = useMayAct()
  return (
    <tr>
      <td class="name">
        <QueueLink name={queue.name} /> <QueueChips queue={queue} />
      </td>
      <td class="rest">
        <span class="use">
          <Sparkline queue={queue.name} series={series} />
        </span>
      </td>
      <td class="number" data-label="Done">
        {queue.throughput === null ? "–" : rateText(queue.throughput)}
      </td>
      <td class="number" data-label="Running">
        <a href={to("jobs", { queue: queue.name, state: "running" })}>{stateCount([queue], "running")}</a>
        <span class="quiet"> of {queue.maxWorkers}</span>
      </td>
      {counted.map((state) => (
        <td class="number" key={state} data-label={state}>
          <Count queue={queue} state={state} />
        </td>
      ))}
      <td class="number" data-label="Oldest due">
        {queue.oldestDueAgeSeconds === null ? <span class="quiet">–</span> : span(queue.oldestDueAgeSeconds)}
      </td>
      {mayAct ? (
        <td class="act">
          <Menu label={`Actions of ${queue.name}`}>
            <PauseButton queue={queue} onChange={onChange} />
            <a class="button" href={queueAddress(queue.name)}>
              Settings
            </a>
            <a class="button" href={to("audit", { act: "queue.change", target: queue.name })}>
              Changes
            </a>
          </Menu>
        </td>
      ) : null}
    </tr>
  )
}

const headings: ReadonlyArray<readonly [by: string, label: string]> = [
  ["rate", "Done"],
  ["running", "Running"],
  ["pending", "Pending"],
  ["scheduled", "Scheduled"],
  ["retrying", "Retrying"],
  ["dead", "Dead"],
  ["oldest", "Oldest due"]
]

/** All queues in a table that sorts by any of its numbers. */
export const Queues = ({ route }: { readonly route: Route }) => {
  const mayAct = useMayAct()
  const queues = useQueues()
  const unserved = useUnserved()
  // One request for all queues, not reloaded on every event: the last hour changes slowly.
  const series = useResource<QueueSeries>("metrics/queues", { every: 5_000, announced: true })
  const order = readOrder(route.query) ?? byName
  const isShown = conditions[route.query.get("state") ?? ""] ?? (() => true)
  const words = route.query.get("filter") ?? ""
  const sort = (by: string) => {
    const next = turned(order, by, by !== "name")
    const query = next === undefined ? {} : { sort: next.by, order: next.descending ? "desc" : "asc" }
    refine(route, { sort: undefined, order: undefined, ...query })
  }
  return (
    <>
      <Head title="Queues">
        <span class="quiet small">
          counts updated <Age at={queues.data?.countedAt} />, rates updated <Age at={queues.data?.measuredAt} />
        </span>
      </Head>
      <Shown of={queues}>
        {(data) => {
          if (data.queues.length === 0)
            return <Empty>No queues yet. Processes declare their queues when they start.</Empty>
          const shown = sorted(
            data.queues.filter((queue) => hasWords(words, queue.name) && isShown(queue, unserved)),
            order
          )
          return (
            <>
              <search class="row">
                <TextFilter route={route} label="Filter queues" />
                <FilterSelect route={route} name="state" label="State" options={Object.keys(conditions)} />
                <FilterCount shown={shown.length} all={data.queues.length} name="queue" />
              </search>
              {shown.length === 0 ? <Empty>No queues match this filter.</Empty> : null}
              <div class="card" hidden={shown.length === 0}>
                <Table
                  class="stacked queues"
                  bodies
                  headings={[
                    <SortHeader by="name" order={order} onSort={sort}>
                      Queue
                    </SortHeader>,
                    "Last hour",
                    ...headings.map(([by, label]) => (
                      <SortHeader key={by} by={by} class="number" order={order} onSort={sort}>
                        {label}
                      </SortHeader>
                    )),
                    mayAct ? <th aria-label="Actions" /> : null
                  ]}
                >
                  <Chunks
                    as="tbody"
                    rowHeight={44}
                    of={shown}
                    row={(queue) => (
                      <QueueRow key={queue.name} queue={queue} series={series.data} onChange={queues.reload} />
                    )}
                  />
                </Table>
              </div>
            </>
          )
        }}
      </Shown>
    </>
  )
}
