import * as Api from "../Api"
import { ExecutionBadge, ExecutionLink, executionStates, Tags, Waits } from "../ExecutionState"
import { useLiveUpdates } from "../Live"
import { FilterInput, FilterInstant, FilterSelect } from "../parts/Filters"
import { Head } from "../parts/Head"
import { Empty, Shown } from "../parts/Notice"
import { Pager } from "../parts/Pager"
import { Table } from "../parts/Table"
import { Age } from "../parts/Time"
import { useResource } from "../Resource"
import type { Route } from "../Route"
import type { ExecutionSummary } from "../Views"

const Row = ({ execution }: { readonly execution: ExecutionSummary }) => (
  <tr>
    <td class="what">
      <ExecutionBadge state={execution.state} reason={execution.reason} />
    </td>
    <td class="name">
      <ExecutionLink execution={execution.execution} /> <Tags tags={execution.tags} />
    </td>
    <td class="queue">{execution.workflow}</td>
    <td class="rest">
      <div class="cut">{execution.lastError ?? <Waits waits={execution.waits} />}</div>
    </td>
    <td class="when">
      <Age at={execution.createdAt} />
    </td>
  </tr>
)

export const Workflows = ({ route }: { readonly route: Route }) => {
  const { pulse } = useLiveUpdates()
  const names = ["workflow", "state", "prefix", "since", "until"]
  const filter = {
    ...Object.fromEntries(names.map((name) => [name, route.query.get(name)])),
    tag: route.query.getAll("tag")
  }
  const page = useResource<{ executions: ReadonlyArray<ExecutionSummary>; next: string | null }>(
    `workflows${Api.query({ ...filter, cursor: route.query.get("cursor") })}`,
    { pulse, every: 5_000 }
  )
  const isFiltered = Object.values(filter).some((value) => value !== null && value.length > 0)
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
        <FilterSelect route={route} name="state" label="State" options={executionStates} />
        <FilterInput route={route} name="tag" label="Tag" hint="Tag, such as customer=42" />
        <FilterInstant route={route} name="since" label="From" />
        <FilterInstant route={route} name="until" label="Before" />
      </search>
      <Shown of={page}>
        {({ executions, next }) => (
          <div class="card">
            {executions.length > 0 ? (
              <Table class="stacked executions" headings={["State", "Execution", "Workflow", "Waits for", "Started"]}>
                {executions.map((execution) => (
                  <Row key={execution.id} execution={execution} />
                ))}
              </Table>
            ) : isFiltered ? (
              <Empty>No executions match this filter.</Empty>
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
