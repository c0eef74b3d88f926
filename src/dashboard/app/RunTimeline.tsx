import * as Api from "./Api"
import { runsOf, withoutTrace } from "./AttemptRuns"
import { PodLink } from "./Links"
import { Age, measured, span, useTick } from "./parts/Time"
import { type Phase, Timeline } from "./parts/Timeline"
import { useResource } from "./Resource"
import { type Job, type JobWaits, type Latency, type Series, stateText } from "./Views"

// The life of a job on one time axis: waits with their reasons, every attempt, and the backoff between attempts.

type Wait = JobWaits["waits"][number]

const reasons: Readonly<Record<Wait["reason"], string>> = {
  paused: "queue paused",
  no_pod: "no process served the queue",
  cooling_down: "queue cooling down",
  rate_limited: "rate limit reached",
  key_busy: "key or slot busy",
  waiting_for_slot: "no free slot"
}

/** A remainder shorter than this, in milliseconds, is the leader's sampling interval, not a phase. */
const blink = 6_000

/** A wait as one phase, or split by the reasons that were recorded for the queue in that time. */
const waited = (name: string, from: number, to: number, waits: ReadonlyArray<Wait>): ReadonlyArray<Phase> => {
  if (to <= from) return []
  const known = waits.flatMap((wait): ReadonlyArray<Phase> => {
    const [since, until] = [Date.parse(wait.since), wait.until === null ? to : Date.parse(wait.until)]
    // The leader's first sample comes a few seconds after the wait began.
    const begun = Math.max(from, since - from < 2 * blink ? from : since)
    const ended = Math.min(to, to - until < blink ? to : until)
    const colour = wait.reason === "waiting_for_slot" || wait.reason === "key_busy" ? "scheduled" : "retrying"
    return ended > begun ? [{ name: reasons[wait.reason], colour, from: begun, to: ended }] : []
  })
  const phases: Array<Phase> = []
  let at = from
  for (const phase of known) {
    if (phase.from - at >= blink) phases.push({ name, colour: "scheduled", from: at, to: phase.from })
    phases.push({ ...phase, from: Math.max(at, phase.from - at < blink ? at : phase.from) })
    at = phase.to
  }
  if (phases.length === 0 || to - at >= blink) phases.push({ name, colour: "scheduled", from: at, to })
  return phases.filter((phase) => phase.to > phase.from)
}

/** The wait before the first attempt: until due, then for a slot. A retry overwrites the start time. */
const firstWait = (job: Job, until: number, waits: ReadonlyArray<Wait>): ReadonlyArray<Phase> => {
  const created = Date.parse(job.createdAt)
  const due = job.history.length > 0 ? created : Math.max(created, Date.parse(job.runAt))
  const planned = Math.min(due, Math.max(until, job.state === "scheduled" ? due : until))
  return [...waited("not due", created, planned, []), ...waited("waiting to start", planned, until, waits)]
}

const colourOf = (outcome: string) => {
  if (outcome === "running" || outcome === "done") return outcome
  return outcome === "snoozed" || outcome === "throttled" ? "retrying" : "dead"
}

/** The phases in order. */
const phasesOf = (job: Job, now: number, waits: ReadonlyArray<Wait> = []): ReadonlyArray<Phase> => {
  // Each error is shown once; the page shows the last one above.
  const known = new Set([withoutTrace(job.lastError)])
  const attempts = runsOf(job).map(({ attempt, error, from, message, outcome, pod, to = now }): Phase => {
    const isKnown = error !== null && known.has(error)
    known.add(error)
    return {
      name: `attempt ${attempt} ${outcome}`,
      colour: colourOf(outcome),
      from,
      to,
      detail:
        pod === null ? undefined : (
          <>
            on <PodLink id={pod} />
            {isKnown ? ", same error" : ""}
          </>
        ),
      message: isKnown ? null : message
    }
  })
  const ended = job.finishedAt === null ? undefined : Date.parse(job.finishedAt)
  const first = attempts[0]
  const between = attempts.flatMap((attempt, place) => {
    const before = attempts[place - 1]
    return [...(before === undefined ? [] : waited("backoff", before.to, attempt.from, [])), attempt]
  })
  const last = attempts.at(-1)
  const isWaiting = job.state === "scheduled" || job.state === "retrying" || job.state === "pending"
  const due = Date.parse(job.runAt)
  return [
    ...firstWait(job, first?.from ?? ended ?? (job.state === "scheduled" ? due : now), waits),
    ...between,
    ...(isWaiting && last !== undefined
      ? [
          ...waited("backoff", last.to, Math.max(last.to, due), []),
          ...waited("waiting to start", Math.max(last.to, due), now, waits)
        ]
      : [])
  ]
}

/** Compares the last attempt with the usual duration of the kind. */
const Usual = ({ job, latest }: { readonly job: Job; readonly latest: Phase | undefined }) => {
  const day = Math.floor(Date.parse(job.createdAt) / 86_400_000) * 86_400
  const since = new Date((day - 86_400) * 1000).toISOString()
  const series = useResource<Series>(`metrics/series${Api.query({ kind: job.kind, since, bucket: "1d" })}`)
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
  const recorded = useResource<JobWaits>(`jobs/${job.id}/waits`, {
    pulse: job.state,
    ...(job.finishedAt === null ? { every: 5_000 } : {})
  })
  const phases = phasesOf(job, tick, recorded.data?.waits)
  const start = Date.parse(job.createdAt)
  const ends = Math.max(...phases.map(({ to }) => to), start + 1)
  const latest = phases.findLast(({ name }) => name.startsWith("attempt"))
  return (
    <>
      <p class="small quiet">
        Created <Age at={job.createdAt} />; the axis covers {span((ends - start) / 1000)}.
      </p>
      <Timeline phases={phases} start={start} ends={ends} />
      {job.finishedAt === null ? null : (
        <p>
          <strong>{stateText(job.state, job.reason)}</strong> <Age at={job.finishedAt} />
        </p>
      )}
      <Usual job={job} latest={latest} />
    </>
  )
}
