import type { Row } from "./HeldRows"
import { Empty } from "./parts/Notice"
import { ProgressBar, readProgress } from "./parts/Progress"
import { StateBadge } from "./parts/StateBadge"
import { Age } from "./parts/Time"
import { to } from "./Route"
import type { Job } from "./Views"

/** Time shown in the list: finished, started or due. */
const lastOf = (job: Job) => job.finishedAt ?? (job.state === "running" ? job.startedAt : job.runAt)

/** The progress of a running job, the error of a failed one, or the payload. */
const Rest = ({ job }: { readonly job: Job }) => {
  const progress = job.state === "running" ? readProgress(job.progress) : undefined
  if (progress !== undefined) return <ProgressBar of={progress} />
  return <div class="cut mono">{job.lastError ?? JSON.stringify(job.payload)}</div>
}

export const JobTable = (props: {
  readonly rows: ReadonlyArray<Row>
  readonly chosen: ReadonlySet<string>
  /** The id of the job that keys act on. */
  readonly cursor: string | undefined
  readonly onToggle: ((id: string) => void) | undefined
  readonly onToggleAll?: (isChosen: boolean) => void
  readonly empty: string
}) => {
  const { chosen, cursor, onToggle, rows } = props
  if (rows.length === 0) return <Empty>{props.empty}</Empty>
  return (
    <div class="table-wrap">
      <table class="stacked jobs">
        <thead>
          <tr>
            {onToggle === undefined ? null : (
              <th class="pick">
                <input
                  type="checkbox"
                  aria-label="Select all jobs on this page"
                  checked={rows.every(({ gone, job }) => gone || chosen.has(job.id))}
                  onChange={(event) => props.onToggleAll?.(event.currentTarget.checked)}
                />
              </th>
            )}
            <th>State</th>
            <th>Kind</th>
            <th>Queue</th>
            <th class="number">Attempt</th>
            <th>When</th>
            <th>Error or payload</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ gone, job }) => (
            <tr
              key={job.id}
              class={`${job.id === cursor ? "cursor" : ""} ${gone ? "gone" : ""}`}
              title={gone ? "No longer in this list" : undefined}
              aria-selected={chosen.has(job.id)}
            >
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
                <Rest job={job} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
