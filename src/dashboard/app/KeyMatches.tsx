import { StateBadge } from "./parts/StateBadge"
import { useResource } from "./Resource"
import { to } from "./Route"
import type { Job } from "./Views"

/** Browsers resolve these as steps of a path, so the request would be for all jobs. */
const steps: ReadonlyArray<string> = [".", ".."]

/** Jobs with this id, dedupe key or key. They are found at once, however long the search of all jobs takes. */
export const useKeyMatches = (text: string | undefined): ReadonlyArray<Job> => {
  const path = text === undefined || steps.includes(text) ? undefined : `jobs/find/${encodeURIComponent(text)}`
  const found = useResource<{ jobs: ReadonlyArray<Job> }>(path)
  return path !== undefined && found.path === path ? (found.data?.jobs ?? []) : []
}

/** Jobs with this id, dedupe key or key, above the list of a search. */
export const KeyMatches = ({ text }: { readonly text: string }) => {
  const jobs = useKeyMatches(text)
  if (jobs.length === 0) return null
  return (
    <section class="card" aria-label="Found by id or key">
      <ul class="body small mono">
        {jobs.map(({ id, kind, state }) => (
          <li key={id}>
            <StateBadge state={state} /> {kind} <a href={to(`jobs/${id}`)}>{id}</a>
          </li>
        ))}
      </ul>
    </section>
  )
}
