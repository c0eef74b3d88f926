import { useEffect, useState } from "preact/hooks"
import * as Api from "./Api"
import { type Act, doneWords, phrase } from "./JobActs"
import { Dialog } from "./parts/Dialog"
import { Failure } from "./parts/Failure"
import { given, ReasonInput } from "./parts/ReasonInput"
import { SaveForm } from "./parts/SaveForm"
import { showToast } from "./parts/Toasts"
import { showUndoOperation, undoText } from "./Undo"
import { countText, type Job, type Operation, type Total } from "./Views"

// Confirms a bulk action with the number of jobs and a sample. The action runs on the server; this dialog polls its
// progress.

export interface Target {
  readonly ids?: ReadonlyArray<string>
  readonly filter?: Readonly<Record<string, unknown>>
}

interface DryRun {
  readonly matched: Total
  readonly undoable: boolean
  readonly sample: ReadonlyArray<Pick<Job, "id" | "kind" | "queue" | "state">>
}

const skippedOf = ({ failed, skipped }: Operation) =>
  Object.values(skipped).reduce((sum, count) => sum + count, 0) + failed

const Progress = ({ operation }: { readonly operation: Operation }) => {
  const through = operation.done + skippedOf(operation)
  const all = Math.max(through, operation.total?.count ?? through)
  return (
    <div class="stack" role="status">
      <progress max={1} value={all === 0 ? 1 : through / all} />
      <span>
        {operation.done.toLocaleString()} done, {skippedOf(operation).toLocaleString()} skipped of{" "}
        {all.toLocaleString()}
      </span>
    </div>
  )
}

/** Says before the action runs whether it can be undone. */
const UndoNote = ({ act, dry }: { readonly act: Act; readonly dry: DryRun }) => (
  <p class="quiet small">
    {dry.undoable ? undoText : "Cannot be undone: the filter matches too many jobs to save their previous state."}
    {act === "cancel" && dry.sample.some(({ state }) => state === "running")
      ? " Running jobs are stopped and stay cancelled."
      : ""}
  </p>
)

/** Confirms an action on several jobs, starts it and shows its progress. */
export const BulkAct = (props: {
  act: Act
  target: Target
  /** Explains why the count may differ from the one that the page showed. */
  note?: string | undefined
  onClose: () => void
  onDone: () => void
}) => {
  const { act, target } = props
  const [dry, setDry] = useState<DryRun>()
  const [failure, setFailure] = useState<string>()
  const [reason, setReason] = useState("")
  const [operationId, setOperationId] = useState<string>()
  const [operation, setOperation] = useState<Operation>()

  useEffect(() => {
    Api.post<DryRun>("jobs/bulk", { action: act, ...target, dryRun: true }).then(setDry, (error: Error) =>
      setFailure(error.message)
    )
  }, [])

  useEffect(() => {
    if (operationId === undefined) return
    const look = async () => {
      const now = await Api.get<Operation>(`operations/${operationId}`)
      setOperation(now)
      if (now.status === "running") return
      clearInterval(timer)
      const skipped = skippedOf(now)
      const done = `${now.done.toLocaleString()} ${now.done === 1 ? "job" : "jobs"} ${doneWords[act]}`
      const text = skipped === 0 ? done : `${done}, ${skipped.toLocaleString()} skipped`
      if (now.undoable && now.done > 0) showUndoOperation(text, operationId, props.onDone)
      else showToast(text)
      props.onDone()
    }
    const timer = setInterval(() => void look().catch((error: Error) => setFailure(error.message)), 500)
    return () => clearInterval(timer)
  }, [operationId])

  const start = async () => {
    const begun = await Api.post<{ operation: string }>("jobs/bulk", { action: act, ...target, ...given(reason) })
    setOperationId(begun.operation)
  }

  const jobs = dry === undefined ? "jobs" : `${countText(dry.matched)} ${dry.matched.count === 1 ? "job" : "jobs"}`
  return (
    <Dialog title={`${phrase(act, jobs)}?`} onClose={props.onClose}>
      <div class="stack">
        <Failure text={failure} />
        {dry === undefined ? (
          failure === undefined ? (
            <p class="quiet">Counting…</p>
          ) : null
        ) : (
          <ul class="small mono">
            {dry.sample.slice(0, 5).map((job) => (
              <li key={job.id}>
                {job.kind} {job.id}
              </li>
            ))}
            {dry.matched.count > 5 ? <li>…</li> : null}
          </ul>
        )}
        {dry === undefined ? null : <UndoNote act={act} dry={dry} />}
        {props.note === undefined ? null : <p class="quiet small">{props.note}</p>}
        {operation === undefined ? (
          <SaveForm
            label={phrase(act, jobs)}
            name={phrase(act, jobs)}
            danger={act === "delete"}
            disabled={dry === undefined || dry.matched.count === 0 || operationId !== undefined}
            save={start}
            onCancel={props.onClose}
          >
            <ReasonInput value={reason} onChange={setReason} />
          </SaveForm>
        ) : (
          <Progress operation={operation} />
        )}
      </div>
    </Dialog>
  )
}
