import { useState } from "preact/hooks"
import * as Api from "../Api"
import { JobCharts } from "../JobCharts"
import { useNews } from "../Live"
import { Empty, Shown } from "../parts/Notice"
import { RangeButtons, useRange } from "../parts/Range"
import { Age, span } from "../parts/Time"
import { say } from "../parts/Toasts"
import { QueueForm } from "../QueueForm"
import { useResource } from "../Resource"
import { to } from "../Route"
import { useMayAct } from "../Session"
import { brief, type Queue } from "../Views"

const QueueCard = ({ onChange, queue }: { queue: Queue; onChange: () => void }) => {
  const mayAct = useMayAct()
  const [editing, setEditing] = useState(false)
  const [looking, setLooking] = useState(false)
  const change = (body: unknown, said: string) =>
    Api.patch(`queues/${encodeURIComponent(queue.name)}`, body).then(
      () => {
        say(said)
        onChange()
      },
      (error: Error) => say(error.message)
    )
  return (
    <section class="card" aria-label={queue.name}>
      <header>
        <h2>
          <a href={to("jobs", { queue: queue.name })}>{queue.name}</a>
        </h2>
        {queue.paused ? <span class="chip">paused</span> : null}
        {queue.declared ? null : <span class="chip">no pod declared it</span>}
        {queue.throttledUntil === null ? null : (
          <span class="chip">
            cooling down, ends <Age at={queue.throttledUntil} />
          </span>
        )}
        <div class="side">
          <button type="button" aria-pressed={looking} onClick={() => setLooking(!looking)}>
            Charts
          </button>
          {mayAct && queue.declared ? (
            <>
              {queue.throttledUntil === null ? null : (
                <button type="button" onClick={() => void change({ throttledUntil: null }, `${queue.name} goes on.`)}>
                  End cool-down
                </button>
              )}
              <button
                type="button"
                onClick={() =>
                  void change(
                    { paused: !queue.paused },
                    queue.paused ? `${queue.name} goes on.` : `${queue.name} is paused.`
                  )
                }
              >
                {queue.paused ? "Resume" : "Pause"}
              </button>
              <button type="button" aria-expanded={editing} onClick={() => setEditing(!editing)}>
                Settings
              </button>
            </>
          ) : null}
        </div>
      </header>
      <div class="body stack">
        <div class="row figures">
          <span>
            <strong>{brief(queue.counts.running)}</strong> of {queue.maxWorkers} running
          </span>
          <span class="bar" role="img" aria-label={`${queue.counts.running} of ${queue.maxWorkers} in use`}>
            <progress max={Math.max(1, queue.maxWorkers)} value={queue.counts.running} />
          </span>
          {(["pending", "scheduled", "retrying", "done", "dead"] as const).map((state) => (
            <a
              class={queue.counts[state] === 0 ? "state none" : `state ${state}`}
              key={state}
              href={to("jobs", { queue: queue.name, state })}
            >
              {brief(queue.counts[state])} {state}
            </a>
          ))}
          <span class="quiet">
            oldest due {queue.oldestDueAgeSeconds === null ? "–" : span(queue.oldestDueAgeSeconds)}
          </span>
        </div>
        {looking ? <QueueCharts queue={queue.name} /> : null}
        {editing ? (
          <QueueForm
            queue={queue}
            onSaved={() => {
              setEditing(false)
              onChange()
            }}
          />
        ) : null}
      </div>
    </section>
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

/** Every queue: what waits in it, how it is set, and the levers. */
export const Queues = () => {
  const { pulse } = useNews()
  const queues = useResource<{ queues: ReadonlyArray<Queue> }>("queues", { pulse, every: 10_000 })
  return (
    <>
      <div class="head">
        <h1>Queues</h1>
      </div>
      <Shown of={queues}>
        {(data) =>
          data.queues.length === 0 ? (
            <Empty>No queue yet. A pod declares those it serves when it starts.</Empty>
          ) : (
            data.queues.map((queue) => <QueueCard key={queue.name} queue={queue} onChange={queues.reload} />)
          )
        }
      </Shown>
    </>
  )
}
