import { useEffect, useState } from "preact/hooks"
import * as Api from "./Api"
import { ForceOption } from "./parts/ForceOption"
import { SaveForm } from "./parts/SaveForm"
import { inZone } from "./parts/Time"
import { say } from "./parts/Toasts"
import { useResource } from "./Resource"
import type { Schedule } from "./Views"

const missedOf = (text: string): unknown => (text === "one" || text === "none" ? text : { all: Number(text) })
const missedText = (missed: unknown) =>
  typeof missed === "string" ? missed : String((missed as { readonly all?: number }).all ?? "one")

interface Read {
  readonly timezone: string
  readonly words: string | null
  readonly next: ReadonlyArray<string>
  readonly wrong: string | null
}

/** The server names the fields as programs do; here they have labels. */
const asLabelled = (wrong: string) => wrong.replace(/^cron/, "The expression").replace(/^timezone/, "The time zone")

/** What was typed, in words and as the next runs, a moment after the last key. Its two lines are there from the start. */
const Reading = ({ cron, timezone }: { readonly cron: string; readonly timezone: string }) => {
  const [asked, setAsked] = useState({ cron, timezone })
  useEffect(() => {
    const timer = setTimeout(() => setAsked({ cron, timezone }), 250)
    return () => clearTimeout(timer)
  }, [cron, timezone])
  const { data, refused } = useResource<Read>(`expressions${Api.query({ ...asked, count: 3 })}`)
  return (
    <div class="reading" role="status">
      {refused === undefined ? null : refused.message}
      {data === undefined || refused !== undefined ? null : data.wrong === null ? (
        <>
          <strong>{data.words}</strong>
          <span class="quiet small">{data.next.map((at) => inZone(at, data.timezone)).join(" · ")}</span>
        </>
      ) : (
        <span class="wrong">{asLabelled(data.wrong)}</span>
      )}
    </div>
  )
}

/** Makes a schedule, or changes one. */
export const ScheduleForm = ({ onSaved, schedule }: { schedule: Schedule | undefined; onSaved: () => void }) => {
  const [fields, setFields] = useState({
    name: schedule?.name ?? "",
    kind: schedule?.kind ?? "",
    cron: schedule?.cron ?? "0 9 * * *",
    timezone: schedule?.timezone ?? "UTC",
    overlap: schedule?.overlap ?? "allow",
    missed: schedule === undefined ? "one" : missedText(schedule.missed),
    payload: JSON.stringify(schedule?.payload ?? {}, null, 2)
  })
  const [force, setForce] = useState(false)
  const set = (field: keyof typeof fields) => (event: { currentTarget: { value: string } }) =>
    setFields({ ...fields, [field]: event.currentTarget.value })

  const save = async () => {
    const { cron, kind, name, overlap, timezone } = fields
    // Only to say what is wrong with it.
    JSON.parse(fields.payload)
    const typed = { payload: fields.payload }
    const body = { kind, cron, timezone, overlap, missed: missedOf(fields.missed), ...(force ? { force } : {}) }
    if (schedule === undefined) await Api.post("schedules", { name, ...body }, typed)
    else await Api.patch(`schedules/${encodeURIComponent(schedule.name)}`, body, typed)
    say(schedule === undefined ? `${name} is made.` : `${name} is changed.`)
    onSaved()
  }

  return (
    <SaveForm label={schedule === undefined ? "New schedule" : `Edit ${schedule.name}`} save={save}>
      <div class="fields">
        {schedule === undefined ? (
          <label class="field">
            Name
            <input name="name" required value={fields.name} onInput={set("name")} />
          </label>
        ) : null}
        <label class="field">
          Kind
          <input name="kind" required value={fields.kind} onInput={set("kind")} />
        </label>
        <label class="field">
          Expression
          <input name="cron" required class="mono" value={fields.cron} onInput={set("cron")} />
        </label>
        <label class="field">
          Time zone
          <input name="timezone" required value={fields.timezone} onInput={set("timezone")} />
        </label>
        <label class="field">
          While the job before is not over
          <select name="overlap" value={fields.overlap} onChange={set("overlap")}>
            <option value="allow">fire all the same</option>
            <option value="skip">skip</option>
          </select>
        </label>
        <label class="field">
          Missed runs: one, none, 7
          <input name="missed" required pattern="one|none|[0-9]+" value={fields.missed} onInput={set("missed")} />
        </label>
      </div>
      <Reading cron={fields.cron} timezone={fields.timezone} />
      <label class="field">
        Payload
        <textarea name="payload" spellcheck={false} value={fields.payload} onInput={set("payload")} />
      </label>
      <ForceOption force={force} onChange={setForce} />
    </SaveForm>
  )
}
