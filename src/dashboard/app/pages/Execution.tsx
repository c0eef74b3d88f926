import { useEffect, useState } from "preact/hooks"
import { ExecutionActions, Fork } from "../ExecutionActions"
import { ExecutionLink, StatusBadge, Waits } from "../ExecutionStatus"
import { useLiveUpdates } from "../Live"
import { Json } from "../parts/Json"
import { Empty, Shown } from "../parts/Notice"
import { Moment } from "../parts/Time"
import { slowPoll, useResource } from "../Resource"
import { to } from "../Route"
import { useMayAct } from "../Session"
import type { Execution as ExecutionView } from "../Views"
import { isFinished } from "../Waterfall"
import { WaterfallChart } from "../WaterfallChart"

const Facts = ({ of }: { readonly of: ExecutionView }) => (
  <dl class="facts">
    <dt>Workflow</dt>
    <dd>
      <a href={to("workflows", { workflow: of.workflow })}>{of.workflow}</a>, version {of.version}
    </dd>
    <dt>Queue</dt>
    <dd>
      <a href={to(`queues/${encodeURIComponent(of.queue)}`)}>{of.queue}</a>
    </dd>
    <dt>Job</dt>
    <dd>
      <a class="mono" href={to(`jobs/${of.id}`)}>
        {of.id}
      </a>
    </dd>
    {of.parents.length === 0 ? null : (
      <>
        <dt>{of.parents.length === 1 ? "Parent" : "Parents"}</dt>
        <dd>
          {of.parents.map((parent) => (
            <div key={parent}>
              <ExecutionLink execution={parent} />
            </div>
          ))}
        </dd>
      </>
    )}
    <dt>Started</dt>
    <dd>
      <Moment at={of.createdAt} />
    </dd>
    {of.finishedAt === null ? null : (
      <>
        <dt>Ended</dt>
        <dd>
          <Moment at={of.finishedAt} />
        </dd>
      </>
    )}
    {of.waits.length === 0 ? null : (
      <>
        <dt>Waits for</dt>
        <dd>
          <Waits waits={of.waits} />
        </dd>
      </>
    )}
    {of.unclaimed.length === 0 ? null : (
      <>
        <dt>Unclaimed signals</dt>
        <dd title="Signals that have arrived and that the execution has not waited for. Check their names.">
          {of.unclaimed.join(", ")}
        </dd>
      </>
    )}
  </dl>
)

/** Shown instead of an execution that does not exist. */
const NoExecution = ({ id }: { readonly id: string }) => (
  <>
    <div class="head">
      <h1>Execution not found</h1>
    </div>
    <Empty>
      There is no execution <span class="mono">{id}</span>. It was deleted, or its retention has passed.{" "}
      <a href={to("workflows")}>Show all executions</a>
    </Empty>
  </>
)

export const Execution = ({ id }: { readonly id: string }) => {
  const { pulse } = useLiveUpdates()
  const mayAct = useMayAct()
  const [forking, setForking] = useState<string>()
  const [isOver, setOver] = useState(false)
  const execution = useResource<ExecutionView>(`workflows/${encodeURIComponent(id)}`, {
    pulse,
    every: isOver ? slowPoll : 2_000
  })
  const status = execution.data?.status
  useEffect(() => setOver(status !== undefined && isFinished({ status })), [status])
  if (execution.error?.status === 404) return <NoExecution id={id} />
  return (
    <Shown of={execution}>
      {(data) => (
        <>
          <div class="head">
            <h1 class="long-name">{data.execution}</h1>
            <StatusBadge status={data.status} deadReason={data.deadReason} />
            {mayAct ? <ExecutionActions execution={data} onChange={execution.reload} /> : null}
          </div>
          {data.lastError === null ? null : <pre class="failure">{data.lastError}</pre>}
          <section class="card" aria-label="Details">
            <header>
              <h2>Details</h2>
            </header>
            <div class="body">
              <Facts of={data} />
            </div>
          </section>
          <section class="card" aria-label="Waterfall">
            <header>
              <h2>Waterfall</h2>
            </header>
            <div class="body stack">
              <WaterfallChart execution={data} onFork={setForking} />
            </div>
          </section>
          {(["payload", "result"] as const).map((part) =>
            data[part] === null && part === "result" ? null : (
              <section class="card" key={part} aria-label={part}>
                <header>
                  <h2>{part === "payload" ? "Payload" : "Result"}</h2>
                </header>
                <div class="body">
                  <Json label={part} value={data[part]} />
                </div>
              </section>
            )
          )}
          {forking === undefined ? null : (
            <Fork execution={data} step={forking} onClose={() => setForking(undefined)} onDone={execution.reload} />
          )}
        </>
      )}
    </Shown>
  )
}
