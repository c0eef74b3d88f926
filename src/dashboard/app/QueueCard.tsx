import { useState } from "preact/hooks"
import { PauseButton, useQueueChange } from "./PauseButton"
import { Card, Fold } from "./parts/Card"
import { rateText, Sparkline } from "./parts/Sparkline"
import { Age, span } from "./parts/Time"
import { QueueForm } from "./QueueForm"
import { to } from "./Route"
import { useMayAct } from "./Session"
import { brief, type Queue, type QueueSeries, stateCount } from "./Views"

/** Share of the queue's workers that are busy. */
export const Utilisation = ({ queue }: { readonly queue: Queue }) => {
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

/** What is special about a queue now. */
export const QueueChips = ({ queue }: { readonly queue: Queue }) => (
  <>
    {queue.paused ? <span class="chip bad">paused</span> : null}
    {queue.declared ? null : <span class="chip">not declared by any pod</span>}
    {queue.throttledUntil === null ? null : (
      <span class="chip">
        cool-down ends <Age at={queue.throttledUntil} />
      </span>
    )}
  </>
)

/** State and settings of one queue. */
export const QueueCard = (props: {
  readonly queue: Queue
  readonly series: QueueSeries | undefined
  readonly onChange: () => void
}) => {
  const { onChange, queue, series } = props
  const mayAct = useMayAct()
  const [editing, setEditing] = useState(false)
  const { guard, send } = useQueueChange(queue, onChange)
  return (
    <Card
      name={queue.name}
      title="State and settings"
      chips={<QueueChips queue={queue} />}
      acts={
        mayAct ? (
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
            <PauseButton queue={queue} onChange={onChange} />
            {queue.declared ? (
              <Fold open={editing} turn={setEditing}>
                Settings
              </Fold>
            ) : null}
          </>
        ) : null
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
      {editing ? (
        <QueueForm
          queue={queue}
          onSaved={() => {
            setEditing(false)
            onChange()
          }}
        />
      ) : null}
    </Card>
  )
}
