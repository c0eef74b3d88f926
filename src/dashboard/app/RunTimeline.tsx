import * as Api from "./Api"
import { Age, measured, span, useTick } from "./parts/Time"
import { useResource } from "./Resource"
import type { Job, Latency, Series } from "./Views"

// The life of a job as bars on one time axis: waiting, every attempt, and the backoff between attempts.

interface Phase {
  readonly name: string
  /** CSS class that gives the colour. */
  readonly colour: string
  /** Epoch milliseconds. */
  readonly from: number
  readonly to: number
  readonly detail?: string | undefined
  readonly message?: string | null
}

const wait = (name: string, from: number, to: number): ReadonlyArray<Phase> =>
  to > from ? [{ name, colour: "scheduled", from, to }] : []

/** Waiting before the first attempt: until due, then for a slot. A retry overwrites the start time. */
const firstWait = (job: Job, until: number): ReadonlyArray<Phase> => {
  const created = Date.parse(job.createdAt)
  const due = job.errors.length > 0 ? created : Math.max(created, Date.parse(job.runAt))
  const planned = Math.min(due, Math.max(until, job.state === "scheduled" ? due : until))
  return [...wait("not due", created, planned), ...wait("waiting to start", planned, until)]
}

const outcomeColour = (outcome: string) => (outcome === "snoozed" || outcome === "throttled" ? "retrying" : "dead")

/** The phases in order. */
export const phasesOf = (job: Job, now: number): ReadonlyArray<Phase> => {
  const attempts = job.errors.map(
    (error): Phase => ({
      name: `attempt ${error.attempt} ${error.outcome.replaceAll("_", " ")}`,
      colour: outcomeColour(error.outcome),
      from: Date.parse(error.startedAt),
      to: Date.parse(error.endedAt),
      detail: `on ${error.pod.slice(-8)}`,
      message: error.message
    })
  )
  const started = job.startedAt === null ? undefined : Date.parse(job.startedAt)
  // The last attempt is in the history unless it succeeded or runs.
  if (started !== undefined && (job.state === "running" || job.state === "done")) {
    attempts.push({
      name: job.state === "running" ? `attempt ${job.attempt} running` : `attempt ${job.attempt} done`,
      colour: job.state,
      from: started,
      to: job.finishedAt === null ? now : Date.parse(job.finishedAt),
      detail: job.pod === null ? undefined : `on ${job.pod.slice(-8)}`
    })
  }
  const ended = job.finishedAt === null ? undefined : Date.parse(job.finishedAt)
  const first = attempts[0]
  const between = attempts.flatMap((attempt, place) => {
    const before = attempts[place - 1]
    return [...(before === undefined ? [] : wait("backoff", before.to, attempt.from)), attempt]
  })
  const last = attempts.at(-1)
  const isWaiting = job.state === "scheduled" || job.state === "retrying" || job.state === "pending"
  const next = Math.max(now, Date.parse(job.runAt))
  return [
    ...firstWait(job, first?.from ?? ended ?? (job.state === "scheduled" ? Date.parse(job.runAt) : now)),
    ...between,
    ...(isWaiting && last !== undefined ? wait("backoff", last.to, next) : [])
  ]
}

const width = 1_000

const Bar = ({ ends, of, start }: { readonly of: Phase; readonly start: number; readonly ends: number }) => {
  const scale = width / Math.max(1, ends - start)
  const label = `${of.name}: ${measured((of.to - of.from) / 1000)}`
  const x = Math.min(width - 4, (of.from - start) * scale)
  return (
    <svg
      class={`phase ${of.colour}`}
      role="img"
      aria-label={label}
      viewBox={`0 0 ${width} 10`}
      preserveAspectRatio="none"
    >
      <title>{label}</title>
      {/* A short attempt stays visible. */}
      <rect x={x} width={Math.max(4, Math.min(width - x, (of.to - of.from) * scale))} y="0" height="10" />
    </svg>
  )
}

/** The last attempt against the usual duration of the kind. */
const Usual = ({ job, latest }: { readonly job: Job; readonly latest: Phase | undefined }) => {
  const day = Math.floor(Date.parse(job.createdAt) / 86_400_000) * 86_400
  const since = new Date((day - 86_400) * 1000).toISOString()
  const series = useResource<Series>(`metrics/series${Api.query({ kind: job.kind, since, bucket: 86_400 })}`)
  const known = (series.data?.points ?? [])
    .map(({ processing }) => processing)
    .reduce<Latency | undefined>((best, each) => (each.count > (best?.count ?? 0) ? each : best), undefined)
  if (known === undefined || known.p50 === null || known.p95 === null) return null
  const took = latest === undefined ? undefined : (latest.to - latest.from) / 1000
  const isLong = took !== undefined && took > known.p95
  return (
    <p class="small quiet">
      Attempts of {job.kind} usually take {measured(known.p50)} (p50), 95 % up to {measured(known.p95)}.
      {isLong ? <strong> This one took longer: {measured(took)}.</strong> : null}
    </p>
  )
}

/** The run of a job, drawn to scale. */
export const RunTimeline = ({ job }: { readonly job: Job }) => {
  const tick = useTick()
  const phases = phasesOf(job, tick)
  const start = Date.parse(job.createdAt)
  const ends = Math.max(...phases.map(({ to }) => to), start + 1)
  const latest = phases.findLast(({ name }) => name.startsWith("attempt"))
  return (
    <>
      <p class="small quiet">
        Created <Age at={job.createdAt} />; the axis covers {span((ends - start) / 1000)}.
      </p>
      <ol class="phases">
        {phases.map((phase) => (
          <li key={`${phase.from} ${phase.name}`}>
            <span class="what">
              <strong>{phase.name}</strong>{" "}
              {phase.detail === undefined ? null : <span class="quiet small">{phase.detail}</span>}
            </span>
            <Bar of={phase} start={start} ends={ends} />
            <span class="took">{measured((phase.to - phase.from) / 1000)}</span>
            {phase.message === undefined || phase.message === null ? null : <pre class="text">{phase.message}</pre>}
          </li>
        ))}
      </ol>
      {job.finishedAt === null ? null : (
        <p>
          <strong>{job.state}</strong>{" "}
          {job.deadReason === null || job.state === "cancelled" ? "" : `(${job.deadReason.replace("_", " ")}) `}
          <Age at={job.finishedAt} />
        </p>
      )}
      <Usual job={job} latest={latest} />
    </>
  )
}
