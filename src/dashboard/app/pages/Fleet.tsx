import { useEffect, useState } from "preact/hooks"
import * as Api from "../Api"
import * as Incidents from "../Incidents"
import { FleetCharts } from "../JobCharts"
import { Head } from "../parts/Head"
import { Empty, Shown } from "../parts/Notice"
import { rateText } from "../parts/Sparkline"
import { StateBadge } from "../parts/StateBadge"
import { Table } from "../parts/Table"
import { Age } from "../parts/Time"
import { Trend } from "../parts/Trend"
import { idlePoll, useResource } from "../Resource"
import { to } from "../Route"
import { useAt } from "../Session"
import { type DeadGroup, type Fleet as FleetView, type Job, type JobPage, stateCount, states } from "../Views"

// All cells of the fleet. The service asks the other cells; one that does not respond keeps its last figures, in grey.

/** Milliseconds between two requests of the overview. */
const every = 5_000

type Cell = FleetView["cells"][number]

/** Incidents that are always shown. */
const maxIncidents = 3

const CellIncidents = ({
  cell,
  figures
}: {
  readonly cell: string
  readonly figures: NonNullable<Cell["figures"]>
}) => {
  const at = useAt()
  const known = {
    queues: figures.notableQueues,
    warnings: figures.warnings,
    groups: figures.groups as ReadonlyArray<DeadGroup>,
    sampled: figures.sampled
  }
  const nothing = { series: undefined, pods: undefined, running: undefined, retrying: undefined }
  const incidents = Incidents.of({ ...known, ...nothing, uploads: undefined, database: undefined }, Date.now()).filter(
    (incident) => Incidents.snoozeOf(incident, figures.snoozes) === undefined
  )
  if (incidents.length === 0) return <span class="state done">No incidents</span>
  const hidden = incidents.length - maxIncidents
  return (
    <ul class="incidents">
      {incidents.slice(0, maxIncidents).map(({ href, key, text }) => (
        <li key={key}>
          <a href={at(cell, href)}>{text}</a>
        </li>
      ))}
      {hidden > 0 ? <li class="quiet">{hidden} more</li> : null}
    </ul>
  )
}

const CellCard = ({ cell, own }: { readonly cell: Cell; readonly own: boolean }) => {
  const { at: readAt, failure, figures, name } = cell
  const at = useAt()
  const all = figures === null ? [] : [{ counts: figures.counts }]
  return (
    <section class={failure === null ? "card cell" : "card cell unknown"} aria-label={`Cell ${name}`}>
      <header>
        <h2>
          <a href={at(name, to("overview"))}>{name}</a>
        </h2>
        {own ? <span class="chip">this service</span> : null}
        {figures === null ? null : (
          <span class="quiet small side">
            {figures.processes} {figures.processes === 1 ? "process" : "processes"}
            {figures.versions.length === 0 ? "" : `, ${figures.versions.join(" and ")}`}
          </span>
        )}
      </header>
      <div class="body stack">
        {failure === null ? null : (
          <div class="small" role="status">
            <strong>
              {readAt === null ? (
                "No figures yet."
              ) : (
                <>
                  No answer. Figures of <Age at={readAt} />.
                </>
              )}
            </strong>{" "}
            {failure}
          </div>
        )}
        {figures === null ? (
          failure === null ? (
            <span class="quiet">Waiting for its figures…</span>
          ) : null
        ) : (
          <>
            <dl class="counts">
              {states.map((state) => (
                <div key={state}>
                  <dt>
                    <StateBadge state={state} />
                  </dt>
                  <dd>{stateCount(all, state)}</dd>
                </div>
              ))}
            </dl>
            <div class="row small">
              <span>{figures.throughput === null ? "–" : rateText(figures.throughput)} done</span>
              <Trend label="Done jobs" values={figures.history.points.map(({ completed }) => completed)} />
              {figures.oldestDueAt === null ? null : (
                <span>
                  oldest due <Age at={figures.oldestDueAt} />
                </span>
              )}
            </div>
            <CellIncidents cell={name} figures={figures} />
          </>
        )}
      </div>
    </section>
  )
}

/** Jobs of each cell in a merged list. */
const perCell = 10

interface Listed {
  readonly jobs: ReadonlyArray<Job & { readonly cell: string }>
  /** Cells that did not answer. */
  readonly missing: ReadonlyArray<string>
}

/** The newest jobs of all cells. Each cell has its own request, and a slow one does not delay the others. */
const useNewestJobs = (cells: ReadonlyArray<string>, state: string): Listed => {
  const [listed, setListed] = useState<Readonly<Record<string, ReadonlyArray<Job> | null>>>({})
  useEffect(() => {
    const control = new AbortController()
    setListed({})
    const load = (cell: string) =>
      Api.get<JobPage>(
        `cells/${encodeURIComponent(cell)}/jobs${Api.query({ state, limit: perCell })}`,
        control.signal
      ).then(
        ({ jobs }) => setListed((known) => ({ ...known, [cell]: jobs })),
        () => control.signal.aborted || setListed((known) => ({ ...known, [cell]: null }))
      )
    const loadAll = () => document.visibilityState === "visible" && cells.map(load)
    loadAll()
    const timer = setInterval(loadAll, idlePoll / 4)
    return () => {
      clearInterval(timer)
      control.abort()
    }
  }, [cells.join(" "), state])
  return {
    jobs: cells
      .flatMap((cell) => (listed[cell] ?? []).map((job) => ({ ...job, cell })))
      .sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1)),
    missing: cells.filter((cell) => listed[cell] === null)
  }
}

const NewestJobs = ({ cells }: { readonly cells: ReadonlyArray<string> }) => {
  const at = useAt()
  const [state, setState] = useState("")
  const { jobs, missing } = useNewestJobs(cells, state)
  return (
    <section class="card" aria-label="Newest jobs of all cells">
      <header>
        <h2>Newest jobs of all cells</h2>
        <span class="quiet small">up to {perCell} of each cell</span>
        <select
          class="side"
          aria-label="State of the jobs"
          value={state}
          onChange={(event) => setState(event.currentTarget.value)}
        >
          <option value="">all states</option>
          {states.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      </header>
      {missing.length === 0 ? null : <p class="quiet small note">Without {missing.join(", ")}: no answer.</p>}
      {jobs.length === 0 ? (
        <Empty>{state === "" ? "No jobs in any cell." : `No ${state} jobs in any cell.`}</Empty>
      ) : (
        <Table class="stacked jobs plain" headings={["State", "Kind", "Queue", "Cell", "Created"]}>
          {jobs.map(({ cell, createdAt, id, kind, queue, state: of }) => (
            <tr key={id}>
              <td class="what">
                <StateBadge state={of} />
              </td>
              <td class="name">
                <a href={at(cell, to(`jobs/${id}`))}>{kind}</a>
              </td>
              <td>{queue}</td>
              <td>
                <a href={at(cell, to("jobs"))}>{cell}</a>
              </td>
              <td class="when">
                <Age at={createdAt} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </section>
  )
}

export const Fleet = () => {
  const overview = useResource<FleetView>("fleet", { every })
  return (
    <>
      <Head title="Fleet" />
      <Shown of={overview}>
        {({ cell: own, cells, history }) =>
          own === null ? (
            <Empty>This service is not part of a fleet. Start it with --cell to see the other cells.</Empty>
          ) : (
            <>
              <div class="grid">
                {cells.map((cell) => (
                  <CellCard key={cell.name} cell={cell} own={cell.name === own} />
                ))}
              </div>
              {history === null ? null : <FleetCharts history={history} />}
              <NewestJobs cells={cells.map(({ name }) => name)} />
            </>
          )
        }
      </Shown>
    </>
  )
}
