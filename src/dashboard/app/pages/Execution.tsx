import { useEffect, useState } from "preact/hooks"
import { ExecutionActions, Fork } from "../ExecutionActions"
import { ExecutionBadge, ExecutionLink, isErased, Tags, Waits } from "../ExecutionState"
import { ExecutionStreams } from "../ExecutionStreams"
import { QueueLink } from "../Links"
import { useLiveUpdates } from "../Live"
import { Card } from "../parts/Card"
import { ErrorText } from "../parts/ErrorText"
import { Facts } from "../parts/Facts"
import { Head } from "../parts/Head"
import { JsonCard } from "../parts/Json"
import { Shown } from "../parts/Notice"
import { Moment } from "../parts/Time"
import { slowPoll, useResource } from "../Resource"
import { to } from "../Route"
import { useMayAct } from "../Session"
import type { Execution as ExecutionView } from "../Views"
import { isFinished } from "../Waterfall"
import { WaterfallChart } from "../WaterfallChart"
import { Gone } from "./NotFound"

/** A longer journal is reported: every run replays it. */
const longJournal = 5_000

const factsOf = ({
  continued,
  createdAt,
  finishedAt,
  id,
  parents,
  pinned,
  queue,
  tags,
  unclaimed,
  version,
  waits,
  workflow
}: ExecutionView) =>
  [
    [
      "Workflow",
      <>
        <a href={to("workflows", { workflow })}>{workflow}</a>, version {version}
      </>
    ],
    ["Queue", <QueueLink name={queue} />],
    [
      "Job",
      <a class="mono" href={to(`jobs/${id}`)}>
        {id}
      </a>
    ],
    [
      parents.length === 1 ? "Parent" : "Parents",
      parents.length === 0
        ? null
        : parents.map((parent) => (
            <div key={parent}>
              <ExecutionLink execution={parent} />
            </div>
          ))
    ],
    ["Tags", Object.keys(tags).length === 0 ? null : <Tags tags={tags} />],
    ["Started", <Moment at={createdAt} />],
    ["Ended", finishedAt === null ? null : <Moment at={finishedAt} />],
    [
      "Continued",
      continued === 0 ? null : (
        <span title="The execution ended its journal this often, and went on with a new one.">
          {continued === 1 ? "once" : `${continued} times`}
        </span>
      )
    ],
    [
      "Pinned to",
      pinned === null ? null : (
        <span class="mono" title="Only processes with this release of the code run the execution.">
          release {pinned}
        </span>
      )
    ],
    ["Waits for", waits.length === 0 ? null : <Waits waits={waits} />],
    [
      "Unclaimed signals",
      unclaimed.length === 0 ? null : (
        <span title="Signals that have arrived and that the execution has not received. Check their names.">
          {unclaimed.join(", ")}
        </span>
      )
    ]
  ] as const

export const Execution = ({ id }: { readonly id: string }) => {
  const { pulse } = useLiveUpdates()
  const mayAct = useMayAct()
  const [forking, setForking] = useState<string>()
  const [isOver, setOver] = useState(false)
  const execution = useResource<ExecutionView>(`workflows/${encodeURIComponent(id)}`, {
    pulse,
    every: isOver ? slowPoll : 2_000
  })
  const state = execution.data?.state
  useEffect(() => setOver(state !== undefined && isFinished({ state })), [state])
  if (execution.error?.status === 404) return <Gone what="execution" id={id} list="workflows" />
  return (
    <Shown of={execution}>
      {(data) => (
        <>
          <Head title={data.execution}>
            <ExecutionBadge state={data.state} reason={data.reason} />
            {mayAct ? <ExecutionActions execution={data} onChange={execution.reload} /> : null}
          </Head>
          {data.lastError === null ? null : <ErrorText class="failure" text={data.lastError} />}
          <Card name="Details" content="body">
            <Facts of={factsOf(data)} />
          </Card>
          {data.steps.length < longJournal || data.finishedAt !== null ? null : (
            <div class="warning" role="status">
              This execution has recorded {data.steps.length} steps, and every run replays them. Continue with a new
              journal (step.continueAs), or move parts to children.
            </div>
          )}
          <Card name="Waterfall">
            <WaterfallChart execution={data} onFork={setForking} />
          </Card>
          <ExecutionStreams execution={data} />
          {Object.keys(data.values).length === 0 ? null : <JsonCard name="values" value={data.values} />}
          {isErased(data) ? (
            <Card name="payload" title="Payload">
              <p>Erased. The execution keeps its state, its steps and its times, and cannot run again.</p>
            </Card>
          ) : (
            <JsonCard name="payload" value={data.payload} />
          )}
          {data.result === null ? null : <JsonCard name="result" value={data.result} />}
          {forking === undefined ? null : (
            <Fork execution={data} step={forking} onClose={() => setForking(undefined)} onDone={execution.reload} />
          )}
        </>
      )}
    </Shown>
  )
}
