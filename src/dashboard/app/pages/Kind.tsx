import { useState } from "preact/hooks"
import * as Api from "../Api"
import { EnqueueForm } from "../EnqueueForm"
import { Histogram } from "../Histogram"
import { JobCharts, useSeries } from "../JobCharts"
import { asRows, JobTable } from "../JobTable"
import { useLiveUpdates } from "../Live"
import { PodLink } from "../PodLink"
import { Shown } from "../parts/Notice"
import { RangeButtons, useAddressRange } from "../parts/Range"
import { Age, measured } from "../parts/Time"
import { slowPoll, useResource } from "../Resource"
import { to } from "../Route"
import { useMayAct } from "../Session"
import { brief, type Durations, type JobPage, type Pod, type Schedule, type Series } from "../Views"

const sum = (series: Series, of: "completed" | "dead" | "retried") =>
  series.points.reduce((all, point) => all + point[of], 0)

/** Numbers of the whole range. */
const Figures = ({ durations, series }: { series: Series; durations: Durations | undefined }) => {
  const [done, retried, dead] = [sum(series, "completed"), sum(series, "retried"), sum(series, "dead")]
  const ended = done + retried + dead
  const { p50 = null, p95 = null } = durations?.processing ?? {}
  const time = (seconds: number | null) => (seconds === null ? "–" : measured(seconds))
  const tiles = [
    [brief(done), "done"],
    [brief(retried), "retried"],
    [brief(dead), "dead"],
    [ended === 0 ? "–" : `${Math.round(((retried + dead) / ended) * 1000) / 10} %`, "error rate"],
    [time(p50), "usual duration (p50)"],
    [time(p95), "95 % within"]
  ]
  return (
    <div class="tiles">
      {tiles.map(([figure, name]) => (
        <div class="card tile" key={name}>
          <div class="figure">{figure}</div>
          <span class="quiet">{name}</span>
        </div>
      ))}
    </div>
  )
}

const Where = ({ kind }: { readonly kind: string }) => {
  const pods = useResource<{ pods: ReadonlyArray<Pod> }>("pods", { every: slowPoll })
  const schedules = useResource<{ schedules: ReadonlyArray<Schedule> }>("schedules?limit=1000", { every: slowPoll })
  const serving = (pods.data?.pods ?? []).filter(({ kinds }) => kinds.includes(kind))
  const firing = (schedules.data?.schedules ?? []).filter((schedule) => schedule.kind === kind)
  return (
    <section class="card" aria-label="Pods and schedules">
      <header>
        <h2>Pods and schedules</h2>
      </header>
      <div class="body">
        <dl class="facts">
          <dt>Handled by</dt>
          <dd>
            {serving.length > 0 ? null : pods.data === undefined ? "–" : "no live pod"}
            {serving.map(({ id }) => (
              <div key={id}>
                <PodLink id={id} />
              </div>
            ))}
          </dd>
          <dt>Schedules</dt>
          <dd>
            {firing.length > 0 ? null : schedules.data === undefined ? "–" : "none"}
            {firing.map(({ name, nextFireAt, words }) => (
              <div key={name}>
                <a href={to("schedules")}>{name}</a> <span class="quiet small">{words}, next</span>{" "}
                <Age at={nextFireAt} />
              </div>
            ))}
          </dd>
        </dl>
      </div>
    </section>
  )
}

/** A short list of jobs, with a link to all of them. */
const Some = (props: {
  readonly title: string
  readonly query: Readonly<Record<string, string>>
  /** Whether to reload on every event; false for expensive queries. */
  readonly live?: boolean
  readonly empty: string
}) => {
  const { pulse } = useLiveUpdates()
  const page = useResource<JobPage>(`jobs${Api.query({ ...props.query, limit: 8 })}`, {
    ...(props.live === false ? {} : { pulse }),
    every: slowPoll
  })
  return (
    <section class="card" aria-label={props.title}>
      <header>
        <h2>{props.title}</h2>
        <a class="small" href={to("jobs", props.query)}>
          Show all
        </a>
      </header>
      <Shown of={page}>
        {({ jobs, sortedAmong }) => (
          <>
            {sortedAmong === null ? null : (
              <p class="quiet small note">Among the newest {sortedAmong.toLocaleString()} jobs.</p>
            )}
            <JobTable rows={asRows(jobs)} empty={props.empty} />
          </>
        )}
      </Shown>
    </section>
  )
}

/** The page of one kind of job. */
export const Kind = ({ kind }: { readonly kind: string }) => {
  const range = useAddressRange()
  const mayAct = useMayAct()
  const [enqueuing, setEnqueuing] = useState(false)
  const series = useSeries(range, { kind })
  const durations = useResource<Durations>(
    `metrics/durations${Api.query({ kind, since: range.query.since, until: range.query.until })}`
  )
  return (
    <>
      <div class="head">
        <h1>{kind}</h1>
        <span class="chip">kind</span>
        <div class="side">
          <RangeButtons range={range} />
          {mayAct ? (
            <button type="button" onClick={() => setEnqueuing(true)}>
              Enqueue
            </button>
          ) : null}
        </div>
      </div>
      {series.data === undefined ? null : <Figures series={series.data} durations={durations.data} />}
      <JobCharts range={range} series={series} />
      <div class="run even">
        <section class="card" aria-label="Durations">
          <header>
            <h2>Durations</h2>
            <span class="quiet small">of all attempts in this range</span>
          </header>
          <div class="body">
            <Shown of={durations}>{(data) => <Histogram of={data} />}</Shown>
          </div>
        </section>
        <Where kind={kind} />
      </div>
      <Some title="Recent failures" query={{ kind, state: "dead,retrying" }} empty="No failed jobs of this kind." />
      <Some
        title="Slowest runs"
        query={{ kind, state: "done", sort: "duration", order: "desc" }}
        live={false}
        empty="No completed jobs of this kind."
      />
      <Some title="Running" query={{ kind, state: "running" }} empty="No job of this kind is running." />
      {enqueuing ? <EnqueueForm kind={kind} onClose={() => setEnqueuing(false)} /> : null}
    </>
  )
}
