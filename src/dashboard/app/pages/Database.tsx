import * as Api from "../Api"
import { Card } from "../parts/Card"
import { Chart } from "../parts/Chart"
import { Head } from "../parts/Head"
import { Shown } from "../parts/Notice"
import { RangeButtons, useAddressRange } from "../parts/Range"
import { Table } from "../parts/Table"
import { Tiles } from "../parts/Tile"
import { span } from "../parts/Time"
import { useResource } from "../Resource"
import { brief, bytesText, type DatabaseHealth } from "../Views"
import { useChanges } from "../WhatChanged"

/** Seconds after which an open transaction is reported because it blocks vacuum. */
const longTransaction = 300

export const Database = () => {
  const range = useAddressRange()
  const health = useResource<DatabaseHealth>(`metrics/database${Api.query(range.query)}`)
  const changes = useChanges(range)
  return (
    <>
      <Head title="Database" side={<RangeButtons range={range} />} />
      <Shown of={health}>
        {({ now, points, replica, statements }) => (
          <>
            {now.oldestTransactionSeconds < longTransaction ? null : (
              <div class="warning" role="status">
                A transaction has been open for {span(now.oldestTransactionSeconds)}: vacuum cannot remove rows deleted
                since then.
              </div>
            )}
            {replica === null || replica.unused === null ? null : (
              <div class="warning" role="status">
                Lists and charts use the primary: the replica at {replica.address} {replica.unused}.
              </div>
            )}
            <Tiles
              of={[
                [bytesText(now.sizeBytes), "database"],
                [bytesText(now.jobBytes), "job table"],
                [brief(now.jobLiveTuples), "live rows"],
                [brief(now.jobDeadTuples), "dead rows"],
                [span(now.oldestTransactionSeconds), "oldest transaction"],
                [String(now.connections), "connections"],
                [statements.p50 === null ? "–" : span(statements.p50), "statement p50"],
                [statements.p99 === null ? "–" : span(statements.p99), "statement p99"],
                ...(replica === null
                  ? []
                  : [[replica.lagSeconds === null ? "–" : span(replica.lagSeconds), "replica lag"] as const])
              ]}
            />
            <Card name="Dead rows in the job table" content="body">
              <Chart
                label="Dead rows"
                times={points.map(({ at }) => Date.parse(at) / 1000)}
                lines={[
                  { label: "dead rows", colour: "--dead", values: points.map(({ jobDeadTuples }) => jobDeadTuples) }
                ]}
                format={brief}
                marks={changes?.changes}
                onZoom={range.zoom}
              />
            </Card>
            {now.blockers.length === 0 ? null : (
              <Card name="Vacuum blockers" content="table">
                <Table headings={["Type", "Name", "User", "Application", "State", ["Age", "number"]]}>
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
                </Table>
              </Card>
            )}
          </>
        )}
      </Shown>
    </>
  )
}
