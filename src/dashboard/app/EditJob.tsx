import { useState } from "preact/hooks"
import * as Api from "./Api"
import { changedFields } from "./ChangedFields"
import { PayloadEditor } from "./PayloadEditor"
import { Dialog } from "./parts/Dialog"
import { ForceOption } from "./parts/ForceOption"
import { SaveForm } from "./parts/SaveForm"
import { showToast } from "./parts/Toasts"
import type { Job } from "./Views"

/** Dialog that edits a waiting job's payload, priority and due time. */
export const EditJob = ({ job, onClose, onSaved }: { job: Job; onClose: () => void; onSaved: () => void }) => {
  const [shown] = useState(() => JSON.stringify(job.payload, null, 2))
  const [payload, setPayload] = useState(shown)
  const [opened] = useState({ priority: job.priority, runAt: job.runAt })
  const [priority, setPriority] = useState(String(opened.priority))
  const [runAt, setRunAt] = useState(opened.runAt)
  const [force, setForce] = useState(false)

  const save = async () => {
    // Validates only: the text itself is sent, see Api.Typed.
    JSON.parse(payload)
    await Api.patch(
      `jobs/${job.id}`,
      { ...changedFields({ priority: Number(priority), runAt }, opened), ...(force ? { force } : {}) },
      payload === shown ? {} : { payload }
    )
    showToast(`${job.kind} saved`)
    onSaved()
  }

  return (
    <Dialog title={`Edit ${job.kind}`} onClose={onClose}>
      <SaveForm label={`Edit ${job.kind}`} save={save} onCancel={onClose}>
        <PayloadEditor kind={job.kind} value={payload} onChange={setPayload} />
        <ForceOption force={force} onChange={setForce} />
        <label class="field">
          Priority (lower runs first)
          <input type="number" required value={priority} onInput={(event) => setPriority(event.currentTarget.value)} />
        </label>
        <label class="field">
          Due (UTC)
          <input value={runAt} onInput={(event) => setRunAt(event.currentTarget.value)} />
        </label>
      </SaveForm>
    </Dialog>
  )
}
