import { useState } from "preact/hooks"
import * as Api from "./Api"
import { Dialog } from "./parts/Dialog"
import { SaveForm } from "./parts/SaveForm"
import { say } from "./parts/Toasts"
import type { Job } from "./Views"

/** Changes what a job that waits will do, and when. */
export const EditJob = ({ job, onClose, onSaved }: { job: Job; onClose: () => void; onSaved: () => void }) => {
  const [payload, setPayload] = useState(() => JSON.stringify(job.payload, null, 2))
  const [priority, setPriority] = useState(String(job.priority))
  const [runAt, setRunAt] = useState(job.runAt)

  const save = async () => {
    const changed = JSON.parse(payload) as unknown
    await Api.patch(`jobs/${job.id}`, {
      ...(JSON.stringify(changed) === JSON.stringify(job.payload) ? {} : { payload: changed }),
      ...(Number(priority) === job.priority ? {} : { priority: Number(priority) }),
      ...(runAt === job.runAt ? {} : { runAt })
    })
    say("Saved.")
    onSaved()
  }

  return (
    <Dialog title={`Edit ${job.kind}`} onClose={onClose}>
      <SaveForm label={`Edit ${job.kind}`} save={save} onCancel={onClose}>
        <label class="field">
          Payload
          <textarea spellcheck={false} value={payload} onInput={(event) => setPayload(event.currentTarget.value)} />
        </label>
        <label class="field">
          Priority, lower runs first
          <input type="number" value={priority} onInput={(event) => setPriority(event.currentTarget.value)} />
        </label>
        <label class="field">
          Due, in UTC
          <input value={runAt} onInput={(event) => setRunAt(event.currentTarget.value)} />
        </label>
      </SaveForm>
    </Dialog>
  )
}
