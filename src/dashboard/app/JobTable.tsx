import { Empty } from "./parts/Notice"
import { StateBadge } from "./parts/StateBadge"
import { Age } from "./parts/Time"
import { to } from "./Route"
import type { Job } from "./Views"

/** Time shown in the list: finished, started or due. */
const lastOf = (job: Job) => job.finishedAt ?? (job.state === "running" ? job.startedAt : job.runAt)

export const JobTable = (props: {
  readonly jobs: ReadonlyArray<Job>
  readonly chosen: ReadonlySet<string>
  readonly cursor: number
  readonly onToggle: ((id: string) => void) | undefined
  readonly empty: string
}) => {
  const { chosen, cursor, jobs, onToggle } = props
  if (jobs.length === 0) return <Empty>{props.empty}</Empty>
  return (
    <div class="table-wrap">
      <table class="stacked jobs">
        <thead>
          <tr>
            {onToggle === undefined ? null : <th aria-label="Selected" />}
            <th>State</th>
            <th>Kind</th>
            <th>Queue</th>
            <th class="number">Attempt</th>
            <th>When</th>
            <th>Error or payload</th>
          </tr>
        </thead>
        <tbody>
          {jobs.map((job, place) => (
            <tr key={job.id} class={place === cursor ? "cursor" : ""} aria-selected={chosen.has(job.id)}>
              {onToggle === undefined ? null : (
                <td class="pick">
                  <input
                    type="checkbox"
                    aria-label={`Select job ${job.id}`}
                    checked={chosen.has(job.id)}
                    onChange={() => onToggle(job.id)}
                  />
                </td>
              )}
              <td class="what">
                <StateBadge state={job.state} />
              </td>
              <td class="name">
                <a href={to(`jobs/${job.id}`)}>{job.kind}</a>
              </td>
              <td class="queue" title={job.queue}>
                {job.queue}
              </td>
              <td class="number attempt">
                {job.attempt}/{job.maxAttempts}
              </td>
              <td class="when">
                <Age at={lastOf(job)} />
              </td>
              <td class="rest">
                <div class="cut mono">{job.lastError ?? JSON.stringify(job.payload)}</div>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
