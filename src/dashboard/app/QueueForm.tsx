import { useState } from "preact/hooks"
import * as Api from "./Api"
import { SaveForm } from "./parts/SaveForm"
import { span } from "./parts/Time"
import { showToast } from "./parts/Toasts"
import type { Queue } from "./Views"

// An empty field is sent as null, which resets the setting to its default.

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

type Label = readonly [field: string, label: string, hint: string]

/** One group per line of the form. */
const labels: Readonly<Record<"room" | "retries" | "limits", ReadonlyArray<Label>>> = {
  room: [
    ["maxWorkers", "Workers (cluster-wide)", ""],
    ["depthCap", "Maximum queue depth", "no limit"],
    ["retainDone", "Keep done jobs, seconds", "default"],
    ["retainDead", "Keep dead jobs, seconds", "forever"]
  ],
  retries: [
    ["backoffBase", "Backoff base, seconds", ""],
    ["backoffMax", "Backoff cap, seconds", ""]
  ],
  limits: [
    ["rateJobs", "Rate limit, jobs", "none"],
    ["ratePer", "Rate period, seconds", "1"],
    ["keyConcurrency", "Concurrency per key", "no limit"]
  ]
}

/** Shows long durations in readable units next to the seconds. */
const inWords = (label: string, text: string | undefined) => {
  const seconds = number(text)
  return label.endsWith("seconds") && seconds !== null && seconds >= 60 ? ` (${span(seconds)})` : ""
}

/** The settings form of a queue. */
export const QueueForm = ({ onSaved, queue }: { queue: Queue; onSaved: () => void }) => {
  const [fields, setFields] = useState<Fields>(() => fieldsOf(queue))
  const [backoffEnabled, setBackoffEnabled] = useState(queue.backoff.enabled)
  const save = async () => {
    await Api.patch(`queues/${encodeURIComponent(queue.name)}`, bodyOf(fields, backoffEnabled))
    showToast(`Settings saved`)
    onSaved()
  }
  const numberField = ([field, label, hint]: Label) => (
    <label class="field" key={field}>
      {label}
      {inWords(label, fields[field])}
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
  )
  return (
    <SaveForm label={`Settings of ${queue.name}`} save={save}>
      <div class="fields">{labels.room.map(numberField)}</div>
      <div class="fields">
        {labels.retries.map(numberField)}
        <label class="check">
          <input
            type="checkbox"
            checked={backoffEnabled}
            onChange={(event) => setBackoffEnabled(event.currentTarget.checked)}
          />
          Use this backoff for retries
        </label>
      </div>
      <div class="fields">
        {labels.limits.map(numberField)}
        <label class="field">
          Order per key
          <select
            value={fields.keyOrder}
            onChange={(event) => setFields({ ...fields, keyOrder: event.currentTarget.value })}
          >
            <option>none</option>
            <option>serial</option>
            <option>strict</option>
          </select>
        </label>
      </div>
    </SaveForm>
  )
}
