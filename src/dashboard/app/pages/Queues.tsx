import { useState } from "preact/hooks"
import * as Api from "../Api"
import { JobCharts } from "../JobCharts"
import { useNews } from "../Live"
import { Card, Fold } from "../parts/Card"
import { useGuard } from "../parts/Guard"
import { Empty, Shown } from "../parts/Notice"
import { RangeButtons, useRange } from "../parts/Range"
import { rateText, Sparkline } from "../parts/Sparkline"
import { Age, span } from "../parts/Time"
import { say } from "../parts/Toasts"
import { QueueForm } from "../QueueForm"
import { useResource } from "../Resource"
import { to } from "../Route"
import { useMayAct } from "../Session"
import { brief, type Queue, type QueueSeries, stateCount } from "../Views"

/** Share of the queue's workers that are busy. */
const Utilisation = ({ queue }: { readonly queue: Queue }) => {
  const { counts, maxWorkers, utilisation } = queue
  const share = utilisation === null ? "–" : `${Math.round(utilisation * 100)} %`
  return (
    <span class="use">
      <span>
        <strong>{brief(counts.running)}</strong> of {maxWorkers} running
      </span>
      <span class="bar" role="img" aria-label={`${counts.running} of ${maxWorkers} in use, ${share}`}>
        <progress max={Math.max(1, maxWorkers)} value={counts.running} />
      </span>
      <span class="share">{share}</span>
    </span>
  )
}

interface QueueCardProps {
  readonly queue: Queue
  readonly series: QueueSeries | undefined
  readonly onChange: () => void
  /** Whether the card is on the page of its queue, which has the charts and the name. */
  readonly alone?: boolean
}

export const QueueCard = ({ alone = false, onChange, queue, series }: QueueCardProps) => {
  const mayAct = useMayAct()
  const [editing, setEditing] = useState(false)
  const [looking, setLooking] = useState(false)
  const saved = () => {
    setEditing(false)
    onChange()
  }
  const guard = useGuard(queue.paused)
  const send = (body: unknown, said: string, undo?: Readonly<Record<string, unknown>>): Promise<void> =>
    Api.patch(`queues/${encodeURIComponent(queue.name)}`, body).then(
      () => {
        say(
          said,
          undo === undefined ? undefined : { name: "Undo", run: () => void send(undo, `${queue.name} restored`) }
        )
        onChange()
      },
      (error: Error) => say(error.message)
    )
  return (
    <Card
      name={queue.name}
      title={alone ? "State and settings" : <a href={to(`queues/${encodeURIComponent(queue.name)}`)}>{queue.name}</a>}
      chips={
        <>
          {queue.paused ? <span class="chip">paused</span> : null}
          {queue.declared ? null : <span class="chip">not declared by any pod</span>}
          {queue.throttledUntil === null ? null : (
            <span class="chip">
              cool-down ends <Age at={queue.throttledUntil} />
            </span>
          )}
        </>
      }
      acts={
        <>
          {alone ? null : (
            <Fold open={looking} turn={setLooking}>
              Charts
            </Fold>
          )}
          {mayAct ? (
            <>
              {queue.throttledUntil === null ? null : (
                <button
                  type="button"
                  title="Cannot be undone."
                  onClick={guard(() => send({ throttledUntil: null }, `${queue.name}: cool-down ended`))}
                >
                  End cool-down
                </button>
              )}
              <button
                type="button"
                class="fixed"
                title={`${queue.paused ? "Start jobs of this queue again." : "Start no more jobs of this queue."} Can be undone.`}
                onClick={guard(() =>
                  send({ paused: !queue.paused }, `${queue.name} ${queue.paused ? "resumed" : "paused"}`, {
                    paused: queue.paused
                  })
                )}
              >
                {queue.paused ? "Resume" : "Pause"}
              </button>
              {queue.declared ? (
                <Fold open={editing} turn={setEditing}>
                  Settings
                </Fold>
              ) : null}
            </>
          ) : null}
        </>
      }
    >
      <div class="row figures">
        <span class="use">
          <Sparkline queue={queue.name} series={series} />
          <span class="rate" title="Jobs done per minute in the last hour">
            {queue.throughput === null ? "–" : rateText(queue.throughput)}
          </span>
        </span>
        <Utilisation queue={queue} />
        {queue.oldestDueAgeSeconds === null ? null : (
          <span class="quiet nowrap">oldest due {span(queue.oldestDueAgeSeconds)}</span>
        )}
      </div>
      <div class="row figures">
        {(["pending", "scheduled", "retrying", "done", "dead", "cancelled"] as const).map((state) => (
          <a
            class={queue.counts[state] === 0 ? "state none" : `state ${state}`}
            key={state}
            href={to("jobs", { queue: queue.name, state })}
          >
            {stateCount([queue], state)} {state}
          </a>
        ))}
      </div>
      {looking ? <QueueCharts queue={queue.name} /> : null}
      {editing ? <QueueForm queue={queue} onSaved={saved} /> : null}
    </Card>
  )
}

const QueueCharts = ({ queue }: { readonly queue: string }) => {
  const range = useRange()
  return (
    <>
      <RangeButtons range={range} />
      <JobCharts range={range} queue={queue} />
    </>
  )
}

export interface QueueList {
  readonly queues: ReadonlyArray<Queue>
  readonly countedAt: string
  readonly measuredAt: string | null
}

export const Queues = () => {
  const { pulse } = useNews()
  const queues = useResource<QueueList>("queues", { pulse, every: 10_000 })
  // One request for all queues, not reloaded on every event: the last hour changes slowly.
  const series = useResource<QueueSeries>("metrics/queues", { every: 5_000 })
  return (
    <>
      <div class="head">
        <h1>Queues</h1>
        <span class="quiet small">
          counts updated <Age at={queues.data?.countedAt} />, rates updated <Age at={queues.data?.measuredAt} />
        </span>
      </div>
      <Shown of={queues}>
        {(data) =>
          data.queues.length === 0 ? (
            <Empty>No queues yet. Pods declare their queues when they start.</Empty>
          ) : (
            data.queues.map((queue) => (
              <QueueCard key={queue.name} queue={queue} series={series.data} onChange={queues.reload} />
            ))
          )
        }
      </Shown>
    </>
  )
}
