import { useState } from "preact/hooks"
import * as Api from "./Api"
import { changedFields } from "./ChangedFields"
import { SaveForm } from "./parts/SaveForm"
import { showToast } from "./parts/Toasts"
import type { Queue } from "./Views"

// An empty field is sent as null, which resets the setting to its default.

type Fields = Readonly<Record<string, string>>

const shown = (value: number | string | null | undefined) =>
  value === null || value === undefined ? "" : String(value)

const fieldsOf = ({ backoff, limits, maxWorkers, retainDead, retainDone }: Queue): Fields => ({
  maxWorkers: String(maxWorkers),
  retainDone: shown(retainDone),
  retainDead: shown(retainDead),
  backoffBase: backoff.base,
  backoffMax: backoff.max,
  rateJobs: shown(limits.rate?.jobs),
  ratePer: shown(limits.rate?.per),
  keyConcurrency: shown(limits.perKey?.concurrency),
  keyOrder: limits.perKey?.order ?? "none",
  depthCap: shown(limits.depthCap)
})

const text = (given: string | undefined) => (given === undefined || given.trim() === "" ? null : given)

const number = (given: string | undefined) => (text(given) === null ? null : Number(given))

const settingsOf = (fields: Fields, backoffEnabled: boolean) => {
  const jobs = number(fields.rateJobs)
  const concurrency = number(fields.keyConcurrency)
  return {
    maxWorkers: number(fields.maxWorkers),
    retainDone: text(fields.retainDone),
    retainDead: text(fields.retainDead),
    backoff: { enabled: backoffEnabled, base: text(fields.backoffBase), max: text(fields.backoffMax) },
    limits: {
      rate: jobs === null ? null : { jobs, per: text(fields.ratePer) ?? "1s" },
      perKey: concurrency === null ? null : { concurrency, order: fields.keyOrder },
      depthCap: number(fields.depthCap)
    }
  }
}

type Settings = ReturnType<typeof settingsOf>

const bodyOf = (now: Settings, opened: Settings) => ({
  ...changedFields(now, opened),
  backoff: changedFields(now.backoff, opened.backoff),
  limits: changedFields(now.limits, opened.limits)
})

type Label = readonly [field: string, label: string, hint: string, type?: "duration"]

/** One group per line of the form. */
const labels: Readonly<Record<"room" | "retries" | "limits", ReadonlyArray<Label>>> = {
  room: [
    ["maxWorkers", "Workers (cluster-wide)", ""],
    ["depthCap", "Maximum queue depth", "no limit"],
    ["retainDone", "Keep done jobs", "default, or 12h, 7d", "duration"],
    ["retainDead", "Keep dead jobs", "forever, or 30d", "duration"]
  ],
  retries: [
    ["backoffBase", "Backoff base", "30s, 5m", "duration"],
    ["backoffMax", "Backoff cap", "30m, 1h", "duration"]
  ],
  limits: [
    ["rateJobs", "Rate limit, jobs", "none"],
    ["ratePer", "Rate period", "1s", "duration"],
    ["keyConcurrency", "Concurrency per key", "no limit"]
  ]
}

/** The settings form of a queue. */
export const QueueForm = ({ onSaved, queue }: { queue: Queue; onSaved: () => void }) => {
  const [fields, setFields] = useState<Fields>(() => fieldsOf(queue))
  const [backoffEnabled, setBackoffEnabled] = useState(queue.backoff.enabled)
  const [opened] = useState(() => settingsOf(fields, backoffEnabled))
  const save = async () => {
    const body = bodyOf(settingsOf(fields, backoffEnabled), opened)
    await Api.patch(`queues/${encodeURIComponent(queue.name)}`, body)
    showToast(`Settings saved`)
    onSaved()
  }
  const input = ([field, label, hint, type]: Label) => (
    <label class="field" key={field}>
      {label}
      <input
        {...((type === "duration" ? {} : { type: "number", min: 0, step: "any" }) as Readonly<Record<string, unknown>>)}
        name={field}
        placeholder={hint}
        value={fields[field] ?? ""}
        onInput={(event) => setFields({ ...fields, [field]: event.currentTarget.value })}
      />
    </label>
  )
  return (
    <SaveForm label={`Settings of ${queue.name}`} save={save}>
      <div class="fields">{labels.room.map(input)}</div>
      <div class="fields">
        {labels.retries.map(input)}
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
        {labels.limits.map(input)}
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
