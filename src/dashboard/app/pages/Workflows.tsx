import * as Api from "../Api"
import { ExecutionLink, StatusBadge, statuses, Waits } from "../ExecutionStatus"
import { useLiveUpdates } from "../Live"
import { DraftInput } from "../parts/DraftInput"
import { Empty, Shown } from "../parts/Notice"
import { Pager } from "../parts/Pager"
import { Age } from "../parts/Time"
import { useResource } from "../Resource"
import { type Route, refine } from "../Route"
import type { ExecutionSummary } from "../Views"

const Filters = ({ route }: { readonly route: Route }) => (
  <search class="row">
    <DraftInput
      type="search"
      label="Id starts with"
      hint="Id starts with, such as order/"
      width="wide"
      main
      value={route.query.get("prefix") ?? ""}
      onGive={(prefix) => refine(route, { prefix, cursor: undefined })}
    />
    <DraftInput
      type="search"
      label="Workflow"
      value={route.query.get("workflow") ?? ""}
      onGive={(workflow) => refine(route, { workflow, cursor: undefined })}
    />
    <select
      aria-label="Status"
      value={route.query.get("status") ?? ""}
      onChange={(event) => refine(route, { status: event.currentTarget.value, cursor: undefined })}
    >
      <option value="">Any status</option>
      {statuses.map((status) => (
        <option key={status}>{status}</option>
      ))}
    </select>
  </search>
)

const Row = ({ execution }: { readonly execution: ExecutionSummary }) => (
  <tr>
    <td class="what">
      <StatusBadge status={execution.status} deadReason={execution.deadReason} />
    </td>
    <td class="name">
      <ExecutionLink execution={execution.execution} />
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
  const filter = Object.fromEntries(["workflow", "status", "prefix"].map((name) => [name, route.query.get(name)]))
  const page = useResource<{ executions: ReadonlyArray<ExecutionSummary>; next: string | null }>(
    `workflows${Api.query({ ...filter, cursor: route.query.get("cursor") })}`,
    { pulse, every: 5_000 }
  )
  const isFiltered = Object.values(filter).some((value) => value !== null && value !== "")
  return (
    <>
      <div class="head">
        <h1>Workflows</h1>
      </div>
      <Filters route={route} />
      <Shown of={page}>
        {({ executions, next }) => (
          <div class="card">
            {executions.length > 0 ? (
              <div class="table-wrap">
                <table class="stacked executions">
                  <thead>
                    <tr>
                      <th>Status</th>
                      <th>Execution</th>
                      <th>Workflow</th>
                      <th>Waits for</th>
                      <th>Started</th>
                    </tr>
                  </thead>
                  <tbody>
                    {executions.map((execution) => (
                      <Row key={execution.id} execution={execution} />
                    ))}
                  </tbody>
                </table>
              </div>
            ) : isFiltered ? (
              <Empty>No executions match this filter.</Empty>
            ) : (
              <Empty>
                No executions yet. Define a workflow with <code>workflow()</code> of <code>nightshift/client</code> and
                start one with <code>start</code>, or with <code>nightshift workflows start</code>.
              </Empty>
            )}
            <Pager next={next} route={route} />
          </div>
        )}
      </Shown>
    </>
  )
}
