import { useState } from "preact/hooks"
import { eventIds } from "../../../core/EventMeta.js"
import { erasedAtOf } from "../../../core/Subject.js"
import { EditJob } from "../EditJob"
import { ExecutionLink, useExecutionOf } from "../ExecutionState"
import { isWaiting } from "../JobActs"
import { KindLink, PodLink, QueueLink } from "../Links"
import { useLiveUpdates } from "../Live"
import { Card } from "../parts/Card"
import { ErrorText } from "../parts/ErrorText"
import { Facts } from "../parts/Facts"
import { Head } from "../parts/Head"
import { JsonCard } from "../parts/Json"
import { Shown } from "../parts/Notice"
import { ProgressBar, readProgress } from "../parts/Progress"
import { StateBadge } from "../parts/StateBadge"
import { instantText, Moment, measured } from "../parts/Time"
import { useResource } from "../Resource"
import { to } from "../Route"
import { RunLogs } from "../RunLogs"
import { RunTimeline } from "../RunTimeline"
import { useMayAct } from "../Session"
import type { Job as JobView } from "../Views"
import { WhyCard } from "../WhyCard"
import { JobActions } from "./JobActions"
import { Gone } from "./NotFound"

/** Returns the trace id of the job's enqueue and runs. */
const traceOf = (meta: unknown): string | undefined => {
  const text =
    meta !== null && typeof meta === "object" && "traceparent" in meta && typeof meta.traceparent === "string"
      ? meta.traceparent
      : ""
  return /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(text)?.[1]
}

/** Links shown for the events of a job. All of them are in `meta`. */
const maxEventLinks = 10

const EventLinks = ({ ids }: { readonly ids: ReadonlyArray<string> }) => (
  <>
    {ids.slice(0, maxEventLinks).map((id) => (
      <div key={id} class="mono">
        <a href={to(`events/${id}`)}>{id}</a>
      </div>
    ))}
    {ids.length > maxEventLinks ? `and ${ids.length - maxEventLinks} more` : null}
  </>
)

/** The key, with a link to the jobs that have it. */
const KeyText = ({ job: { key, queue } }: { readonly job: JobView }) => (
  <>
    <code>{key}</code>{" "}
    <a class="small" href={to("jobs", { queue, key: key ?? "" })}>
      Jobs with this key
    </a>
  </>
)

const JobFacts = ({ job }: { readonly job: JobView }) => {
  const { dedupe, finishedAt, runAt, startedAt } = job
  const execution = useExecutionOf(job)
  const trace = traceOf(job.meta)
  const events = eventIds(job.meta)
  return (
    <Facts
      of={[
        ["Kind", <KindLink name={job.kind} />],
        ["Queue", <QueueLink name={job.queue} />],
        ["Attempt", `${job.attempt} of ${job.attempts}`],
        ["Priority", job.priority],
        ["Created", <Moment at={job.createdAt} />],
        ["Due", !isWaiting(job.state) && runAt === job.createdAt ? null : <Moment at={runAt} />],
        ["Started", startedAt === null ? null : <Moment at={startedAt} />],
        ["Finished", finishedAt === null ? null : <Moment at={finishedAt} />],
        [
          "Duration",
          startedAt === null || finishedAt === null
            ? null
            : measured((Date.parse(finishedAt) - Date.parse(startedAt)) / 1000)
        ],
        ["Process", job.pod === null ? null : <PodLink id={job.pod} />],
        ["Trace", trace === undefined ? null : <span class="mono">{trace}</span>],
        ["Key", job.key === null ? null : <KeyText job={job} />],
        [
          "Dedupe key",
          dedupe === null ? null : (
            <>
              <code>{dedupe.key}</code> ({dedupe.scope})
            </>
          )
        ],
        [
          events.length > 1 ? `${events.length} events` : "Event",
          events.length === 0 ? null : <EventLinks ids={events} />
        ],
        ["Execution", execution === undefined ? null : <ExecutionLink execution={execution} />]
      ]}
    />
  )
}

const progressOf = (job: JobView) => {
  const progress = readProgress(job.progress)
  return progress === undefined ? null : (
    <div class="card body">
      <ProgressBar of={progress} />
    </div>
  )
}

/** Payload, result, progress and meta, or when they were erased. */
const JobData = ({ job }: { readonly job: JobView }) => {
  const erasedAt = erasedAtOf(job.meta)
  if (erasedAt !== undefined)
    return (
      <Card name="payload" title="Payload">
        <p>
          Erased on {instantText(new Date(erasedAt))}. The job keeps its state, its attempts and its times, and cannot
          run again.
        </p>
      </Card>
    )
  return (
    <>
      {(["payload", "result", "progress", "meta"] as const).map((part) =>
        job[part] === null && part !== "payload" ? null : <JsonCard key={part} name={part} value={job[part]} />
      )}
    </>
  )
}

export const Job = ({ id }: { readonly id: string }) => {
  const { pulse } = useLiveUpdates()
  const path = `jobs/${encodeURIComponent(id)}`
  const job = useResource<JobView>(path, { pulse, every: 5_000 })
  const mayAct = useMayAct()
  const [editing, setEditing] = useState(false)
  if (job.error?.status === 404) return <Gone what="job" id={id} list="jobs" />
  return (
    <Shown of={job}>
      {(data) => (
        <>
          <Head title={data.kind}>
            <StateBadge state={data.state} />
            {mayAct ? <JobActions job={data} onChange={job.reload} onEdit={() => setEditing(true)} /> : null}
          </Head>
          <div class="quiet mono id">{data.id}</div>
          <WhyCard key={path} path={path} state={data.state} pod={data.pod} pulse={pulse} />
          {progressOf(data)}
          {data.lastError === null ? null : <ErrorText class="failure" text={data.lastError} />}
          <div class="run">
            <Card name="Details" content="body">
              <JobFacts job={data} />
            </Card>
            <Card name="Timeline" content="body">
              <RunTimeline job={data} />
            </Card>
          </div>
          <RunLogs job={data} />
          <JobData job={data} />
          {editing ? (
            <EditJob
              job={data}
              onClose={() => setEditing(false)}
              onSaved={() => {
                setEditing(false)
                job.reload()
              }}
            />
          ) : null}
        </>
      )}
    </Shown>
  )
}
