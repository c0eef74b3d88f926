import { useState } from "preact/hooks"
import * as Api from "../Api"
import { EnqueueForm } from "../EnqueueForm"
import { Histogram } from "../Histogram"
import { JobCharts, useSeries } from "../JobCharts"
import { KindLink, PodLink } from "../Links"
import { Card } from "../parts/Card"
import { Facts } from "../parts/Facts"
import { Head } from "../parts/Head"
import { Empty, Shown } from "../parts/Notice"
import { RangeButtons, useAddressRange } from "../parts/Range"
import { Tiles } from "../parts/Tile"
import { Age, measured } from "../parts/Time"
import { type Resource, slowPoll, useResource } from "../Resource"
import { to } from "../Route"
import { useMayAct } from "../Session"
import { SomeJobs } from "../SomeJobs"
import { brief, type Durations, type JobPage, type Kinds, type Pod, type Schedule, type Series } from "../Views"

const sum = (series: Series, of: "completed" | "dead" | "retried") =>
  series.points.reduce((all, point) => all + point[of], 0)

/** Numbers of the whole range. */
const Figures = ({ durations, series }: { series: Series; durations: Durations | undefined }) => {
  const [done, retried, dead] = [sum(series, "completed"), sum(series, "retried"), sum(series, "dead")]
  const ended = done + retried + dead
  const { p50 = null, p95 = null } = durations?.processing ?? {}
  const time = (seconds: number | null) => (seconds === null ? "–" : measured(seconds))
  return (
    <Tiles
      of={[
        [brief(done), "done"],
        [brief(retried), "retried"],
        [brief(dead), "dead"],
        [ended === 0 ? "–" : `${Math.round(((retried + dead) / ended) * 1000) / 10} %`, "error rate"],
        [time(p50), "usual duration (p50)"],
        [time(p95), "95 % within"]
      ]}
    />
  )
}

/** The text for an empty list, which may not be loaded yet. */
const noneOf = ({ data }: Resource<unknown>, text: string) => (data === undefined ? "–" : text)

const Where = ({ kind }: { readonly kind: string }) => {
  const pods = useResource<{ pods: ReadonlyArray<Pod> }>("pods", { every: slowPoll })
  const schedules = useResource<{ schedules: ReadonlyArray<Schedule> }>("schedules?limit=1000", { every: slowPoll })
  const serving = (pods.data?.pods ?? []).filter(({ kinds }) => kinds.includes(kind))
  const firing = (schedules.data?.schedules ?? []).filter((schedule) => schedule.kind === kind)
  return (
    <Card name="Processes and schedules" content="body">
      <Facts
        of={[
          [
            "Handled by",
            serving.length === 0
              ? noneOf(pods, "no live process")
              : serving.map(({ id }) => (
                  <div key={id}>
                    <PodLink id={id} />
                  </div>
                ))
          ],
          [
            "Schedules",
            firing.length === 0
              ? noneOf(schedules, "none")
              : firing.map(({ name, nextFireAt, words }) => (
                  <div key={name}>
                    <a href={to("schedules")}>{name}</a> <span class="quiet small">{words}, next</span>{" "}
                    <Age at={nextFireAt} />
                  </div>
                ))
          ]
        ]}
      />
    </Card>
  )
}

/** Kinds that are listed instead of an unknown one. */
const maxListedKinds = 12

const UnknownKind = ({ kind, known }: { readonly kind: string; readonly known: ReadonlyArray<string> }) => (
  <>
    <Head title={kind}>
      <span class="chip bad">unknown kind</span>
    </Head>
    <Empty>
      No process has registered a handler for this kind, and no jobs of this kind are stored. Check the spelling, or
      start a process with a handler for this kind.
      {known.length === 0 ? null : (
        <p class="row centred">
          Registered kinds:
          {known.slice(0, maxListedKinds).map((name) => (
            <KindLink key={name} name={name} />
          ))}
          {known.length > maxListedKinds ? `and ${known.length - maxListedKinds} more` : null}
        </p>
      )}
    </Empty>
  </>
)

/** The page of one kind of job. A mistyped one says so, instead of showing zeros. */
export const Kind = ({ kind }: { readonly kind: string }) => {
  const kinds = useResource<Kinds>("kinds", { every: slowPoll })
  const known = kinds.data?.kinds.map(({ name }) => name)
  const isRegistered = known === undefined || known.includes(kind)
  const stored = useResource<JobPage>(isRegistered ? undefined : `jobs${Api.query({ kind, limit: 1 })}`)
  const isUnknown = !isRegistered && stored.data?.jobs.length === 0
  return isUnknown ? (
    <UnknownKind kind={kind} known={known ?? []} />
  ) : (
    <KnownKind kind={kind} isRegistered={isRegistered} />
  )
}

const KnownKind = ({ isRegistered, kind }: { readonly kind: string; readonly isRegistered: boolean }) => {
  const range = useAddressRange()
  const mayAct = useMayAct()
  const [enqueuing, setEnqueuing] = useState(false)
  const series = useSeries(range, { kind })
  const durations = useResource<Durations>(
    `metrics/durations${Api.query({ kind, since: range.query.since, until: range.query.until })}`
  )
  return (
    <>
      <Head
        title={kind}
        side={
          <>
            <RangeButtons range={range} />
            {mayAct ? (
              <button type="button" onClick={() => setEnqueuing(true)}>
                Enqueue
              </button>
            ) : null}
          </>
        }
      >
        <span class="chip">kind</span>
        {isRegistered ? null : <span class="chip bad">not registered by any process</span>}
      </Head>
      {series.data === undefined ? null : <Figures series={series.data} durations={durations.data} />}
      <JobCharts range={range} series={series} of={{ kind }} />
      <div class="run even">
        <Card name="Durations" content="body" chips={<span class="quiet small">of all attempts in this range</span>}>
          <Shown of={durations}>{(data) => <Histogram of={data} />}</Shown>
        </Card>
        <Where kind={kind} />
      </div>
      <SomeJobs title="Recent failures" query={{ kind, state: "dead,retrying" }} empty="No failed jobs of this kind." />
      <SomeJobs
        title="Slowest runs"
        query={{ kind, state: "done", sort: "duration", order: "desc" }}
        live={false}
        empty="No completed jobs of this kind."
      />
      <SomeJobs title="Running" query={{ kind, state: "running" }} empty="No job of this kind is running." />
      {enqueuing ? <EnqueueForm kind={kind} onClose={() => setEnqueuing(false)} /> : null}
    </>
  )
}
