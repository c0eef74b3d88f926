import { useEffect, useMemo, useState } from "preact/hooks"
import * as Api from "../Api"
import { type Act, actNames, BulkAct, type Target } from "../BulkAct"
import { DeadGroups } from "../DeadGroups"
import { JobTable } from "../JobTable"
import { onRowKey } from "../Keys"
import { useNews } from "../Live"
import { Shown } from "../parts/Notice"
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
    <input
      key={field}
      aria-label={label}
      placeholder={label}
      class={width}
      value={route.query.get(field) ?? ""}
      type="search"
      data-search={search || undefined}
      onChange={(event) => refine(route, { [field]: event.currentTarget.value, cursor: undefined })}
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

  const toggle = (id: string) =>
    setChosen((before) =>
      before.has(id) ? new Set([...before].filter((other) => other !== id)) : new Set([...before, id])
    )
  const ids = useMemo(() => [...chosen], [chosen])
  const filterToAct = () => ({
    ...filter,
    ...(filter.payload === undefined ? {} : { payload: JSON.parse(filter.payload) as unknown })
  })
  const ask = (act: Act) => setAsked({ act, target: ids.length > 0 ? { ids } : { filter: filterToAct() } })

  useEffect(
    () =>
      onRowKey((act) => {
        const row = jobs[cursor]
        if (act === "next") setCursor(Math.min(cursor + 1, jobs.length - 1))
        if (act === "previous") setCursor(Math.max(cursor - 1, 0))
        if (row === undefined) return
        if (act === "select") toggle(row.id)
        if (act === "open") go(to(`jobs/${row.id}`))
        if ((act === "requeue" || act === "cancel") && mayAct) {
          setAsked({ act, target: { ids: ids.length > 0 ? ids : [row.id] } })
        }
      }),
    [jobs, cursor, ids, mayAct]
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
            {data.next === null && route.query.get("cursor") === null ? null : (
              <div class="pager row">
                {route.query.get("cursor") === null ? null : (
                  <button type="button" onClick={() => refine(route, { cursor: undefined })}>
                    Newest
                  </button>
                )}
                {data.next === null ? null : (
                  <button type="button" onClick={() => refine(route, { cursor: data.next ?? undefined })}>
                    Older
                  </button>
                )}
              </div>
            )}
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
