import { useEffect, useMemo, useRef, useState } from "preact/hooks"
import * as Api from "../Api"
import { type Act, actNames, BulkAct, type Target } from "../BulkAct"
import { DeadGroups } from "../DeadGroups"
import { JobTable } from "../JobTable"
import { onRowKey } from "../Keys"
import { useNews } from "../Live"
import { DraftInput } from "../parts/DraftInput"
import { Shown } from "../parts/Notice"
import { Pager } from "../parts/Pager"
import { say } from "../parts/Toasts"
import { useResource } from "../Resource"
import { go, type Route, refine, to } from "../Route"
import { useMayAct } from "../Session"
import { countText, type JobPage, states } from "../Views"

const fields = ["queue", "kind", "state", "deadReason", "text", "payload", "since", "until", "dedupe"] as const

/** What the address says to look for, with what the page itself stands for. */
const filterOf = (route: Route, preset: Readonly<Record<string, string>>): Readonly<Record<string, string>> => {
  const given = fields.flatMap((field) => {
    const value = route.query.get(field)
    return value === null || value === "" ? [] : [[field, value] as const]
  })
  return { ...Object.fromEntries(given), ...preset }
}

const Filters = ({ preset, route }: { preset: Readonly<Record<string, string>>; route: Route }) => {
  const input = (field: string, label: string, width: string, search = false) => (
    <DraftInput
      key={field}
      type="search"
      label={label}
      width={width}
      main={search}
      value={route.query.get(field) ?? ""}
      onGive={(text) => refine(route, { [field]: text, cursor: undefined })}
    />
  )
  return (
    <search class="row">
      {input("text", "Text in the error", "wide", true)}
      {input("queue", "Queue", "")}
      {input("kind", "Kind", "")}
      {preset.state === undefined ? (
        <select
          aria-label="State"
          value={route.query.get("state") ?? ""}
          onChange={(event) => refine(route, { state: event.currentTarget.value, cursor: undefined })}
        >
          <option value="">Any state</option>
          {states.map((state) => (
            <option key={state}>{state}</option>
          ))}
        </select>
      ) : null}
      {input("payload", 'Payload contains, as {"a":1}', "wide")}
    </search>
  )
}

const acts: ReadonlyArray<Act> = ["requeue", "cancel", "run-now", "delete"]

/** Jobs that fit a filter, and what can be done to them, one or all. */
export const Jobs = (props: { route: Route; title: string; preset?: Readonly<Record<string, string>> }) => {
  const { preset = {}, route, title } = props
  const mayAct = useMayAct()
  const { pulse } = useNews()
  const filter = filterOf(route, preset)
  const page = useResource<JobPage>(`jobs${Api.query({ ...filter, limit: 50, cursor: route.query.get("cursor") })}`, {
    pulse
  })
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [cursor, setCursor] = useState(0)
  const [asked, setAsked] = useState<{ act: Act; target: Target }>()
  const jobs = page.data?.jobs ?? []
  const key = JSON.stringify(filter)
  useEffect(() => {
    setChosen(new Set())
    setCursor(0)
  }, [key])

  const ids = useMemo(() => [...chosen], [chosen])
  // Keys may come faster than the page is drawn: each acts on what the one before has left.
  const now = useRef({ jobs, ids, cursor })
  now.current = { jobs, ids, cursor }
  const move = (place: number) => {
    now.current.cursor = Math.max(0, Math.min(place, now.current.jobs.length - 1))
    setCursor(now.current.cursor)
  }
  const toggle = (id: string) => {
    const before = now.current.ids
    now.current.ids = before.includes(id) ? before.filter((other) => other !== id) : [...before, id]
    setChosen(new Set(now.current.ids))
  }
  const filterToAct = () => ({
    ...filter,
    ...(filter.payload === undefined ? {} : { payload: JSON.parse(filter.payload) as unknown })
  })
  const ask = (act: Act) => {
    try {
      setAsked({ act, target: ids.length > 0 ? { ids } : { filter: filterToAct() } })
    } catch (error) {
      say(`What the payload must contain is not JSON: ${(error as Error).message}`)
    }
  }

  useEffect(
    () =>
      onRowKey((act) => {
        const row = now.current.jobs[now.current.cursor]
        if (act === "next") move(now.current.cursor + 1)
        if (act === "previous") move(now.current.cursor - 1)
        if (row === undefined) return
        if (act === "select") toggle(row.id)
        if (act === "open") go(to(`jobs/${row.id}`))
        if ((act === "requeue" || act === "cancel") && mayAct) {
          setAsked({ act, target: { ids: now.current.ids.length > 0 ? now.current.ids : [row.id] } })
        }
      }),
    [mayAct]
  )

  return (
    <>
      <div class="head">
        <h1>{title}</h1>
        {page.data === undefined ? null : <span class="chip">{countText(page.data.total)}</span>}
        {mayAct ? (
          <div class="side">
            <span class="quiet small">{ids.length > 0 ? `${ids.length} selected` : "All that match:"}</span>
            {acts.map((act) => (
              <button type="button" key={act} class={act === "delete" ? "danger" : ""} onClick={() => ask(act)}>
                {actNames[act]}
              </button>
            ))}
          </div>
        ) : null}
      </div>
      {preset.state === "dead" ? <DeadGroups pulse={pulse} onDone={page.reload} /> : null}
      <Filters route={route} preset={preset} />
      <Shown of={page}>
        {(data) => (
          <div class="card">
            <JobTable
              jobs={data.jobs}
              chosen={chosen}
              cursor={cursor}
              onToggle={mayAct ? toggle : undefined}
              empty="No job fits. Loosen the filter, or enqueue one with nightshift enqueue."
            />
            <Pager next={data.next} route={route} />
          </div>
        )}
      </Shown>
      {asked === undefined ? null : (
        <BulkAct
          act={asked.act}
          target={asked.target}
          onClose={() => setAsked(undefined)}
          onDone={() => {
            setAsked(undefined)
            setChosen(new Set())
            page.reload()
          }}
        />
      )}
    </>
  )
}
