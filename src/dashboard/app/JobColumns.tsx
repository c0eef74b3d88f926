import type { ComponentChildren } from "preact"
import { useState } from "preact/hooks"
import { isWaiting } from "./JobActs"
import { PodLink } from "./Links"
import { ProgressBar, readProgress } from "./parts/Progress"
import { StateBadge } from "./parts/StateBadge"
import { Age, Elapsed } from "./parts/Time"
import { to } from "./Route"
import { storedList } from "./StoredList"
import type { Job } from "./Views"

// The columns of the job lists. Each page has its own defaults; the user's choice is saved per page.

export interface Column {
  readonly id: string
  readonly label: string
  /** Name of its order in the API, if the list can be sorted by it. */
  readonly sort?: string
  /** Whether the first click sorts in descending order. */
  readonly descending?: boolean
  readonly class: string
  /** `isOld`: the job may have changed since, and the list does not get it any more. */
  readonly cell: (job: Job, isOld: boolean) => ComponentChildren
}

/** Time shown in the list: finished, started or due. */
const lastChange = (job: Job) => job.finishedAt ?? (job.state === "running" ? job.startedAt : job.runAt)

/** How long the last run took, or has taken so far. */
const Duration = ({ isOld, job }: { readonly job: Job; readonly isOld: boolean }) => {
  const isUnknown = isOld && job.finishedAt === null
  if (job.startedAt === null || isWaiting(job.state) || isUnknown) return <span class="quiet">–</span>
  return <Elapsed from={job.startedAt} to={job.finishedAt} />
}

/** The progress of a running job, the error of a failed one, or the payload. */
const Rest = ({ job }: { readonly job: Job }) => {
  const progress = job.state === "running" ? readProgress(job.progress) : undefined
  if (progress !== undefined) return <ProgressBar of={progress} />
  return <div class="cut mono">{job.lastError ?? JSON.stringify(job.payload)}</div>
}

const podOf = (job: Job) => job.pod ?? job.history.at(-1)?.pod

const columns: ReadonlyArray<Column> = [
  { id: "state", label: "State", sort: "state", class: "what", cell: ({ state }) => <StateBadge state={state} /> },
  {
    id: "kind",
    label: "Kind",
    sort: "kind",
    class: "name",
    cell: ({ id, kind }) => <a href={to(`jobs/${id}`)}>{kind}</a>
  },
  {
    id: "queue",
    label: "Queue",
    sort: "queue",
    class: "queue",
    cell: ({ queue }) => <span title={queue}>{queue}</span>
  },
  {
    id: "attempt",
    label: "Attempt",
    sort: "attempt",
    descending: true,
    class: "number attempt",
    cell: ({ attempt, attempts }) => `${attempt}/${attempts}`
  },
  {
    id: "priority",
    label: "Priority",
    sort: "priority",
    class: "number hide-narrow",
    cell: ({ priority }) => priority
  },
  {
    id: "created",
    label: "Created",
    sort: "created",
    descending: true,
    class: "time hide-narrow",
    cell: ({ createdAt }) => <Age at={createdAt} />
  },
  { id: "due", label: "Due", sort: "due", class: "time when", cell: ({ runAt }) => <Age at={runAt} /> },
  {
    id: "finished",
    label: "Ended",
    sort: "finished",
    descending: true,
    class: "time when",
    cell: ({ finishedAt }) => <Age at={finishedAt} />
  },
  {
    id: "when",
    label: "When",
    sort: "when",
    descending: true,
    class: "time when",
    cell: (job) => <Age at={lastChange(job)} />
  },
  {
    id: "duration",
    label: "Duration",
    sort: "duration",
    descending: true,
    class: "number hide-narrow",
    cell: (job, isOld) => <Duration job={job} isOld={isOld} />
  },
  {
    id: "pod",
    label: "Process",
    class: "hide-narrow",
    cell: (job) => {
      const pod = podOf(job)
      return pod === undefined ? <span class="quiet">–</span> : <PodLink id={pod} />
    }
  },
  {
    id: "key",
    label: "Key",
    class: "hide-narrow",
    cell: ({ key }) => (key === null ? <span class="quiet">–</span> : <code>{key}</code>)
  },
  { id: "rest", label: "Error or payload", class: "rest", cell: (job) => <Rest job={job} /> }
]

/** Default columns of a page. */
const usual: Readonly<Record<string, ReadonlyArray<string>>> = {
  scheduled: ["state", "kind", "queue", "due", "created", "rest"],
  retries: ["state", "kind", "queue", "attempt", "due", "rest"],
  dead: ["state", "kind", "queue", "attempt", "finished", "duration", "rest"]
}
const others = ["state", "kind", "queue", "attempt", "when", "duration", "rest"]

/** The default columns, for lists without a column menu. */
export const usualColumns = (page = ""): ReadonlyArray<Column> =>
  columns.filter(({ id }) => (usual[page] ?? others).includes(id))

const keyOf = (page: string) => `nightshift.columns.${page}`

/** The columns that the user chose for a page, and a function to change them. */
export const useColumns = (page: string) => {
  const [chosen, setChosen] = useState<ReadonlyArray<string> | undefined>(() =>
    storedList("localStorage", keyOf(page))?.map(String)
  )
  const shown = chosen ?? usual[page] ?? others
  const choose = (ids: ReadonlyArray<string> | undefined) => {
    if (ids === undefined) localStorage.removeItem(keyOf(page))
    else localStorage.setItem(keyOf(page), JSON.stringify(ids))
    setChosen(ids)
  }
  return { columns: columns.filter(({ id }) => id === "kind" || shown.includes(id)), shown, choose }
}

/** A menu of all columns. The kind column links to the job, so it cannot be hidden. */
export const ColumnChoice = ({ choose, shown }: Omit<ReturnType<typeof useColumns>, "columns">) => {
  const [open, setOpen] = useState(false)
  return (
    <details class="choice" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>Columns</summary>
      {open ? (
        <fieldset class="card body" aria-label="Columns">
          {columns
            .filter(({ id }) => id !== "kind")
            .map(({ id, label }) => (
              <label class="check" key={id}>
                <input
                  type="checkbox"
                  checked={shown.includes(id)}
                  onChange={({ currentTarget: { checked } }) =>
                    choose(checked ? [...shown, id] : shown.filter((other) => other !== id))
                  }
                />
                {label}
              </label>
            ))}
          <button type="button" class="link small" onClick={() => choose(undefined)}>
            Reset columns
          </button>
        </fieldset>
      ) : null}
    </details>
  )
}
