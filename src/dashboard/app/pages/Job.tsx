import { useState } from "preact/hooks"
import { EditJob } from "../EditJob"
import { ExecutionOf } from "../ExecutionStatus"
import { useLiveUpdates } from "../Live"
import { PodLink } from "../PodLink"
import { Json } from "../parts/Json"
import { Empty, Shown } from "../parts/Notice"
import { ProgressBar, readProgress } from "../parts/Progress"
import { StateBadge } from "../parts/StateBadge"
import { instantText, Moment, measured } from "../parts/Time"
import { useResource } from "../Resource"
import { to } from "../Route"
import { RunTimeline } from "../RunTimeline"
import { useMayAct } from "../Session"
import type { Job as JobView } from "../Views"
import { WhyCard } from "../WhyCard"
import { JobActions } from "./JobActions"

const waiting = new Set(["scheduled", "retrying", "pending"])

/** Returns the trace id of the job's enqueue and runs. */
const traceOf = (meta: unknown): string | undefined => {
  const text = meta !== null && typeof meta === "object" && "traceparent" in meta ? String(meta.traceparent) : ""
  return /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(text)?.[1]
}

const Facts = ({ job }: { readonly job: JobView }) => (
  <dl class="facts">
    <dt>Kind</dt>
    <dd>
      <a href={to(`kinds/${encodeURIComponent(job.kind)}`)}>{job.kind}</a>
    </dd>
    <dt>Queue</dt>
    <dd>
      <a href={to(`queues/${encodeURIComponent(job.queue)}`)}>{job.queue}</a>
    </dd>
    <dt>Attempt</dt>
    <dd>
      {job.attempt} of {job.maxAttempts}
    </dd>
    <dt>Priority</dt>
    <dd>{job.priority}</dd>
    <dt>Created</dt>
    <dd>
      <Moment at={job.createdAt} />
    </dd>
    <dt>{waiting.has(job.state) ? "Due" : "Was scheduled for"}</dt>
    <dd>{waiting.has(job.state) ? <Moment at={job.runAt} /> : instantText(new Date(job.runAt))}</dd>
    {job.startedAt === null ? null : (
      <>
        <dt>Started</dt>
        <dd>
          <Moment at={job.startedAt} />
        </dd>
      </>
    )}
    {job.finishedAt === null ? null : (
      <>
        <dt>Finished</dt>
        <dd>
          <Moment at={job.finishedAt} />
        </dd>
      </>
    )}
    {job.startedAt === null || job.finishedAt === null ? null : (
      <>
        <dt>Duration</dt>
        <dd>{measured((Date.parse(job.finishedAt) - Date.parse(job.startedAt)) / 1000)}</dd>
      </>
    )}
    {job.pod === null ? null : (
      <>
        <dt>Pod</dt>
        <dd>
          <PodLink id={job.pod} />
        </dd>
      </>
    )}
    {traceOf(job.meta) === undefined ? null : (
      <>
        <dt>Trace</dt>
        <dd class="mono">{traceOf(job.meta)}</dd>
      </>
    )}
    {job.dedupe === null ? null : (
      <>
        <dt>Dedupe</dt>
        <dd>
          <code>{job.dedupe.key}</code> ({job.dedupe.scope})
        </dd>
      </>
    )}
    <ExecutionOf job={job} />
  </dl>
)

const progressOf = (job: JobView) => {
  const progress = readProgress(job.progress)
  return progress === undefined ? null : (
    <div class="card body">
      <ProgressBar of={progress} />
    </div>
  )
}

/** Shown instead of a job that does not exist. */
const NoJob = ({ id }: { readonly id: string }) => (
  <>
    <div class="head">
      <h1>Job not found</h1>
    </div>
    <Empty>
      There is no job <span class="mono">{id}</span>. It was deleted, or its retention has passed.{" "}
      <a href={to("jobs")}>Show all jobs</a>
    </Empty>
  </>
)

export const Job = ({ id }: { readonly id: string }) => {
  const { pulse } = useLiveUpdates()
  const path = `jobs/${encodeURIComponent(id)}`
  const job = useResource<JobView>(path, { pulse, every: 5_000 })
  const mayAct = useMayAct()
  const [editing, setEditing] = useState(false)
  if (job.error?.status === 404) return <NoJob id={id} />
  return (
    <Shown of={job}>
      {(data) => (
        <>
          <div class="head">
            <h1>{data.kind}</h1>
            <StateBadge state={data.state} />
            {mayAct ? <JobActions job={data} onChange={job.reload} onEdit={() => setEditing(true)} /> : null}
          </div>
          <div class="quiet mono id">{data.id}</div>
          <WhyCard key={path} path={path} state={data.state} pod={data.pod} pulse={pulse} />
          {progressOf(data)}
          {data.lastError === null ? null : <pre class="failure">{data.lastError}</pre>}
          <div class="run">
            <section class="card" aria-label="Details">
              <header>
                <h2>Details</h2>
              </header>
              <div class="body">
                <Facts job={data} />
              </div>
            </section>
            <section class="card" aria-label="Timeline">
              <header>
                <h2>Timeline</h2>
              </header>
              <div class="body">
                <RunTimeline job={data} />
              </div>
            </section>
          </div>
          {(["payload", "result", "progress", "meta"] as const).map((part) =>
            data[part] === null && part !== "payload" ? null : (
              <section class="card" key={part} aria-label={part}>
                <header>
                  <h2>{part[0]?.toUpperCase() + part.slice(1)}</h2>
                </header>
                <div class="body">
                  <Json label={part} value={data[part]} />
                </div>
              </section>
            )
          )}
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
