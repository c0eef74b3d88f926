import { useState } from "preact/hooks"
import * as Api from "../Api"
import { EditJob } from "../EditJob"
import { doneWords } from "../JobActs"
import { useNews } from "../Live"
import { Json } from "../parts/Json"
import { Shown } from "../parts/Notice"
import { StateBadge } from "../parts/StateBadge"
import { Age, instantText, Moment, span } from "../parts/Time"
import { say } from "../parts/Toasts"
import { useResource } from "../Resource"
import { go, to } from "../Route"
import { useMayAct } from "../Session"
import type { Job as JobView } from "../Views"
import { WhyCard } from "../WhyCard"

const waiting = new Set(["scheduled", "retrying", "pending"])
const over = new Set(["done", "dead"])

/** Returns the trace id of the job's enqueue and runs. */
const traceOf = (meta: unknown): string | undefined => {
  const text = meta !== null && typeof meta === "object" && "traceparent" in meta ? String(meta.traceparent) : ""
  return /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(text)?.[1]
}

const Facts = ({ job }: { readonly job: JobView }) => (
  <dl class="facts">
    <dt>Queue</dt>
    <dd>
      <a href={to("jobs", { queue: job.queue })}>{job.queue}</a>
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
    {job.pod === null ? null : (
      <>
        <dt>Pod</dt>
        <dd class="mono">{job.pod}</dd>
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
  </dl>
)

const Timeline = ({ job }: { readonly job: JobView }) => (
  <ol class="timeline">
    <li>
      <strong>created</strong> <Age at={job.createdAt} />
    </li>
    {job.errors.map((error) => (
      <li key={`${error.startedAt} ${error.outcome}`}>
        <strong>
          attempt {error.attempt}: {error.outcome}
        </strong>{" "}
        <Age at={error.endedAt} />{" "}
        <span class="quiet small">
          after {span((Date.parse(error.endedAt) - Date.parse(error.startedAt)) / 1000)} on {error.pod.slice(-8)}
        </span>
        {error.message === null ? null : <pre class="text">{error.message}</pre>}
      </li>
    ))}
    {job.state === "running" ? (
      <li>
        <strong>running</strong> since <Age at={job.startedAt} />
      </li>
    ) : null}
    {job.finishedAt === null ? null : (
      <li>
        <strong>{job.state}</strong> {job.deadReason === null ? "" : `(${job.deadReason}) `}
        <Age at={job.finishedAt} />
      </li>
    )}
  </ol>
)

const Acts = ({ job, onChange, onEdit }: { job: JobView; onChange: () => void; onEdit: () => void }) => {
  const act = (done: string, path: string, back?: { name: string; path: string }) => () =>
    Api.post(`jobs/${job.id}/${path}`).then(
      () => {
        onChange()
        say(
          `${job.kind} ${done}`,
          back === undefined
            ? undefined
            : {
                name: back.name,
                run: () => void Api.post(`jobs/${job.id}/${back.path}`).then(onChange, (e: Error) => say(e.message))
              }
        )
      },
      (error: Error) => say(error.message)
    )
  const copy = async () => {
    const { kind, payload, priority, queue } = job
    const { jobs } = await Api.post<{ jobs: ReadonlyArray<{ id: string }> }>("jobs", {
      jobs: [{ kind, payload, priority, queue }]
    })
    say(`${kind} enqueued again`)
    if (jobs[0] !== undefined) go(to(`jobs/${jobs[0].id}`))
  }
  const drop = () =>
    Api.remove(`jobs/${job.id}`).then(
      () => {
        say(`${job.kind} deleted`)
        go(to("jobs"))
      },
      (error: Error) => say(error.message)
    )
  return (
    <div class="side">
      {over.has(job.state) ? (
        <button
          type="button"
          class="primary"
          onClick={act(doneWords.requeue, "requeue", { name: "Cancel", path: "cancel" })}
        >
          Requeue
        </button>
      ) : null}
      {job.state === "scheduled" || job.state === "retrying" ? (
        <button type="button" onClick={act(doneWords["run-now"], "run-now")}>
          Run now
        </button>
      ) : null}
      {waiting.has(job.state) ? (
        <button type="button" onClick={onEdit}>
          Edit
        </button>
      ) : null}
      {over.has(job.state) ? null : (
        <button
          type="button"
          class="danger"
          onClick={act(job.state === "running" ? "asked to stop" : doneWords.cancel, "cancel", {
            name: "Undo",
            path: "requeue"
          })}
        >
          Cancel
        </button>
      )}
      <button type="button" onClick={() => void copy().catch((error: Error) => say(error.message))}>
        Duplicate
      </button>
      {job.state === "running" ? null : (
        <button type="button" class="danger" onClick={() => void drop()}>
          Delete
        </button>
      )}
    </div>
  )
}

export const Job = ({ id }: { readonly id: string }) => {
  const { pulse } = useNews()
  const path = `jobs/${encodeURIComponent(id)}`
  const job = useResource<JobView>(path, { pulse, every: 5_000 })
  const mayAct = useMayAct()
  const [editing, setEditing] = useState(false)
  return (
    <Shown of={job}>
      {(data) => (
        <>
          <div class="head">
            <h1>{data.kind}</h1>
            <StateBadge state={data.state} />
            {mayAct ? <Acts job={data} onChange={job.reload} onEdit={() => setEditing(true)} /> : null}
          </div>
          <div class="quiet mono id">{data.id}</div>
          <WhyCard key={path} path={path} state={data.state} pulse={pulse} />
          {data.lastError === null ? null : <pre class="failure">{data.lastError}</pre>}
          <div class="grid">
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
                <Timeline job={data} />
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
