import { useEffect, useState } from "preact/hooks"
import * as Api from "./Api"
import { changedFields } from "./ChangedFields"
import { KindSuggestions, PayloadEditor } from "./PayloadEditor"
import { ForceOption } from "./parts/ForceOption"
import { SaveForm } from "./parts/SaveForm"
import { inZone } from "./parts/Time"
import { showToast } from "./parts/Toasts"
import { useResource } from "./Resource"
import type { Schedule } from "./Views"

const missedOf = (text: string): unknown => (text === "one" || text === "none" ? text : { all: Number(text) })
const missedText = (missed: unknown) =>
  typeof missed === "string" ? missed : String((missed as { readonly all?: number }).all ?? "one")

/** Whether the text is the maximum of "run all". */
const isLimit = (missed: string) => missed !== "one" && missed !== "none"
const usualMissed = "7"

type Fields = Readonly<Record<"name" | "kind" | "cron" | "timezone" | "overlap" | "missed" | "payload", string>>

const bodyOf = ({ cron, kind, missed, overlap, timezone }: Fields) => ({
  kind,
  cron,
  timezone,
  overlap,
  missed: missedOf(missed)
})

interface Read {
  readonly timezone: string
  readonly words: string | null
  readonly next: ReadonlyArray<string>
  readonly wrong: string | null
}

/** Replaces API field names in errors with the form's labels. */
const asLabelled = (wrong: string) => wrong.replace(/^cron/, "The expression").replace(/^timezone/, "The time zone")

/** Shows the expression in words and its next runs, debounced. The two lines are reserved to avoid a layout shift. */
const Reading = ({ cron, timezone }: { readonly cron: string; readonly timezone: string }) => {
  const [asked, setAsked] = useState({ cron, timezone })
  useEffect(() => {
    const timer = setTimeout(() => setAsked({ cron, timezone }), 250)
    return () => clearTimeout(timer)
  }, [cron, timezone])
  const { data, error } = useResource<Read>(`expressions${Api.query({ ...asked, count: 3 })}`)
  return (
    <div class="reading" role="status">
      {error === undefined ? null : error.message}
      {data === undefined || error !== undefined ? null : data.wrong === null ? (
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

/** Form that creates or edits a schedule. */
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
  const change = (changed: Partial<typeof fields>) => setFields((now) => ({ ...now, ...changed }))
  const set = (field: keyof typeof fields) => (event: { currentTarget: { value: string } }) =>
    change({ [field]: event.currentTarget.value })

  const [opened] = useState(fields)
  const save = async () => {
    // Validates only: the text itself is sent, see Api.Typed.
    JSON.parse(fields.payload)
    const forced = force ? { force } : {}
    const typed = { payload: fields.payload }
    if (schedule === undefined) await Api.post("schedules", { ...bodyOf(fields), name: fields.name, ...forced }, typed)
    else
      await Api.patch(
        `schedules/${encodeURIComponent(schedule.name)}`,
        { ...changedFields(bodyOf(fields), bodyOf(opened)), ...forced },
        fields.payload === opened.payload ? {} : typed
      )
    showToast(schedule === undefined ? `${fields.name} created` : `${fields.name} saved`)
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
          <input name="kind" required list="schedule-kinds" value={fields.kind} onInput={set("kind")} />
          <KindSuggestions id="schedule-kinds" />
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
          Overlap
          <select name="overlap" value={fields.overlap} onChange={set("overlap")}>
            <option value="allow">allow</option>
            <option value="skip">skip</option>
          </select>
        </label>
        <label class="field">
          Missed runs
          <select
            name="missed"
            value={isLimit(fields.missed) ? "all" : fields.missed}
            onChange={({ currentTarget: { value } }) => change({ missed: value === "all" ? usualMissed : value })}
          >
            <option value="one">run once</option>
            <option value="none">skip</option>
            <option value="all">run all</option>
          </select>
        </label>
        {isLimit(fields.missed) ? (
          <label class="field">
            Maximum missed runs
            <input
              type="number"
              name="maxMissedRuns"
              min={1}
              max={1000}
              required
              value={fields.missed}
              onInput={set("missed")}
            />
          </label>
        ) : null}
      </div>
      <Reading cron={fields.cron} timezone={fields.timezone} />
      <PayloadEditor
        fills={schedule === undefined}
        kind={fields.kind}
        value={fields.payload}
        onChange={(payload) => change({ payload })}
      />
      <ForceOption force={force} onChange={setForce} />
    </SaveForm>
  )
}
