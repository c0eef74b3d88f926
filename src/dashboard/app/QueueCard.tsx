import { useState } from "preact/hooks"
import { serveCommand } from "../../core/Incidents.js"
import * as Api from "./Api"
import { useUnserved } from "./LiveQueues"
import { changeQueue, PauseButton } from "./PauseButton"
import { Card, Fold } from "./parts/Card"
import { useGuard } from "./parts/Guard"
import { Snippet } from "./parts/Snippet"
import { rateText, Sparkline } from "./parts/Sparkline"
import { Age, span } from "./parts/Time"
import { showToast } from "./parts/Toasts"
import { QueueForm } from "./QueueForm"
import { useResource } from "./Resource"
import { to } from "./Route"
import { useMayAct } from "./Session"
import { type AuditEntry, type Queue, type QueueSeries, stateCount } from "./Views"

/** Share of the queue's workers that are busy. */
const Utilisation = ({ queue }: { readonly queue: Queue }) => {
  const { counts, maxWorkers, utilisation } = queue
  const running = counts.running.value
  const share = utilisation === null ? "–" : `${Math.round(utilisation * 100)} %`
  return (
    <span class="use">
      <span>
        <strong>{stateCount([queue], "running")}</strong> of {maxWorkers} running
      </span>
      <span class="bar" role="img" aria-label={`${running} of ${maxWorkers} in use, ${share}`}>
        <progress max={Math.max(1, maxWorkers)} value={running} />
      </span>
      <span class="share">{share}</span>
    </span>
  )
}

/** Chips for unusual states of a queue. */
export const QueueChips = ({ queue }: { readonly queue: Queue }) => (
  <>
    {queue.paused ? <span class="chip bad">paused</span> : null}
    {queue.declared ? null : <span class="chip">not declared by any process</span>}
    {queue.throttledUntil === null ? null : (
      <span class="chip">
        cool-down ends <Age at={queue.throttledUntil} />
      </span>
    )}
  </>
)

const isPaused = (settings: unknown) =>
  typeof settings === "object" && settings !== null && "paused" in settings && settings.paused === true

/** Maximum number of changes among which the page looks for the one that paused the queue. */
const maxExaminedChanges = 100

/** Who paused a queue, when and why. */
const PausedBy = ({ queue }: { readonly queue: string }) => {
  const query = { act: "queue.change", target: queue }
  const { data } = useResource<{ entries: ReadonlyArray<AuditEntry> }>(
    `audit${Api.query({ ...query, limit: maxExaminedChanges })}`
  )
  const entry = data?.entries.find(({ after, before }) => isPaused(after) && !isPaused(before))
  return (
    <div class="warning" role="status">
      No job of this queue starts until it is resumed.{" "}
      {entry === undefined ? (
        data === undefined || data.entries.length === maxExaminedChanges ? null : (
          "The audit log does not say who paused it. "
        )
      ) : (
        <>
          Paused <Age at={entry.at} /> by {entry.who}
          {entry.reason === null ? ". No reason was given. " : `: ${entry.reason}. `}
        </>
      )}
      <a href={to("audit", query)}>Changes of this queue</a>
    </div>
  )
}

/** Says that no process serves a queue, and how to start one. */
const Unserved = ({ queue }: { readonly queue: Queue }) => {
  const command = serveCommand([queue])
  return (
    <div class="warning" role="status">
      No live process serves this queue. Start your worker, or run:
      <Snippet label="command" text={command} />
    </div>
  )
}

/** State and settings of one queue. */
export const QueueCard = (props: {
  readonly queue: Queue
  readonly series: QueueSeries | undefined
  readonly onChange: () => void
}) => {
  const { onChange, queue, series } = props
  const mayAct = useMayAct()
  const unserved = useUnserved()
  const [editing, setEditing] = useState(false)
  const guard = useGuard(queue.paused)
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
                onClick={guard(() =>
                  changeQueue(
                    queue.name,
                    { throttledUntil: null },
                    `${queue.name}: cool-down ended`,
                    onChange,
                    showToast
                  )
                )}
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
      {queue.paused ? <PausedBy queue={queue.name} /> : null}
      {unserved.has(queue.name) ? <Unserved queue={queue} /> : null}
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
            class={`state ${state} ${queue.counts[state].value === 0 ? "none" : ""}`}
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
