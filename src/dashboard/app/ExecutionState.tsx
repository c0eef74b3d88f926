import type { ComponentChildren } from "preact"
import * as StepName from "../../core/StepName.js"
import { Age } from "./parts/Time"
import { useResource } from "./Resource"
import { type Route, refine, to } from "./Route"
import { type Execution, type ExecutionCounts, type ExecutionSummary, type Job, stateText } from "./Views"

/** The job state whose colour each state has. */
const colours: Readonly<Record<ExecutionSummary["state"], string>> = {
  scheduled: "scheduled",
  pending: "pending",
  running: "running",
  sleeping: "scheduled",
  waiting: "scheduled",
  changed: "retrying",
  cancelling: "cancelled",
  undoing: "dead",
  done: "done",
  failed: "dead",
  cancelled: "cancelled"
}

const executionStates = Object.keys(colours) as ReadonlyArray<ExecutionSummary["state"]>

export const ExecutionBadge = ({
  reason,
  state
}: {
  readonly state: ExecutionSummary["state"]
  readonly reason: ExecutionSummary["reason"]
}) => <span class={`state ${colours[state]}`}>{stateText(state, reason)}</span>

/** Whether the data of an execution was erased: it keeps a name that says so, and cannot run again. */
export const isErased = ({ execution, id }: Pick<Execution, "execution" | "id">): boolean =>
  execution === `erased:${id}`

/** The number of executions in each state, as filters. States without any are left out. */
export const StateCounts = (props: {
  readonly of: ExecutionCounts | undefined
  readonly chosen: string | null
  readonly route: Route
}) => {
  const { chosen, of, route } = props
  if (of === undefined) return null
  const found = executionStates.filter((state) => of.counts[state] > 0 || state === chosen)
  const all = executionStates.reduce((sum, state) => sum + of.counts[state], 0)
  const one = (state: string, count: number, look: ComponentChildren) => (
    <button
      key={state}
      type="button"
      class="chip"
      aria-pressed={(chosen ?? "") === state}
      onClick={() => refine(route, { state, cursor: undefined })}
    >
      {look} {count.toLocaleString()}
      {of.exact ? "" : "+"}
    </button>
  )
  return (
    <fieldset class="row tight" aria-label="State">
      {one("", all, "all")}
      {found.map((state) => one(state, of.counts[state], <span class={`state ${colours[state]}`}>{state}</span>))}
    </fieldset>
  )
}

/** The address of an execution's page. Its id contains slashes. */
export const executionAddress = (execution: string): string => to(`workflows/${encodeURIComponent(execution)}`)

export const ExecutionLink = ({ execution }: { readonly execution: string }) => (
  <a href={executionAddress(execution)}>{execution}</a>
)

/** The tags of an execution, each a link to the executions with it. */
export const Tags = ({ tags }: { readonly tags: ExecutionSummary["tags"] }) => (
  <>
    {Object.entries(tags).map(([name, value]) => (
      <a key={name} class="chip" href={to("workflows", { tag: `${name}=${value}` })}>
        {name}={value}
      </a>
    ))}
  </>
)

type Wait = ExecutionSummary["waits"][number]

/** Whether the execution waits for the first of several children. */
export const isRace = ({ kind, value }: Pick<Wait, "kind" | "value">): boolean =>
  kind === "children" && value !== null && value !== undefined

const Waited = ({ wait }: { readonly wait: Wait }) => {
  switch (wait.kind) {
    case "signal":
    case "message":
      return (
        <>
          {StepName.eventOf(wait.name) === undefined ? wait.kind : "event"}{" "}
          <strong>{StepName.eventOf(wait.name) ?? StepName.withoutPrefix(wait.name)}</strong>
          {wait.dueAt === null ? null : (
            <>
              , times out <Age at={wait.dueAt} />
            </>
          )}
        </>
      )
    case "sleep":
      return (
        <>
          sleep <strong>{wait.name}</strong>, ends <Age at={wait.dueAt} />
        </>
      )
    case "retry":
      return (
        <>
          retry of <strong>{wait.name}</strong> <Age at={wait.dueAt} />
        </>
      )
    case "limit":
      return (
        <>
          limit <strong>{`${wait.value}`}</strong> for the step {wait.name}, asks again <Age at={wait.dueAt} />
        </>
      )
    case "children":
      if (isRace(wait)) {
        return (
          <>
            the first child of <strong>{wait.name}</strong>
          </>
        )
      }
      return (
        <>
          {wait.remaining ?? "its"} {wait.remaining === 1 ? "child" : "children"} of <strong>{wait.name}</strong>
        </>
      )
    case "value":
      return (
        <>
          value <strong>{wait.name}</strong>
        </>
      )
    case "ask":
    case "answer":
      return (
        <>
          ask <strong>{wait.name}</strong>
        </>
      )
    case "changed":
      return <>code that matches its journal: deploy such code, or fork the execution from the changed step</>
  }
}

/** What an execution waits for now. */
export const Waits = ({ waits }: { readonly waits: ReadonlyArray<Wait> }) => (
  <>
    {waits.map((wait, place) => (
      <span key={`${wait.kind} ${wait.name}`}>
        {place === 0 ? "" : "; "}
        <Waited wait={wait} />
      </span>
    ))}
  </>
)

/** The execution that a job runs, if any. Sends a request only for jobs that may be one. */
export const useExecutionOf = (job: Job): string | undefined => {
  const mayBe = job.dedupe?.scope === "retained" && job.dedupe.key.includes("/")
  return useResource<Execution>(mayBe ? `workflows/${job.id}` : undefined).data?.execution
}
