import { useState } from "preact/hooks"
import { erasedAtOf } from "../../../core/Subject.js"
import * as Api from "../Api"
import { useCommands } from "../Commands"
import { type Act, actNames, acts, doneWords, isFor, isWaiting, notFor, phrase } from "../JobActs"
import { Dialog } from "../parts/Dialog"
import { useGuard } from "../parts/Guard"
import { isUnopened } from "../parts/Json"
import { SaveForm } from "../parts/SaveForm"
import { showError, showToast } from "../parts/Toasts"
import { go, to } from "../Route"
import { announce, undoText } from "../Undo"
import type { ActedJob, Job } from "../Views"

// Every button keeps its place in every state, so that a click never hits a different action.

interface Given {
  readonly job: Job
  readonly onChange: () => void
  readonly onEdit: () => void
}

/** Why the button is disabled, or what the action does and whether it can be undone. */
const hintOf = (act: Act, job: Job): string => {
  if (!isFor(act, job.state)) return notFor(act)
  if (act === "requeue" && erasedAtOf(job.meta) !== undefined) return "The payload of this job was erased."
  if (act === "cancel" && job.state === "running") return "Asks the handler to stop. Cannot be undone."
  return undoText
}

/** A job to enqueue that runs as this one does. Its dedupe key would prevent it, and its trace is that of another enqueue. */
const copyOf = ({ attempts, key, kind, meta, payload, priority, queue }: Job) => {
  const { traceparent: _, ...kept } = (meta ?? {}) as Readonly<Record<string, unknown>>
  return {
    ...{ kind, payload, priority, queue, attempts },
    ...(key === null ? {} : { key }),
    ...(Object.keys(kept).length === 0 ? {} : { meta: kept })
  }
}

const ConfirmDelete = (props: {
  readonly job: Job
  readonly onClose: () => void
  readonly onConfirm: () => Promise<void>
}) => (
  <Dialog title={`Delete ${props.job.kind}?`} onClose={props.onClose}>
    <SaveForm label="Delete job" name="Delete job" danger save={props.onConfirm} onCancel={props.onClose}>
      <p class="small mono">{props.job.id}</p>
      <p class="quiet small">{undoText}</p>
    </SaveForm>
  </Dialog>
)

/** The actions on one job. */
export const JobActions = ({ job, onChange, onEdit }: Given) => {
  const [deleting, setDeleting] = useState(false)
  const guard = useGuard(job.state)
  const isErased = erasedAtOf(job.meta) !== undefined
  const isSealed = isUnopened(job.payload)

  const act = (name: "cancel" | "requeue" | "run-now") => {
    const done = name === "cancel" && job.state === "running" ? "asked to stop" : doneWords[name]
    return Api.post<ActedJob>(`jobs/${job.id}/${name}`).then((acted) => {
      onChange()
      const text = `${job.kind} ${done}`
      if (acted.undo === null) showToast(text)
      else announce(text)
    }, showError)
  }
  const copy = async () => {
    const { kind } = job
    const { jobs } = await Api.post<{ jobs: ReadonlyArray<{ id: string }> }>("jobs", { jobs: [copyOf(job)] })
    showToast(`${kind} enqueued again`)
    if (jobs[0] !== undefined) go(to(`jobs/${jobs[0].id}`))
  }
  const drop = async () => {
    await Api.remove<ActedJob>(`jobs/${job.id}`)
    go(to("jobs"))
    announce(`${job.kind} deleted`)
  }

  const runs: Readonly<Record<Act, () => unknown>> = {
    requeue: () => act("requeue"),
    "run-now": () => act("run-now"),
    cancel: () => act("cancel"),
    delete: () => setDeleting(true)
  }
  useCommands(
    acts
      .filter((name) => isFor(name, job.state) && !(name === "requeue" && isErased))
      .map((name) => ({ name: phrase(name, "this job"), run: guard(runs[name]) }))
  )
  const button = (name: Act, kind = "") => (
    <button
      type="button"
      class={kind}
      disabled={!isFor(name, job.state) || (name === "requeue" && isErased)}
      title={hintOf(name, job)}
      onClick={guard(runs[name])}
    >
      {actNames[name]}
    </button>
  )
  return (
    <div class="side">
      {button("requeue", job.state === "dead" ? "primary" : "")}
      {button("run-now")}
      <button
        type="button"
        disabled={!isWaiting(job.state)}
        title={isWaiting(job.state) ? undefined : "Only waiting jobs can be edited."}
        onClick={guard(onEdit)}
      >
        Edit
      </button>
      {button("cancel", "danger")}
      <button
        type="button"
        disabled={isErased || isSealed}
        title={isSealed ? "The service has no key that opens the payload." : undefined}
        onClick={guard(() => copy().catch(showError))}
      >
        Duplicate
      </button>
      {button("delete", "danger")}
      {deleting ? <ConfirmDelete job={job} onClose={() => setDeleting(false)} onConfirm={drop} /> : null}
    </div>
  )
}
