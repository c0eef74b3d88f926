import { Card, Fold } from "../parts/Card"
import { Head } from "../parts/Head"
import { Empty, Shown } from "../parts/Notice"
import { StateBadge } from "../parts/StateBadge"
import { Table } from "../parts/Table"
import { Age } from "../parts/Time"
import { useResource } from "../Resource"
import { type Route, refine, to } from "../Route"
import { type Bot, brief, type Delivery, type Source } from "../Views"

const DeliveryTable = ({ deliveries }: { readonly deliveries: ReadonlyArray<Delivery> }) =>
  deliveries.length === 0 ? (
    <Empty>No deliveries yet. They appear here as they arrive.</Empty>
  ) : (
    <Table class="stacked deliveries" headings={["First seen", "Delivery", "Redelivered", "Outcome", "Job"]}>
      {deliveries.map(({ firstSeenAt, id, job, lastSeenAt, outcome, redelivered }) => (
        <tr key={id}>
          <td class="when">
            <Age at={firstSeenAt} />
          </td>
          <td class="mono cut name">{id}</td>
          <td class="again">
            {redelivered === 0 ? (
              "–"
            ) : (
              <>
                {redelivered}×, last <Age at={lastSeenAt} />
              </>
            )}
          </td>
          <td class="queue">{outcome}</td>
          <td class="what">
            {job === null ? (
              <span class="quiet">none</span>
            ) : (
              <a href={to(`jobs/${job.id}`)}>{job.state === null ? "job" : <StateBadge state={job.state} />}</a>
            )}
          </td>
        </tr>
      ))}
    </Table>
  )

const Deliveries = ({ path }: { readonly path: string }) => {
  const log = useResource<{ deliveries: ReadonlyArray<Delivery>; complete: boolean }>(`${path}/deliveries`, {
    every: 3_000
  })
  return (
    <Shown of={log}>
      {({ complete, deliveries }) => (
        <>
          {complete ? null : (
            <div class="warning" role="status">
              The job query timed out. This list shows only the deliveries that this process remembers.
            </div>
          )}
          <DeliveryTable deliveries={deliveries} />
        </>
      )}
    </Shown>
  )
}

const outcomesOf = (counts: Bot["counts"]) => Object.entries(counts).sort(([, left], [, right]) => right - left)

/** Card of a bot or webhook source: its settings, counts and deliveries. */
const HookCard = (props: {
  readonly route: Route
  readonly name: string
  readonly hook: Pick<Bot, "path" | "counts" | "lastSeenAt">
  /** API path of its deliveries. */
  readonly address: string
  readonly jobs: string | undefined
  readonly chips: ReadonlyArray<string>
  readonly words: string
}) => {
  const { address, chips, hook, jobs, name, route, words } = props
  const isOpen = route.query.get("open") === address
  const counts = outcomesOf(hook.counts)
  return (
    <Card
      name={name}
      chips={chips.map((chip) => (
        <span class="chip" key={chip}>
          {chip}
        </span>
      ))}
      acts={
        <>
          {jobs === undefined ? null : (
            <a class="button" href={jobs}>
              Jobs
            </a>
          )}
          <Fold open={isOpen} turn={(open) => refine(route, { open: open ? address : undefined })}>
            Deliveries
          </Fold>
        </>
      }
    >
      <div class="row figures">
        <code>{hook.path}</code>
        <span class="quiet">{words}</span>
        <span>
          last <Age at={hook.lastSeenAt} />
        </span>
        {counts.map(([outcome, count]) => (
          <span key={outcome}>
            <strong>{brief(count)}</strong> {outcome.replaceAll("_", " ")}
          </span>
        ))}
      </div>
      {isOpen ? <Deliveries path={address} /> : null}
    </Card>
  )
}

const botWords = ({ chatOrder, handler, onError, target, mode }: Bot) => {
  const who = target === null ? `answered by ${handler}` : `answered by ${target}`
  return mode === "async"
    ? `${who} as jobs; order per chat: ${chatOrder}`
    : `${who} in the webhook response. On failure: ${onError === "redeliver" ? "redeliver" : "send an apology"}`
}

export const Bots = ({ route }: { readonly route: Route }) => {
  const hooks = useResource<{ since: string; bots: ReadonlyArray<Bot>; sources: ReadonlyArray<Source> }>("bots", {
    every: 3_000
  })
  return (
    <>
      <Head title="Bots">
        {hooks.data === undefined ? null : (
          <span class="quiet small">
            counts of one process since its start <Age at={hooks.data.since} />
          </span>
        )}
      </Head>
      <Shown of={hooks}>
        {({ bots, sources }) =>
          bots.length + sources.length === 0 ? (
            <Empty>
              No bots or webhook sources. Declare them in <code>bots.yaml</code>, set their secrets in the environment,
              and restart the service.
            </Empty>
          ) : (
            <>
              {bots.map((bot) => (
                <HookCard
                  key={`bot ${bot.slug}`}
                  route={route}
                  name={bot.slug}
                  hook={bot}
                  address={`bots/${encodeURIComponent(bot.slug)}`}
                  jobs={bot.queue === null ? undefined : to("jobs", { queue: bot.queue })}
                  chips={["Telegram", bot.mode, ...(bot.requireAuth ? ["sign-in required"] : [])]}
                  words={botWords(bot)}
                />
              ))}
              {sources.map((source) => (
                <HookCard
                  key={`source ${source.name}`}
                  route={route}
                  name={source.name}
                  hook={source}
                  address={`sources/${encodeURIComponent(source.name)}`}
                  jobs={to("jobs", { kind: source.kind })}
                  chips={["source", `${source.style} signature`]}
                  words={`enqueues ${source.kind} jobs`}
                />
              ))}
            </>
          )
        }
      </Shown>
    </>
  )
}
