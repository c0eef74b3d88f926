import { useState } from "preact/hooks"
import { ActionList } from "../Actions"
import * as Api from "../Api"
import { Card, Fold } from "../parts/Card"
import { FilterInput } from "../parts/Filters"
import { Head } from "../parts/Head"
import { Json } from "../parts/Json"
import { Empty, Shown } from "../parts/Notice"
import { Pager } from "../parts/Pager"
import { Table } from "../parts/Table"
import { Age } from "../parts/Time"
import { useResource } from "../Resource"
import type { Route } from "../Route"
import type { AuditEntry } from "../Views"

const fields = [
  ["who", "Who"],
  ["act", "Action, such as job.cancel"],
  ["target", "Target id or name"]
] as const

/** One audit entry, with its changes in a full-width row below. */
const Row = ({ entry }: { readonly entry: AuditEntry }) => {
  const [open, setOpen] = useState(false)
  return (
    <>
      <tr>
        <td class="when">
          <Age at={entry.at} />
        </td>
        <td class="queue">{entry.who}</td>
        <td class="name">{entry.act}</td>
        <td class="mono cut what">{entry.target}</td>
        <td class="last">{entry.reason}</td>
        <td class="act">
          <Fold open={open} turn={setOpen}>
            Changes
          </Fold>
        </td>
      </tr>
      {open ? (
        <tr class="more">
          <td colSpan={6}>
            <div class="grid">
              {(["before", "after"] as const).map((when) => (
                <section key={when} aria-label={when}>
                  <h3>{when === "before" ? "Before" : "After"}</h3>
                  <Json label={when} value={entry[when]} />
                </section>
              ))}
            </div>
          </td>
        </tr>
      ) : null}
    </>
  )
}

export const Audit = ({ route }: { readonly route: Route }) => {
  const query = Object.fromEntries(route.query)
  const page = useResource<{ entries: ReadonlyArray<AuditEntry>; next: string | null }>(`audit${Api.query(query)}`)
  return (
    <>
      <Head title="Audit" />
      {route.query.size > 0 ? null : (
        <Card name="Recent actions" content="table" chips={<span class="quiet small">the last hour</span>}>
          <ActionList limit={10} />
        </Card>
      )}
      <search class="row">
        {fields.map(([field, label]) => (
          <FilterInput key={field} route={route} name={field} label={label} width="wide" main={field === "who"} />
        ))}
      </search>
      <Shown of={page}>
        {(data) => (
          <div class={page.isOther ? "card gone" : "card"}>
            {data.entries.length === 0 ? (
              <Empty>No audit entries match this filter.</Empty>
            ) : (
              <Table
                class="stacked audit"
                headings={["When", "Who", "Action", "Target", "Reason", <th aria-label="Before and after" />]}
              >
                {data.entries.map((entry) => (
                  <Row key={entry.id} entry={entry} />
                ))}
              </Table>
            )}
            <Pager next={data.next} route={route} />
          </div>
        )}
      </Shown>
    </>
  )
}
