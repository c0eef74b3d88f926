import { useEffect, useState } from "preact/hooks"
import * as Api from "./Api"
import { type Act, actNames } from "./JobActs"
import { Dialog } from "./parts/Dialog"
import { Failure } from "./parts/Failure"
import { say } from "./parts/Toasts"
import { countText, type Job, type Total } from "./Views"

// Nothing is done to many jobs before it was said to how many and to which. A bulk act runs on the server; this only looks on.

export interface Target {
  readonly ids?: ReadonlyArray<string>
  readonly filter?: Readonly<Record<string, unknown>>
}

interface DryRun {
  readonly matched: Total
  readonly sample: ReadonlyArray<Pick<Job, "id" | "kind" | "queue" | "state">>
}

interface Operation {
  readonly status: string
  readonly total: Total | null
  readonly done: number
  /** Jobs to which it could not be done, by why. */
  readonly skipped: Readonly<Record<string, number>>
  readonly failed: number
  readonly error: string | null
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

/** Shows what an act would do, and does it. */
export const BulkAct = (props: { act: Act; target: Target; onClose: () => void; onDone: () => void }) => {
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
      say(`${actNames[act]}: ${now.done.toLocaleString()} done, ${skippedOf(now).toLocaleString()} skipped.`)
      props.onDone()
    }
    const timer = setInterval(() => void look().catch((error: Error) => setFailure(error.message)), 500)
    return () => clearInterval(timer)
  }, [operationId])

  const start = (event: Event) => {
    event.preventDefault()
    return Api.post<{ operation: string }>("jobs/bulk", {
      action: act,
      ...target,
      ...(reason === "" ? {} : { reason })
    }).then(
      (answer) => setOperationId(answer.operation),
      (error: Error) => setFailure(error.message)
    )
  }

  return (
    <Dialog title={`${actNames[act]} many jobs`} onClose={props.onClose}>
      <div class="stack">
        <Failure text={failure} />
        {dry === undefined ? (
          failure === undefined ? (
            <p class="quiet">Counting…</p>
          ) : null
        ) : (
          <>
            <p>
              This concerns <strong>{countText(dry.matched)}</strong> {dry.matched.count === 1 ? "job" : "jobs"}, among
              them:
            </p>
            <ul class="small mono">
              {dry.sample.slice(0, 5).map((job) => (
                <li key={job.id}>
                  {job.kind} {job.id}
                </li>
              ))}
            </ul>
          </>
        )}
        {operation === undefined ? (
          <form class="stack" onSubmit={(event) => void start(event)}>
            <label class="field">
              Reason, for the audit
              <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
            </label>
            <div class="row">
              <button
                type="submit"
                class="primary"
                disabled={dry === undefined || dry.matched.count === 0 || operationId !== undefined}
              >
                {actNames[act]} {dry === undefined ? "" : countText(dry.matched)}
              </button>
              <button type="button" onClick={props.onClose}>
                Not now
              </button>
            </div>
          </form>
        ) : (
          <Progress operation={operation} />
        )}
      </div>
    </Dialog>
  )
}
