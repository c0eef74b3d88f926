import { useEffect, useMemo, useRef, useState } from "preact/hooks"
import { BulkAct, type Target } from "../BulkAct"
import { DeadGroups } from "../DeadGroups"
import { EnqueueForm } from "../EnqueueForm"
import { useHeldRows } from "../HeldRows"
import { type Act, actNames, acts, isFor, notFor } from "../JobActs"
import { type Column, ColumnChoice, useColumns } from "../JobColumns"
import * as JobFilter from "../JobFilter"
import { JobFilters } from "../JobFilters"
import { JobTable } from "../JobTable"
import { KeyMatches } from "../KeyMatches"
import { onRowKey } from "../Keys"
import { useLiveUpdates } from "../Live"
import { Head } from "../parts/Head"
import { Shown } from "../parts/Notice"
import { Pager } from "../parts/Pager"
import { type Order, readOrder, turned } from "../parts/SortHeader"
import { showToast } from "../parts/Toasts"
import { slowPoll, useReloadAll, useResource } from "../Resource"
import { go, type Route, refine, to } from "../Route"
import { SavedViews } from "../SavedViews"
import { useMayAct } from "../Session"
import { countText, type JobPage, type State } from "../Views"

const nothing: JobFilter.JobFilter = {}

/** Default order of a page: next due first, latest death first, or newest first. */
const usualOrders: Readonly<Record<string, Order>> = {
  scheduled: { by: "due", descending: false },
  retries: { by: "due", descending: false },
  dead: { by: "finished", descending: true }
}
const newestFirst: Order = { by: "created", descending: true }

/** Action buttons for the selected jobs, or for all jobs that match the filter. */
const Acts = (props: {
  readonly filter: JobFilter.JobFilter
  readonly preset: JobFilter.JobFilter
  readonly chosen: ReadonlyMap<string, State>
  /** How many jobs match the filter, and are on this page. */
  readonly total: string | undefined
  readonly onPage: number
  readonly onAll: () => void
  readonly onAsk: (act: Act) => void
}) => {
  const { chosen, filter, preset } = props
  const isAll = chosen.size === 0
  // Without a filter this would act on all jobs, which the server rejects.
  const isEverything = isAll && JobFilter.isEmpty(filter)
  const hint = isEverything ? "Select jobs or set a filter" : isAll ? "All matching jobs:" : `${chosen.size} selected`
  /** Selected jobs in other states are skipped, but the server rejects a filter that includes another state. */
  const fits = (act: Act) =>
    isAll
      ? (filter.state ?? []).every((state) => isFor(act, state))
      : [...chosen.values()].some((state) => isFor(act, state))
  return (
    <div class="side">
      <span class="quiet small">{hint}</span>
      {/* Without a selection, actions apply to all matching jobs. */}
      {chosen.size > 0 && chosen.size === props.onPage && !JobFilter.isEmpty(filter) && props.total !== undefined ? (
        <button type="button" class="link small" onClick={props.onAll}>
          Select all {props.total}
        </button>
      ) : null}
      {acts
        .filter((act) => (preset.state ?? []).every((state) => isFor(act, state)))
        .map((act) => (
          <button
            type="button"
            key={act}
            class={act === "delete" ? "danger" : ""}
            disabled={isEverything || !fits(act)}
            title={isEverything ? hint : fits(act) ? undefined : notFor(act)}
            onClick={() => props.onAsk(act)}
          >
            {actNames[act]}
          </button>
        ))}
    </div>
  )
}

const emptyText = (filter: JobFilter.JobFilter, preset: JobFilter.JobFilter): string => {
  if (!JobFilter.isEmpty(JobFilter.without(filter, preset))) return "No jobs match this filter."
  return preset.state === undefined
    ? "No jobs yet. Press Enqueue, or run nightshift enqueue."
    : `No ${preset.state.join(" or ")} jobs.`
}

/** A filtered job list with actions on one or all jobs. */
export const Jobs = (props: { route: Route; title: string; preset?: JobFilter.JobFilter }) => {
  const { preset = nothing, route, title } = props
  const mayAct = useMayAct()
  const { pulse, trouble } = useLiveUpdates()
  const offline = trouble !== undefined
  const filter = JobFilter.read(route, preset)
  const name = route.path[0] ?? "jobs"
  const own = usualOrders[name] ?? newestFirst
  const order = readOrder(route.query) ?? own
  const sorting = { sort: order.by, order: order.descending ? "desc" : "asc" } as const
  const path = `jobs${JobFilter.query(filter, { limit: 50, cursor: route.query.get("cursor"), ...sorting })}`
  const table = useColumns(name)
  const sort = (column: Column) => {
    const by = column.sort ?? own.by
    const next = turned(readOrder(route.query) ?? own, by, column.descending ?? false)
    const query = next === undefined ? {} : { sort: next.by, order: next.descending ? "desc" : "asc" }
    refine(route, { sort: undefined, order: undefined, ...query, cursor: undefined })
  }
  const page = useResource<JobPage>(path, { pulse, every: slowPoll })
  const [chosen, setChosen] = useState<ReadonlyMap<string, State>>(new Map())
  const [cursor, setCursor] = useState<string>()
  const [enqueuing, setEnqueuing] = useState(false)
  const [asked, setAsked] = useState<{ act: Act; target: Target }>()
  const key = JSON.stringify(filter)
  const list = `${key} ${JSON.stringify(sorting)} ${route.query.get("cursor")}`
  // The path of a filter by age changes every minute, but it is the same list.
  const paths = useRef({ list, all: new Set<string>() })
  if (paths.current.list !== list) paths.current = { list, all: new Set() }
  paths.current.all.add(path)
  const fresh = page.path !== undefined && paths.current.all.has(page.path) ? page.data : undefined
  // While another filter loads, the previous rows are shown greyed out; after an error they are not.
  const stale = fresh === undefined && page.error === undefined ? page.data : undefined
  const { adopt, unseen, rows } = useHeldRows(list, fresh?.jobs, fresh?.next !== null)
  useReloadAll(adopt)
  const jobs = fresh === undefined ? [] : rows.map(({ job }) => job)
  useEffect(() => {
    setChosen(new Map())
    setCursor(undefined)
  }, [key])
  // The cursor stays with its job when the list changes, because keys act on the job.
  const first = jobs[0]?.id
  useEffect(() => setCursor((current) => current ?? first), [first, key])

  // Keys may arrive faster than renders, so handlers read and update this ref instead of state.
  const now = useRef({ jobs, chosen, cursor, offline })
  now.current = { jobs, chosen, cursor, offline }
  const move = (by: number) => {
    const { jobs, cursor } = now.current
    const place = jobs.findIndex(({ id }) => id === cursor)
    now.current.cursor = jobs[place === -1 ? 0 : Math.max(0, Math.min(place + by, jobs.length - 1))]?.id
    setCursor(now.current.cursor)
  }
  const toggle = (id: string) => {
    const state = now.current.jobs.find((job) => job.id === id)?.state
    const next = new Map(now.current.chosen)
    if (!next.delete(id) && state !== undefined) next.set(id, state)
    now.current.chosen = next
    setChosen(next)
  }
  const toggleAll = (isChosen: boolean) =>
    setChosen(new Map(isChosen ? rows.filter(({ gone }) => !gone).map(({ job }) => [job.id, job.state]) : []))
  const ask = (act: Act) => {
    try {
      setAsked({ act, target: chosen.size > 0 ? { ids: [...chosen.keys()] } : { filter: JobFilter.target(filter) } })
    } catch (error) {
      const { message } = error as Error
      showToast(error instanceof SyntaxError ? `The payload filter is not valid JSON: ${message}` : message)
    }
  }

  useEffect(
    () =>
      onRowKey((act) => {
        const { chosen, cursor, jobs, offline } = now.current
        const row = jobs.find(({ id }) => id === cursor)
        if (act === "next") return move(1)
        if (act === "previous") return move(-1)
        if (row === undefined) return
        if (act === "select") toggle(row.id)
        if (act === "open") go(to(`jobs/${row.id}`))
        if ((act === "requeue" || act === "cancel") && mayAct && !offline) {
          const meant = chosen.size > 0 ? chosen : new Map([[row.id, row.state]])
          if (![...meant.values()].some((state) => isFor(act, state))) return showToast(notFor(act))
          setAsked({ act, target: { ids: [...meant.keys()] } })
        }
      }),
    [mayAct]
  )

  const selected = useMemo(() => new Set(chosen.keys()), [chosen])
  return (
    <>
      <Head title={title}>
        {fresh === undefined ? null : <span class="chip">{countText(fresh.total)}</span>}
        {mayAct && preset.state === undefined ? (
          <button type="button" onClick={() => setEnqueuing(true)}>
            Enqueue
          </button>
        ) : null}
        {mayAct ? (
          <Acts
            filter={filter}
            preset={preset}
            chosen={chosen}
            total={fresh === undefined || fresh.next === null ? undefined : countText(fresh.total)}
            onPage={rows.filter(({ gone }) => !gone).length}
            onAll={() => setChosen(new Map())}
            onAsk={ask}
          />
        ) : null}
      </Head>
      <SavedViews page={route.path[0] ?? "jobs"} filter={JobFilter.without(filter, preset)} />
      {preset.state?.includes("dead") ? (
        <DeadGroups
          pulse={pulse}
          onDone={() => {
            adopt()
            page.reload()
          }}
        />
      ) : null}
      <JobFilters route={route} filter={filter} preset={preset} kinds={[...new Set(jobs.map(({ kind }) => kind))]} />
      {filter.search?.[0] === undefined ? null : <KeyMatches text={filter.search[0]} />}
      <Shown of={{ ...page, data: fresh ?? stale }}>
        {(data) => (
          <div class={fresh === undefined ? "card gone" : "card"}>
            {/* Always present, so that its text does not shift the list. */}
            <div class="unseen" role="status">
              {unseen === 0 ? (
                <span class="quiet small">
                  {data.searched !== null
                    ? `Searched ${data.searched.toLocaleString()} jobs. Older ones may match.`
                    : data.sortedAmong === null
                      ? "Up to date"
                      : `Sorted among the newest ${data.sortedAmong.toLocaleString()} jobs. Narrow the filter to sort all.`}
                </span>
              ) : (
                <button type="button" class="link small" onClick={adopt}>
                  {unseen === data.jobs.length && data.next !== null ? `${unseen}+` : unseen} new
                </button>
              )}
              <ColumnChoice {...table} />
            </div>
            <JobTable
              rows={rows}
              columns={table.columns}
              handling={{
                chosen: selected,
                cursor,
                onToggle: mayAct ? toggle : undefined,
                onToggleAll: toggleAll,
                order,
                onSort: sort
              }}
              empty={data.searched === null ? emptyText(filter, preset) : "None of the jobs searched so far matches."}
            />
            <Pager next={data.next} route={route} name={data.searched === null ? "Older" : "Continue the search"} />
          </div>
        )}
      </Shown>
      {enqueuing ? <EnqueueForm onClose={() => setEnqueuing(false)} /> : null}
      {asked === undefined ? null : (
        <BulkAct
          act={asked.act}
          target={asked.target}
          onClose={() => setAsked(undefined)}
          onDone={() => {
            setAsked(undefined)
            setChosen(new Map())
            adopt()
            page.reload()
          }}
        />
      )}
    </>
  )
}
