import * as Api from "./Api"
import { asRows } from "./HeldRows"
import { JobTable } from "./JobTable"
import { useLiveUpdates } from "./Live"
import { Card } from "./parts/Card"
import { Shown } from "./parts/Notice"
import { slowPoll, useResource } from "./Resource"
import { to } from "./Route"
import type { JobPage } from "./Views"

/** A short list of jobs, with a link to all of them. */
export const SomeJobs = (props: {
  readonly title: string
  readonly query: Readonly<Record<string, string>>
  /** Whether to reload on every event; false for expensive queries. */
  readonly live?: boolean
  /** Maximum number of jobs. [8] */
  readonly limit?: number
  readonly empty: string
}) => {
  const { pulse } = useLiveUpdates()
  const page = useResource<JobPage>(`jobs${Api.query({ ...props.query, limit: props.limit ?? 8 })}`, {
    ...(props.live === false ? {} : { pulse }),
    every: slowPoll
  })
  return (
    <Card
      name={props.title}
      content="table"
      chips={
        <a class="small" href={to("jobs", props.query)}>
          Show all
        </a>
      }
    >
      <Shown of={page}>
        {({ jobs, sortedAmong }) => (
          <>
            {sortedAmong === null ? null : (
              <p class="quiet small note">Among the newest {sortedAmong.toLocaleString()} jobs.</p>
            )}
            <JobTable rows={asRows(jobs)} empty={props.empty} />
          </>
        )}
      </Shown>
    </Card>
  )
}
