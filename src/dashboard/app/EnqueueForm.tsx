import { useState } from "preact/hooks"
import * as Api from "./Api"
import { KindSuggestions, PayloadEditor } from "./PayloadEditor"
import { Dialog } from "./parts/Dialog"
import { ForceOption } from "./parts/ForceOption"
import { SaveForm } from "./parts/SaveForm"
import { Suggestions } from "./parts/Suggestions"
import { showToast } from "./parts/Toasts"
import { useResource } from "./Resource"
import { go, to } from "./Route"
import type { Pod } from "./Views"

const empty = { kind: "", payload: "{}", queue: "", priority: "", delay: "", attempts: "", dedupe: "" }

type Fields = Readonly<Record<keyof typeof empty, string>>

const optionsOf = ({ dedupe, delay, attempts, priority, queue }: Fields) => ({
  ...(queue === "" ? {} : { queue }),
  ...(priority === "" ? {} : { priority: Number(priority) }),
  ...(attempts === "" ? {} : { attempts: Number(attempts) }),
  ...(delay.trim() === "" ? {} : { delay }),
  ...(dedupe === "" ? {} : { dedupe: { key: dedupe, scope: "active" } })
})

/** Dialog that enqueues a job. The server checks the payload against the schema of the kind. */
export const EnqueueForm = ({ kind = "", onClose }: { readonly kind?: string; readonly onClose: () => void }) => {
  const [fields, setFields] = useState<Fields>({ ...empty, kind })
  const [force, setForce] = useState(false)
  const { data } = useResource<{ pods: ReadonlyArray<Pod> }>("pods")
  const queues = [...new Set((data?.pods ?? []).flatMap((pod) => pod.queues))].sort()

  const save = async () => {
    // Validates only: the text itself is sent, see Api.Typed.
    JSON.parse(fields.payload)
    const body = { kind: fields.kind, ...optionsOf(fields), ...(force ? { force } : {}) }
    const { id, outcome } = await Api.post<{ id: string; outcome: string }>("jobs", body, { payload: fields.payload })
    showToast(outcome === "deduplicated" ? "A job with this dedupe key already exists" : `${fields.kind} enqueued`)
    onClose()
    go(to(`jobs/${id}`))
  }
  const text = (field: keyof Fields, label: string, hint: string, more: Readonly<Record<string, unknown>> = {}) => (
    <label class="field">
      {label}
      <input
        value={fields[field]}
        placeholder={hint}
        onInput={({ currentTarget: { value } }) => setFields((now) => ({ ...now, [field]: value }))}
        {...more}
      />
    </label>
  )
  return (
    <Dialog title="Enqueue a job" onClose={onClose}>
      <SaveForm label="Enqueue a job" name="Enqueue" save={save} onCancel={onClose}>
        {text("kind", "Kind", "send_receipt", { required: true, list: "served-kinds" })}
        <KindSuggestions id="served-kinds" />
        <PayloadEditor
          fills
          kind={fields.kind}
          value={fields.payload}
          onChange={(payload) => setFields((now) => ({ ...now, payload }))}
        />
        <div class="fields">
          {text("queue", "Queue", "default of the kind", { list: "served-queues" })}
          {text("delay", "Delay", "none, or 30s, 5m, 2d")}
          {text("priority", "Priority (lower runs first)", "0", { type: "number" })}
          {text("attempts", "Attempts", "default of the kind", { type: "number", min: 1 })}
          {text("dedupe", "Dedupe key", "none")}
        </div>
        <Suggestions id="served-queues" of={queues} />
        <ForceOption force={force} onChange={setForce} />
      </SaveForm>
    </Dialog>
  )
}
