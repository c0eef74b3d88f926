import { useState } from "preact/hooks"
import * as Api from "./Api"
import { SaveForm } from "./parts/SaveForm"
import { say } from "./parts/Toasts"
import type { Queue } from "./Views"

// Empty means "as usual": it is sent as null, and the service goes back to its default.

type Fields = Readonly<Record<string, string>>

const shown = (value: number | null | undefined) => (value === null || value === undefined ? "" : String(value))

const fieldsOf = ({ backoff, limits, maxWorkers, retainDead, retainDone }: Queue): Fields => ({
  maxWorkers: String(maxWorkers),
  retainDone: shown(retainDone),
  retainDead: shown(retainDead),
  backoffBase: String(backoff.base),
  backoffMax: String(backoff.max),
  rateJobs: shown(limits.rate?.jobs),
  ratePer: shown(limits.rate?.per),
  keyConcurrency: shown(limits.perKey?.concurrency),
  keyOrder: limits.perKey?.order ?? "none",
  depthCap: shown(limits.depthCap)
})

const number = (text: string | undefined) => (text === undefined || text.trim() === "" ? null : Number(text))

const bodyOf = (fields: Fields, backoffEnabled: boolean) => {
  const jobs = number(fields.rateJobs)
  const concurrency = number(fields.keyConcurrency)
  return {
    maxWorkers: number(fields.maxWorkers),
    retainDone: number(fields.retainDone),
    retainDead: number(fields.retainDead),
    backoff: { enabled: backoffEnabled, base: number(fields.backoffBase), max: number(fields.backoffMax) },
    limits: {
      rate: jobs === null ? null : { jobs, per: number(fields.ratePer) ?? 1 },
      perKey: concurrency === null ? null : { concurrency, order: fields.keyOrder },
      depthCap: number(fields.depthCap)
    }
  }
}

const labels: ReadonlyArray<readonly [field: string, label: string, hint: string]> = [
  ["maxWorkers", "Workers in the whole cluster", ""],
  ["retainDone", "Keep done jobs, seconds", "as usual"],
  ["retainDead", "Keep dead jobs, seconds", "for good"],
  ["backoffBase", "Backoff base, seconds", ""],
  ["backoffMax", "Backoff cap, seconds", ""],
  ["rateJobs", "Rate limit, jobs", "none"],
  ["ratePer", "… in so many seconds", "1"],
  ["keyConcurrency", "At a time per key", "no limit"],
  ["depthCap", "Refuse beyond waiting jobs", "never"]
]

/** A queue's settings, changed in place. */
export const QueueForm = ({ onSaved, queue }: { queue: Queue; onSaved: () => void }) => {
  const [fields, setFields] = useState<Fields>(() => fieldsOf(queue))
  const [backoffEnabled, setBackoffEnabled] = useState(queue.backoff.enabled)
  const save = async () => {
    await Api.patch(`queues/${encodeURIComponent(queue.name)}`, bodyOf(fields, backoffEnabled))
    say(`${queue.name} is set.`)
    onSaved()
  }
  return (
    <SaveForm label={`Settings of ${queue.name}`} save={save}>
      <div class="fields">
        {labels.map(([field, label, hint]) => (
          <label class="field" key={field}>
            {label}
            <input
              type="number"
              min={0}
              step="any"
              name={field}
              placeholder={hint}
              value={fields[field] ?? ""}
              onInput={(event) => setFields({ ...fields, [field]: event.currentTarget.value })}
            />
          </label>
        ))}
        <label class="field">
          Order within a key
          <select
            value={fields.keyOrder}
            onChange={(event) => setFields({ ...fields, keyOrder: event.currentTarget.value })}
          >
            <option>none</option>
            <option>serial</option>
            <option>strict</option>
          </select>
        </label>
        <label class="row">
          <input
            type="checkbox"
            checked={backoffEnabled}
            onChange={(event) => setBackoffEnabled(event.currentTarget.checked)}
          />
          Retries follow the queue's backoff
        </label>
      </div>
    </SaveForm>
  )
}
