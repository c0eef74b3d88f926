import { useState } from "preact/hooks"
import * as Api from "./Api"
import * as Incidents from "./Incidents"
import { manyRetries, maxExaminedRetries } from "./Incidents"
import { troubleWords, useLiveUpdates } from "./Live"
import { turnQueue } from "./PauseButton"
import { runningPath } from "./pages/Pods"
import { Dialog } from "./parts/Dialog"
import { ReasonInput } from "./parts/ReasonInput"
import { SaveForm } from "./parts/SaveForm"
import { copyText } from "./parts/Snippet"
import { Age } from "./parts/Time"
import { showError, showToast } from "./parts/Toasts"
import { Trend } from "./parts/Trend"
import { idlePoll, reloadAll, slowPoll, useResource } from "./Resource"
import { useMayAct } from "./Session"
import { announce } from "./Undo"
import {
  brief,
  type DatabaseHealth,
  type DeadGroup,
  type JobPage,
  type Queue,
  type QueueSeries,
  type Snooze,
  type UploadsOverview
} from "./Views"

const remembered = "nightshift.attention"

/** Lines that are always shown. */
const alwaysShown = 5

const growthText = (growth: number) => `${growth > 0 ? "growing" : "shrinking"} ${brief(Math.abs(growth))}/min`

const resume = (name: string) => turnQueue({ name, paused: true }, reloadAll)

const copy = (text: string, beside: HTMLElement) =>
  copyText(text, beside).then(
    () => showToast("Command copied"),
    () => showToast(`The browser blocked copying. Run this command: ${text}`)
  )

/** The one action of an incident: what is safe to do at once, or a look at the cause. */
const SafeAction = ({ incident: { action, href } }: { readonly incident: Incidents.Incident }) => {
  const mayAct = useMayAct()
  if (action !== undefined && "copy" in action)
    return (
      <button
        type="button"
        title={action.copy}
        onClick={({ currentTarget }) => void copy(action.copy, currentTarget.parentElement ?? currentTarget)}
      >
        Copy command
      </button>
    )
  if (action !== undefined && mayAct)
    return (
      <button type="button" title="Can be undone for an hour." onClick={() => void resume(action.resume)}>
        Resume
      </button>
    )
  return (
    <a class="button" href={href}>
      Open
    </a>
  )
}

const lengths = [
  ["1h", "1 hour"],
  ["8h", "8 hours"],
  ["24h", "1 day"],
  ["7d", "7 days"]
] as const

/** Asks for how long to hide an incident, and why. */
const SnoozeDialog = (props: { readonly incident: Incidents.Incident; readonly onClose: () => void }) => {
  const { jobs, key, text } = props.incident
  const [lasting, setLasting] = useState<string>("1h")
  const [reason, setReason] = useState("")
  const save = async () => {
    const incident = Incidents.keptKey(key)
    await Api.post("snoozes", { incident, text: text.slice(0, 1_000), jobs, for: lasting, reason })
    announce("Incident snoozed")
    props.onClose()
    reloadAll()
  }
  return (
    <Dialog title="Snooze this incident?" onClose={props.onClose}>
      <SaveForm label="Snooze" name="Snooze" disabled={reason.trim() === ""} save={save} onCancel={props.onClose}>
        <p>{text}</p>
        <p class="quiet small">
          Hides this incident for all operators. It reappears early if it affects more than twice as many jobs.
        </p>
        <label class="field">
          For
          <select value={lasting} onChange={(event) => setLasting(event.currentTarget.value)}>
            {lengths.map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <ReasonInput value={reason} onChange={setReason} />
      </SaveForm>
    </Dialog>
  )
}

const wake = ({ id }: Snooze) => Api.remove(`snoozes/${id}`).then(reloadAll, showError)

const Line = (props: {
  readonly incident: Incidents.Incident
  readonly snooze: Snooze | undefined
  readonly cut: boolean
  readonly onSnooze: () => void
}) => {
  const { cut, incident, onSnooze, snooze } = props
  const { href, since, text, trend } = incident
  const mayAct = useMayAct()
  return (
    <li class={snooze === undefined ? "" : "gone"}>
      <a class={cut ? "cut" : ""} href={href} title={text}>
        {text}
      </a>
      <span class="facts-of small">
        {snooze !== undefined ? (
          <>
            snoozed by {snooze.who}, ends <Age at={snooze.until} />: {snooze.reason}
          </>
        ) : (
          <>
            {trend === undefined || trend.growth === 0 ? null : (
              <strong>
                {growthText(trend.growth)}
                {since === undefined ? "" : ", "}
              </strong>
            )}
            {since === undefined ? null : (
              <>
                began <Age at={new Date(since).toISOString()} />
              </>
            )}
          </>
        )}
      </span>
      {trend === undefined || snooze !== undefined ? null : <Trend label={trend.label} values={trend.values} />}
      <span class="acts">
        {snooze === undefined ? <SafeAction incident={incident} /> : null}
        {mayAct ? (
          <button
            type="button"
            class="link"
            aria-label={snooze === undefined ? `Snooze: ${text}` : `Show again: ${text}`}
            onClick={() => (snooze === undefined ? onSnooze() : void wake(snooze))}
          >
            {snooze === undefined ? "Snooze" : "Show again"}
          </button>
        ) : null}
      </span>
    </li>
  )
}

/** The incidents with what is known about them, and those that are snoozed. */
const useIncidents = (queues: ReadonlyArray<Queue> | undefined) => {
  const { pods, trouble, warnings } = useLiveUpdates()
  const groups = useResource<{ groups: ReadonlyArray<DeadGroup>; sampled: boolean }>("jobs/groups", {
    every: slowPoll,
    announced: true
  })
  const uploads = useResource<UploadsOverview>("uploads", { every: idlePoll })
  const database = useResource<DatabaseHealth>("metrics/database", { every: idlePoll })
  const running = useResource<JobPage>(runningPath(), { every: 10_000, announced: true })
  const retrying = (queues ?? []).reduce((sum, { counts }) => sum + counts.retrying.value, 0)
  const retries = useResource<JobPage>(
    retrying < manyRetries ? undefined : `jobs${Api.query({ state: "retrying", limit: maxExaminedRetries })}`,
    { every: slowPoll, announced: true }
  )
  const isWaiting = (queues ?? []).some(({ counts }) => counts.pending.value > 0)
  const series = useResource<QueueSeries>(isWaiting ? "metrics/queues" : undefined, {
    every: slowPoll,
    announced: true
  })
  const all = Incidents.of(
    {
      queues,
      series: series.data,
      warnings,
      pods,
      running: running.data?.jobs,
      groups: groups.data?.groups,
      sampled: groups.data?.sampled,
      retrying: retrying < manyRetries ? [] : retries.data?.jobs,
      uploads: uploads.data,
      database: database.data
    },
    Date.now()
  )
  const snoozes = useResource<{ snoozes: ReadonlyArray<Snooze> }>(all.length === 0 ? undefined : "snoozes", {
    every: idlePoll
  })
  const known = all.map((incident) => ({
    incident,
    snooze: Incidents.snoozeOf(incident, snoozes.data?.snoozes ?? [])
  }))
  return {
    isKnown: trouble === undefined && warnings !== undefined && queues !== undefined && groups.data !== undefined,
    trouble,
    awake: known.filter(({ snooze }) => snooze === undefined),
    snoozed: known.filter(({ snooze }) => snooze !== undefined)
  }
}

/** Lists incidents; the first lines are always shown. */
export const Attention = ({ queues }: { readonly queues: ReadonlyArray<Queue> | undefined }) => {
  const { awake, isKnown, snoozed, trouble } = useIncidents(queues)
  const [open, setOpen] = useState(() => localStorage.getItem(remembered) === "open")
  const [asked, setAsked] = useState<Incidents.Incident>()
  const turn = () => {
    localStorage.setItem(remembered, open ? "closed" : "open")
    setOpen(!open)
  }
  if (awake.length + snoozed.length === 0 || trouble !== undefined) {
    const words = trouble === undefined ? "Loading incidents…" : `${troubleWords[trouble]}: incidents are unknown`
    return (
      <div class="notice" role="status">
        {isKnown ? <span class="state done">No incidents</span> : words}
      </div>
    )
  }
  const shown = open ? [...awake, ...snoozed] : awake.slice(0, alwaysShown)
  const hidden = [
    ...(awake.length > alwaysShown ? [`${awake.length - alwaysShown} more`] : []),
    ...(snoozed.length > 0 ? [`${snoozed.length} snoozed`] : [])
  ]
  return (
    <section class={awake.length === 0 ? "notice" : "notice warning"} aria-label="Needs attention">
      <ul class="attention">
        {shown.map(({ incident, snooze }) => (
          <Line
            key={incident.key}
            incident={incident}
            snooze={snooze}
            cut={!open}
            onSnooze={() => setAsked(incident)}
          />
        ))}
      </ul>
      {awake.length > 0 || open ? null : <span class="state done">No incidents</span>}
      {hidden.length === 0 ? null : (
        <button type="button" class="link" aria-expanded={open} onClick={turn}>
          {open ? "Show less" : `Show ${hidden.join(", ")}`}
        </button>
      )}
      {asked === undefined ? null : <SnoozeDialog incident={asked} onClose={() => setAsked(undefined)} />}
    </section>
  )
}
