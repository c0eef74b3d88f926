import { useEffect, useState } from "preact/hooks"
import { queueAddress } from "./Links"
import { useLiveUpdates } from "./Live"
import { Drawer } from "./parts/Dialog"
import { Empty, Shown } from "./parts/Notice"
import { Age, span, useTick } from "./parts/Time"
import { showError } from "./parts/Toasts"
import { slowPoll, useResource } from "./Resource"
import { to } from "./Route"
import { useMayAct } from "./Session"
import { onOpenActions, openActions, undo } from "./Undo"
import type { Action } from "./Views"

// What operators did in the last hour: who, what, how many jobs, and for how long it can be undone.

const addressOf = ({ act, target }: Action): string => {
  if (act === "job.delete") return to("audit", { target })
  if (act.startsWith("job.")) return to(`jobs/${target}`)
  if (act.startsWith("endpoint.") && act !== "endpoint.delete") return to(`endpoints/${target}`)
  return act.startsWith("queue.") ? queueAddress(target) : to("audit", { target })
}

/** How long an action can be undone, or why it cannot. */
const UndoState = ({ action }: { readonly action: Action }) => {
  const now = useTick()
  if (action.undone) return <>undone</>
  if (action.running) return <>running</>
  const left = action.undo === null ? 0 : (Date.parse(action.undo.until) - now) / 1000
  return <>{left > 0 ? `${span(left < 60 ? left : left - (left % 60))} left` : "cannot be undone"}</>
}

const UndoButton = ({ action }: { readonly action: Action }) => {
  const { trouble } = useLiveUpdates()
  const [busy, setBusy] = useState(false)
  const run = () => {
    setBusy(true)
    void undo(action)
      .catch(showError)
      .finally(() => setBusy(false))
  }
  return (
    <button type="button" aria-label={`Undo: ${action.text}`} disabled={busy || trouble !== undefined} onClick={run}>
      Undo
    </button>
  )
}

/** The actions of the last hour, newest first. */
export const ActionList = ({ limit }: { readonly limit: number }) => {
  const mayAct = useMayAct()
  const { pulse } = useLiveUpdates()
  const actions = useResource<{ actions: ReadonlyArray<Action> }>(`actions?limit=${limit}`, {
    pulse,
    every: slowPoll,
    announced: true
  })
  return (
    <Shown of={actions}>
      {(data) =>
        data.actions.length === 0 ? (
          <Empty>No actions in the last hour. What you requeue, cancel, delete or pause appears here.</Empty>
        ) : (
          <ul class="acted">
            {data.actions.map((action) => (
              <li key={action.id} class={action.undone ? "gone" : ""}>
                <div>
                  <a href={addressOf(action)}>{action.text}</a>
                  <div class="quiet small">
                    {action.who}, <Age at={action.at} />
                    {action.reason === null ? null : `: ${action.reason}`}
                  </div>
                  {action.error === null ? null : <div class="small">Failed: {action.error}</div>}
                </div>
                <span class="quiet small nowrap">
                  <UndoState action={action} />
                </span>
                {mayAct && action.undo?.request != null ? <UndoButton action={action} /> : null}
              </li>
            ))}
          </ul>
        )
      }
    </Shown>
  )
}

/** Opens the recent actions. */
export const ActionsButton = () => (
  <button type="button" class="live" onClick={openActions}>
    Recent actions
  </button>
)

/** The recent actions beside every page, if they were opened. */
export const ActionsDrawer = () => {
  const [open, setOpen] = useState(false)
  useEffect(() => onOpenActions(() => setOpen(true)), [])
  return open ? (
    <Drawer title="Recent actions" onClose={() => setOpen(false)}>
      <ActionList limit={50} />
      <p class="body small">
        <a href={to("audit")}>Open audit log</a>
      </p>
    </Drawer>
  ) : null
}
