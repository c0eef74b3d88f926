import { StateBadge } from "./parts/StateBadge"
import { useResource } from "./Resource"
import { to } from "./Route"
import type { Job } from "./Views"

/** Jobs with this id, dedupe key or key. They are found at once, however long the search of all jobs takes. */
export const KeyMatches = ({ text }: { readonly text: string }) => {
  const { data } = useResource<{ jobs: ReadonlyArray<Job> }>(`jobs/find/${encodeURIComponent(text)}`)
  if (data === undefined || data.jobs.length === 0) return null
  return (
    <section class="card" aria-label="Found by id or key">
      <ul class="body small mono">
        {data.jobs.map(({ id, kind, state }) => (
          <li key={id}>
            <StateBadge state={state} /> {kind} <a href={to(`jobs/${id}`)}>{id}</a>
          </li>
        ))}
      </ul>
    </section>
  )
}
