import { useState } from "preact/hooks"
import * as Api from "../Api"
import { useLiveUpdates } from "../Live"
import { Card, Fold } from "../parts/Card"
import { Chunks } from "../parts/Chunks"
import { FilterSelect } from "../parts/Filters"
import { Head } from "../parts/Head"
import { Menu } from "../parts/Menu"
import { Empty, Shown } from "../parts/Notice"
import { FilterCount, hasWords, TextFilter } from "../parts/TextFilter"
import { Age } from "../parts/Time"
import { showError, showToast } from "../parts/Toasts"
import { useResource } from "../Resource"
import { type Route, to } from "../Route"
import { ScheduleForm } from "../ScheduleForm"
import { History, NextRuns } from "../ScheduleRuns"
import { useMayAct } from "../Session"
import { announce } from "../Undo"
import type { Schedule } from "../Views"

const missedWords = (missed: unknown) => {
  if (missed === "none") return "Missed runs: skip"
  if (missed === "one") return "Missed runs: run once"
  return `Missed runs: run all (max ${(missed as { readonly all?: number }).all ?? "?"})`
}

const ScheduleCard = ({ onChange, schedule }: { schedule: Schedule; onChange: () => void }) => {
  const mayAct = useMayAct()
  const [coming, setComing] = useState(false)
  const [past, setPast] = useState(false)
  const [editing, setEditing] = useState(false)
  const saved = () => {
    setEditing(false)
    onChange()
  }
  const path = `schedules/${encodeURIComponent(schedule.name)}`
  const done = (said: string) => () => {
    showToast(said)
    onChange()
  }
  const remove = () =>
    void Api.remove(path).then(() => {
      onChange()
      announce(`${schedule.name} deleted`)
    }, showError)
  return (
    <Card
      name={schedule.name}
      chips={
        <>
          {schedule.paused ? <span class="chip">paused</span> : null}
          <span class="chip">{schedule.origin === "code" ? "declared in code" : "created by operator"}</span>
          {schedule.edited.length === 0 ? null : <span class="chip">changed: {schedule.edited.join(", ")}</span>}
        </>
      }
      acts={
        <>
          <Fold quiet open={coming} turn={setComing}>
            Next runs
          </Fold>
          <Fold quiet open={past} turn={setPast}>
            History
          </Fold>
          {mayAct ? (
            <Menu label={`Actions of ${schedule.name}`}>
              <button
                type="button"
                onClick={() => void Api.post(`${path}/trigger`).then(done(`${schedule.name} triggered`), showError)}
              >
                Trigger
              </button>
              <button
                type="button"
                onClick={() =>
                  void Api.patch(path, { paused: !schedule.paused }).then(
                    done(schedule.paused ? `${schedule.name} resumed` : `${schedule.name} paused`),
                    showError
                  )
                }
              >
                {schedule.paused ? "Resume" : "Pause"}
              </button>
              <Fold open={editing} turn={setEditing}>
                Edit
              </Fold>
              <button type="button" class="danger" onClick={remove}>
                Delete
              </button>
            </Menu>
          ) : null}
        </>
      }
    >
      <div class="when-and-what">
        <span>
          {schedule.words === null ? `In ${schedule.timezone}` : <strong>{schedule.words}</strong>}{" "}
          <code class="quiet">{schedule.cron}</code>
        </span>
        <span>
          <span class="quiet">next</span> <Age at={schedule.nextFireAt} />
        </span>
        <span>
          <span class="quiet">last</span> <Age at={schedule.lastFireAt} />
          {schedule.lastJobId === null ? null : (
            <>
              , <a href={to(`jobs/${schedule.lastJobId}`)}>view job</a>
            </>
          )}
        </span>
        <span class="quiet">
          enqueues <a href={to("jobs", { kind: schedule.kind })}>{schedule.kind}</a>
          {schedule.overlap === "skip" ? ", no overlap" : null}
          <br />
          {missedWords(schedule.missed)}
        </span>
      </div>
      {schedule.lastError === null ? null : <div class="failure">{schedule.lastError}</div>}
      {coming || past ? (
        <div class="grid">
          {coming ? <NextRuns name={schedule.name} after={schedule.nextFireAt} /> : null}
          {past ? <History name={schedule.name} /> : null}
        </div>
      ) : null}
      {editing ? <ScheduleForm schedule={schedule} onSaved={saved} /> : null}
    </Card>
  )
}

/** What the filter by state selects. */
const conditions: Readonly<Record<string, (schedule: Schedule) => boolean>> = {
  active: ({ paused }) => !paused,
  paused: ({ paused }) => paused,
  failing: ({ lastError }) => lastError !== null,
  "created by operator": ({ origin }) => origin !== "code"
}

export const Schedules = ({ route }: { readonly route: Route }) => {
  const { pulse } = useLiveUpdates()
  const mayAct = useMayAct()
  const [making, setMaking] = useState(false)
  const isShown = conditions[route.query.get("state") ?? ""] ?? (() => true)
  const words = route.query.get("filter") ?? ""
  const schedules = useResource<{ schedules: ReadonlyArray<Schedule> }>("schedules?limit=1000", { pulse, every: 5_000 })
  return (
    <>
      <Head
        title="Schedules"
        side={
          mayAct ? (
            <button type="button" class="primary" aria-expanded={making} onClick={() => setMaking(!making)}>
              New schedule
            </button>
          ) : null
        }
      />
      {making ? (
        <section class="card">
          <div class="body">
            <ScheduleForm
              schedule={undefined}
              onSaved={() => {
                setMaking(false)
                schedules.reload()
              }}
            />
          </div>
        </section>
      ) : null}
      <Shown of={schedules}>
        {(data) => {
          if (data.schedules.length === 0)
            return <Empty>No schedules yet. Declare one in code, or create one here.</Empty>
          const shown = data.schedules.filter(
            (schedule) => hasWords(words, schedule.name, schedule.kind, schedule.words ?? "") && isShown(schedule)
          )
          return (
            <>
              <search class="row">
                <TextFilter route={route} label="Filter schedules" />
                <FilterSelect route={route} name="state" label="State" options={Object.keys(conditions)} />
                <FilterCount shown={shown.length} all={data.schedules.length} name="schedule" />
              </search>
              {shown.length === 0 ? <Empty>No schedules match this filter.</Empty> : null}
              <Chunks
                as="div"
                class="cards"
                rowHeight={150}
                of={shown}
                row={(schedule) => <ScheduleCard key={schedule.name} schedule={schedule} onChange={schedules.reload} />}
              />
            </>
          )
        }}
      </Shown>
    </>
  )
}
