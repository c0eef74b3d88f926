import { useLiveUpdates } from "./Live"
import { Shown } from "./parts/Notice"
import { StateBadge } from "./parts/StateBadge"
import { Age, inZone } from "./parts/Time"
import { useResource } from "./Resource"
import { to } from "./Route"
import type { ScheduleHistory, ScheduleRun } from "./Views"

const pathOf = (name: string, what: string) => `schedules/${encodeURIComponent(name)}/${what}`

/** The next runs of a schedule; reloads when the next one changes. */
export const NextRuns = ({ after, name }: { readonly name: string; readonly after: string | null }) => {
  const pulse = after === null ? 0 : Date.parse(after)
  const runs = useResource<{ next: ReadonlyArray<string>; timezone: string }>(pathOf(name, "next"), { pulse })
  return (
    <section aria-label={`Next runs of ${name}`}>
      <h3>{after === null ? "Next runs if resumed" : "Next runs"}</h3>
      <Shown of={runs}>
        {({ next, timezone }) => (
          <ol class="runs">
            {next.map((at) => (
              <li key={at}>
                <span>{inZone(at, timezone)}</span>
                <span class="quiet">
                  <Age at={at} />
                </span>
              </li>
            ))}
          </ol>
        )}
      </Shown>
    </section>
  )
}

const words: Readonly<Record<ScheduleRun["outcome"], string>> = {
  fired: "fired",
  caughtUp: "caught up",
  triggered: "triggered",
  skipped: "skipped: previous job still active",
  missed: "missed"
}

const Run = ({ run, timezone }: { readonly run: ScheduleRun; readonly timezone: string }) => (
  <li class={run.outcome === "missed" || run.outcome === "skipped" ? "lost" : undefined}>
    <span>
      {run.since === run.at ? null : `${inZone(run.since, timezone)} to `}
      {inZone(run.at, timezone)}
    </span>
    <span class="quiet">
      <Age at={run.at} />
    </span>
    <span>
      {words[run.outcome]}
      {run.by === null ? null : ` by ${run.by}`}
    </span>
    {run.jobId === null ? null : run.jobState === null ? (
      <span class="quiet">job deleted</span>
    ) : (
      <a href={to(`jobs/${run.jobId}`)}>
        <StateBadge state={run.jobState} />
      </a>
    )}
  </li>
)

/** The last runs of a schedule. */
export const History = ({ name }: { readonly name: string }) => {
  const { pulse } = useLiveUpdates()
  const history = useResource<ScheduleHistory>(pathOf(name, "history"), { pulse })
  return (
    <section aria-label={`History of ${name}`}>
      <h3>History</h3>
      <Shown of={history}>
        {({ runs, timezone }) =>
          runs.length === 0 ? (
            <div class="quiet small">No runs yet.</div>
          ) : (
            <ol class="runs">
              {runs.map((run) => (
                <Run key={`${run.outcome} ${run.at} ${run.jobId}`} run={run} timezone={timezone} />
              ))}
            </ol>
          )
        }
      </Shown>
    </section>
  )
}
