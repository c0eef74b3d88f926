import { useState } from "preact/hooks"
import * as Api from "./Api"
import * as Incidents from "./Incidents"
import { manyRetries, maxExaminedRetries } from "./Incidents"
import { troubleWords, useLiveUpdates } from "./Live"
import { runningPath } from "./pages/Pods"
import { idlePoll, slowPoll, useResource } from "./Resource"
import type { DatabaseHealth, DeadGroup, JobPage, Queue, UploadsOverview } from "./Views"

const remembered = "nightshift.attention"

/** Lines that are always shown. */
const alwaysShown = 5

/** Lists incidents; the first lines are always shown. */
export const Attention = ({ queues }: { readonly queues: ReadonlyArray<Queue> | undefined }) => {
  const { pods, trouble, warnings } = useLiveUpdates()
  const [open, setOpen] = useState(() => localStorage.getItem(remembered) === "open")
  const groups = useResource<{ groups: ReadonlyArray<DeadGroup> }>("jobs/groups", {
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
  const items = Incidents.of(
    {
      queues,
      warnings,
      pods,
      running: running.data?.jobs,
      groups: groups.data?.groups,
      retrying: retrying < manyRetries ? [] : retries.data?.jobs,
      uploads: uploads.data,
      database: database.data
    },
    Date.now()
  )
  const turn = () => {
    localStorage.setItem(remembered, open ? "closed" : "open")
    setOpen(!open)
  }
  if (items.length === 0 || trouble !== undefined) {
    const words = trouble === undefined ? "Loading warnings…" : `${troubleWords[trouble]}: warnings are unknown`
    const isKnown = trouble === undefined && warnings !== undefined && queues !== undefined && groups.data !== undefined
    return (
      <div class="notice" role="status">
        {isKnown ? <span class="state done">No warnings</span> : words}
      </div>
    )
  }
  const shown = open ? items : items.slice(0, alwaysShown)
  const hidden = items.length - alwaysShown
  return (
    <section class="notice warning" aria-label="Needs attention">
      <ul class="attention">
        {shown.map(({ href, text }) => (
          <li key={text}>
            <a class={open ? "" : "cut"} href={href} title={text}>
              {text}
            </a>
          </li>
        ))}
      </ul>
      {hidden <= 0 ? null : (
        <button type="button" class="link" aria-expanded={open} onClick={turn}>
          {open ? "Show less" : `Show ${hidden} more`}
        </button>
      )}
    </section>
  )
}
