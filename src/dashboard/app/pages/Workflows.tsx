import * as Api from "../Api"
import { ExecutionBadge, ExecutionLink, executionAddress, StateCounts, Tags, Waits } from "../ExecutionState"
import { useLiveUpdates } from "../Live"
import { FilterInput, FilterInstant } from "../parts/Filters"
import { Head } from "../parts/Head"
import { Empty, Shown } from "../parts/Notice"
import { Pager } from "../parts/Pager"
import { type Order, readOrder, SortHeader, turned } from "../parts/SortHeader"
import { Table } from "../parts/Table"
import { Age, Elapsed } from "../parts/Time"
import { useResource } from "../Resource"
import { type Route, refine } from "../Route"
import type { ExecutionCounts, ExecutionPage, ExecutionSummary } from "../Views"

const byStart: Order = { by: "started", descending: true }

/** The children of an execution in words, the failed ones first: `3 failed, 197 done`. */
const childText = ({ cancelled, deleted, done, failed, more, open }: ExecutionSummary["childCounts"]): string => {
  const parts = Object.entries({ failed, open, cancelled, done, deleted }).filter(([, count]) => count > 0)
  return `${parts.map(([state, count]) => `${count.toLocaleString()} ${state}`).join(", ")}${more ? ", and more" : ""}`
}

/** Number of steps that a summary counts. */
const maxSteps = 1_000

/** How far an execution has come: its children if it has any, or else its steps. */
const Progress = ({ of: { childCounts, execution, stepsDone } }: { readonly of: ExecutionSummary }) => {
  const { cancelled, deleted, done, failed, more, open } = childCounts
  const all = cancelled + deleted + done + failed + open
  const steps = `${stepsDone.toLocaleString()}${stepsDone < maxSteps ? "" : "+"} ${stepsDone === 1 ? "step" : "steps"}`
  if (all === 0) return <span class={stepsDone === 0 ? "quiet" : ""}>{steps}</span>
  return (
    <span class="progressing" title={steps}>
      {open === 0 ? null : (
        <span class="bar" role="img" aria-label={`${all - open} of ${all}${more ? " or more" : ""} children ended`}>
          <progress max={all} value={all - open} />
        </span>
      )}
      <a class={failed > 0 ? "state dead" : ""} href={executionAddress(execution)}>
        {childText(childCounts)}
      </a>
    </span>
  )
}

/** Where a failed execution failed, or what another one waits for. */
const Where = ({ of: { failedStep, lastError, waits } }: { readonly of: ExecutionSummary }) =>
  lastError === null ? (
    <Waits waits={waits} />
  ) : (
    <>
      {failedStep === null ? null : (
        <>
          <strong>{failedStep}</strong>:{" "}
        </>
      )}
      {lastError}
    </>
  )

const Row = ({ execution }: { readonly execution: ExecutionSummary }) => (
  <tr>
    <td class="what">
      <ExecutionBadge state={execution.state} reason={execution.reason} />
    </td>
    <td class="name">
      <ExecutionLink execution={execution.execution} /> <Tags tags={execution.tags} />
    </td>
    <td class="again">
      <Progress of={execution} />
    </td>
    <td class="rest">
      <div class="cut">
        <Where of={execution} />
      </div>
    </td>
    <td class="number queue">
      <Elapsed from={execution.createdAt} to={execution.finishedAt} />
    </td>
    <td class="when">
      <Age at={execution.createdAt} />
    </td>
  </tr>
)

/** Shows or hides executions that another one started. */
const ChildrenChoice = ({ route }: { readonly route: Route }) => (
  <label class="check">
    <input
      type="checkbox"
      checked={route.query.get("children") === "shown"}
      onChange={({ currentTarget: { checked } }) =>
        refine(route, { children: checked ? "shown" : undefined, cursor: undefined })
      }
    />
    Show children
  </label>
)

export const Workflows = ({ route }: { readonly route: Route }) => {
  const { pulse } = useLiveUpdates()
  const withChildren = route.query.get("children") === "shown"
  const names = ["workflow", "prefix", "since", "until"]
  const filter = {
    ...Object.fromEntries(names.map((name) => [name, route.query.get(name)])),
    tag: route.query.getAll("tag")
  }
  const state = route.query.get("state")
  const order = readOrder(route.query)
  const which = { ...filter, roots: withChildren ? undefined : "true" }
  const page = useResource<ExecutionPage>(
    `workflows${Api.query({
      ...which,
      state,
      sort: order?.by,
      order: order === undefined ? undefined : order.descending ? "desc" : "asc",
      cursor: route.query.get("cursor")
    })}`,
    { pulse, every: 5_000 }
  )
  const counts = useResource<ExecutionCounts>(`workflows/counts${Api.query(which)}`, { every: 10_000 })
  const isFiltered = [state, ...Object.values(filter)].some((value) => value !== null && value.length > 0)
  const sort = (by: string) => {
    // Newest first is the only order by start: no index is needed for it, and a list can always go on.
    const next = by === byStart.by ? undefined : turned(order, by, true)
    const query = next === undefined ? {} : { sort: next.by, order: next.descending ? "desc" : "asc" }
    refine(route, { sort: undefined, order: undefined, ...query, cursor: undefined })
  }
  const heading = (by: string, label: string, of: string) => (
    <SortHeader key={by} by={by} class={of} order={order ?? byStart} onSort={sort}>
      {label}
    </SortHeader>
  )
  return (
    <>
      <Head title="Workflows" />
      <search class="row">
        <FilterInput
          route={route}
          name="prefix"
          label="Id starts with"
          hint="Id starts with, such as order/"
          width="wide"
          main
        />
        <FilterInput route={route} name="workflow" label="Workflow" />
        <FilterInput route={route} name="tag" label="Tag" hint="Tag, such as customer=42" width="wide" />
        <FilterInstant route={route} name="since" label="From" />
        <FilterInstant route={route} name="until" label="Before" />
      </search>
      <search class="row counts" aria-label="States">
        <StateCounts of={counts.data} chosen={state} route={route} />
        <ChildrenChoice route={route} />
      </search>
      <Shown of={page}>
        {({ executions, next, sortedAmong }) => (
          <div class={page.isOther ? "card gone" : "card"}>
            {sortedAmong === null ? null : (
              <p class="note small quiet">
                Only the newest {sortedAmong.toLocaleString()} executions are sorted. Narrow the filter to sort all of
                them.
              </p>
            )}
            {executions.length > 0 ? (
              <Table
                class="stacked executions"
                headings={[
                  "State",
                  "Execution",
                  "Progress",
                  "Failed step or wait",
                  heading("duration", "Duration", "number"),
                  heading("started", "Started", "")
                ]}
              >
                {executions.map((execution) => (
                  <Row key={execution.id} execution={execution} />
                ))}
              </Table>
            ) : isFiltered ? (
              <Empty>
                No executions match this filter.
                {withChildren ? null : (
                  <>
                    {" "}
                    Child executions are hidden.{" "}
                    <button type="button" class="link" onClick={() => refine(route, { children: "shown" })}>
                      Show children
                    </button>
                  </>
                )}
              </Empty>
            ) : (
              <Empty>
                No executions yet. Define a workflow with <code>workflow()</code> of <code>nightshift/client</code> and
                start one with <code>shift.start</code>, or with <code>nightshift workflows start</code>.
              </Empty>
            )}
            <Pager next={next} route={route} />
          </div>
        )}
      </Shown>
    </>
  )
}
