import { useEffect, useState } from "preact/hooks"
import * as Api from "./Api"
import { type Act, doneWords, phrase } from "./JobActs"
import { Dialog } from "./parts/Dialog"
import { Failure } from "./parts/Failure"
import { given, ReasonInput } from "./parts/ReasonInput"
import { SaveForm } from "./parts/SaveForm"
import { showError, showToast } from "./parts/Toasts"
import { announce, undoText, whenEnded } from "./Undo"
import { countText, type Job, type Operation, type Total } from "./Views"

// Confirms a bulk action with the number of jobs and a sample. The action runs on the server; this dialog polls its
// progress.

export interface Target {
  readonly ids?: ReadonlyArray<string>
  readonly filter?: Readonly<Record<string, unknown>>
}

interface DryRun {
  readonly matched: Total
  /** Selects the jobs that were counted; null for ids. */
  readonly filter: Readonly<Record<string, unknown>> | null
  readonly undoable: boolean
  readonly sample: ReadonlyArray<Pick<Job, "id" | "kind" | "queue" | "state">>
}

const skippedOf = ({ failed, skipped }: Operation) =>
  Object.values(skipped).reduce((sum, count) => sum + count, 0) + failed

/** The jobs of a rehearsal, which run before the others. */
const rehearsalText = ({ rehearsal, total }: Operation) => {
  if (rehearsal === null || rehearsal.verdict !== "open" || rehearsal.ids.length < rehearsal.jobs) return undefined
  const others = total === null ? "The others" : `The other ${(total.count - rehearsal.ids.length).toLocaleString()}`
  return `Rehearsal: ${rehearsal.succeeded} of ${rehearsal.ids.length} succeeded. ${others} follow if all of them do.`
}

const Progress = ({ operation }: { readonly operation: Operation }) => {
  const rehearsal = rehearsalText(operation)
  const through = operation.done + skippedOf(operation)
  const all = Math.max(through, operation.total?.count ?? through)
  return (
    <div class="stack" role="status">
      <progress max={1} value={all === 0 ? 1 : through / all} />
      {rehearsal === undefined ? null : <span>{rehearsal}</span>}
      <span>
        {operation.done.toLocaleString()} done, {skippedOf(operation).toLocaleString()} skipped of{" "}
        {all.toLocaleString()}
      </span>
    </div>
  )
}

/** Counts further and further: the first answer comes within a second. */
const countSteps = [1_000, 100_000, 1_000_000]

/** From this many jobs on, the count has to be typed. */
const manyJobs = 1_000

const undoNote = (dry: DryRun, isCounting: boolean) => {
  if (isCounting) return "Still counting."
  return dry.undoable ? undoText : "Cannot be undone: the filter matches too many jobs to save their previous state."
}

/** Says before the action runs whether it can be undone. */
const UndoNote = (props: { readonly act: Act; readonly dry: DryRun; readonly isCounting: boolean }) => {
  const { act, dry, isCounting } = props
  return (
    <p class="quiet small">
      {undoNote(dry, isCounting)}
      {act === "cancel" && dry.sample.some(({ state }) => state === "running")
        ? " Running jobs are stopped and stay cancelled."
        : ""}
    </p>
  )
}

/** Asks for the number of jobs, so that an operator does not act on many of them by habit. */
const TypedCount = (props: {
  readonly count: number
  readonly value: string
  readonly onChange: (text: string) => void
}) => (
  <label class="field">
    Type {props.count.toLocaleString()} to confirm
    <input
      name="count"
      inputMode="numeric"
      autocomplete="off"
      value={props.value}
      onInput={(event) => props.onChange(event.currentTarget.value)}
    />
  </label>
)

/** Jobs that a rehearsal requeues first. */
const rehearsed = 5

/** Offers to requeue a few jobs first. */
const RehearseOption = (props: { readonly checked: boolean; readonly onChange: (isChecked: boolean) => void }) => (
  <label class="row">
    <input type="checkbox" checked={props.checked} onChange={(event) => props.onChange(event.currentTarget.checked)} />
    Rehearse: requeue {rehearsed} first, the others only if all of them succeed
  </label>
)

const digitsOf = (text: string) => text.replace(/\D/g, "")

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

  const [isCounting, setCounting] = useState(true)
  const [typed, setTyped] = useState("")
  const [isRehearsing, setRehearsing] = useState(false)

  useEffect(() => {
    let isOpen = true
    const count = async () => {
      // The bounds of the first answer hold for the later ones.
      let bound = target
      for (const countTo of countSteps) {
        const found = await Api.post<DryRun>("jobs/bulk", { action: act, ...bound, dryRun: true, countTo })
        if (!isOpen) return
        setDry(found)
        if (found.matched.exact) return
        if (found.filter !== null) bound = { filter: found.filter }
      }
    }
    count()
      .catch((error: Error) => setFailure(error.message))
      .finally(() => setCounting(false))
    return () => {
      isOpen = false
    }
  }, [])

  useEffect(() => {
    if (operationId === undefined) return
    let isOpen = true
    const watch = async () => {
      const now = await whenEnded(operationId, (now) => isOpen && setOperation(now))
      const skipped = skippedOf(now)
      const done = `${now.done.toLocaleString()} ${now.done === 1 ? "job" : "jobs"} ${doneWords[act]}`
      if (now.status === "failed") {
        if (isOpen) setFailure(now.error ?? undefined)
        else announce(`${done}. ${now.error}`)
        return
      }
      const text = skipped === 0 ? done : `${done}, ${skipped.toLocaleString()} skipped`
      if (now.undoable && now.done > 0) announce(text)
      else showToast(text)
      if (isOpen) props.onDone()
    }
    watch().catch((error: Error) => (isOpen ? setFailure(error.message) : showError(error)))
    return () => {
      isOpen = false
    }
  }, [operationId])

  const start = async () => {
    const bound = dry?.filter == null ? target : { filter: dry.filter }
    const begun = await Api.post<{ operation: string }>("jobs/bulk", {
      action: act,
      ...bound,
      ...given(reason),
      ...(mayRehearse && isRehearsing ? { rehearse: rehearsed } : {})
    })
    setOperationId(begun.operation)
  }

  const count = dry?.matched.count ?? 0
  const mayRehearse = act === "requeue" && count > rehearsed
  const mustType = dry !== undefined && !isCounting && (count > manyJobs || !dry.undoable)
  const isReady = !isCounting && count > 0 && (!mustType || digitsOf(typed) === String(count))
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
        {dry === undefined ? null : <UndoNote act={act} dry={dry} isCounting={isCounting} />}
        {props.note === undefined ? null : <p class="quiet small">{props.note}</p>}
        {operation === undefined ? (
          <SaveForm
            label={phrase(act, jobs)}
            name={phrase(act, jobs)}
            danger={act === "delete"}
            disabled={!isReady || operationId !== undefined}
            save={start}
            onCancel={props.onClose}
          >
            <ReasonInput value={reason} onChange={setReason} />
            {mayRehearse ? <RehearseOption checked={isRehearsing} onChange={setRehearsing} /> : null}
            {mustType ? <TypedCount count={count} value={typed} onChange={setTyped} /> : null}
          </SaveForm>
        ) : (
          <>
            <Progress operation={operation} />
            <div class="row actions">
              {operation.status === "running" ? (
                <button
                  type="button"
                  onClick={() => void Api.post(`operations/${operation.id}/cancel`).catch(showError)}
                >
                  Stop
                </button>
              ) : null}
              <button type="button" onClick={operation.status === "running" ? props.onClose : props.onDone}>
                Close
              </button>
            </div>
          </>
        )}
      </div>
    </Dialog>
  )
}
