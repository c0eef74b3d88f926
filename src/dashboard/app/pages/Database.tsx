import * as Api from "../Api"
import { Chart } from "../parts/Chart"
import { Shown } from "../parts/Notice"
import { RangeButtons, useAddressRange } from "../parts/Range"
import { span } from "../parts/Time"
import { useResource } from "../Resource"
import { brief, bytesText, type DatabaseHealth } from "../Views"

/** Seconds after which an open transaction is reported because it blocks vacuum. */
const longTransaction = 300

const Tile = ({ label, value }: { label: string; value: string }) => (
  <div class="card tile">
    <div class="figure">{value}</div>
    <span class="quiet">{label}</span>
  </div>
)

export const Database = () => {
  const range = useAddressRange()
  const health = useResource<DatabaseHealth>(`metrics/database${Api.query(range.query)}`)
  return (
    <>
      <div class="head">
        <h1>Database</h1>
        <div class="side">
          <RangeButtons range={range} />
        </div>
      </div>
      <Shown of={health}>
        {({ now, points, statements }) => (
          <>
            {now.oldestTransactionSeconds < longTransaction ? null : (
              <div class="warning" role="status">
                A transaction has been open for {span(now.oldestTransactionSeconds)}: vacuum cannot remove rows deleted
                since then.
              </div>
            )}
            <div class="tiles">
              <Tile label="database" value={bytesText(now.sizeBytes)} />
              <Tile label="job table" value={bytesText(now.jobBytes)} />
              <Tile label="live rows" value={brief(now.jobLiveTuples)} />
              <Tile label="dead rows" value={brief(now.jobDeadTuples)} />
              <Tile label="oldest transaction" value={span(now.oldestTransactionSeconds)} />
              <Tile label="connections" value={String(now.connections)} />
              <Tile label="statement p50" value={statements.p50 === null ? "–" : span(statements.p50)} />
              <Tile label="statement p99" value={statements.p99 === null ? "–" : span(statements.p99)} />
            </div>
            <section class="card">
              <header>
                <h2>Dead rows in the job table</h2>
              </header>
              <div class="body">
                <Chart
                  label="Dead rows"
                  times={points.map(({ at }) => Date.parse(at) / 1000)}
                  lines={[
                    { label: "dead rows", colour: "--dead", values: points.map(({ jobDeadTuples }) => jobDeadTuples) }
                  ]}
                  format={brief}
                  onZoom={range.zoom}
                />
              </div>
            </section>
            {now.blockers.length === 0 ? null : (
              <section class="card">
                <header>
                  <h2>Vacuum blockers</h2>
                </header>
                <div class="table-wrap">
                  <table>
                    <thead>
                      <tr>
                        <th>Type</th>
                        <th>Name</th>
                        <th>User</th>
                        <th>Application</th>
                        <th>State</th>
                        <th class="number">Age</th>
                      </tr>
                    </thead>
                    <tbody>
                      {now.blockers.map((blocker) => (
                        <tr key={blocker.name}>
                          <td>{blocker.what}</td>
                          <td class="mono">{blocker.name}</td>
                          <td>{blocker.user}</td>
                          <td>{blocker.application}</td>
                          <td>{blocker.state}</td>
                          <td class="number">{blocker.seconds === null ? "–" : span(blocker.seconds)}</td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                </div>
              </section>
            )}
          </>
        )}
      </Shown>
    </>
  )
}
