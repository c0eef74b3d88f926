import { useState } from "preact/hooks"
import * as Api from "../Api"
import { Fold } from "../parts/Card"
import { DraftInput } from "../parts/DraftInput"
import { Json } from "../parts/Json"
import { Empty, Shown } from "../parts/Notice"
import { Pager } from "../parts/Pager"
import { Age } from "../parts/Time"
import { useResource } from "../Resource"
import { type Route, refine } from "../Route"
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
      <div class="head">
        <h1>Audit</h1>
      </div>
      <search class="row">
        {fields.map(([field, label]) => (
          <DraftInput
            key={field}
            type="search"
            label={label}
            width="wide"
            main={field === "who"}
            value={route.query.get(field) ?? ""}
            onGive={(text) => refine(route, { [field]: text, cursor: undefined })}
          />
        ))}
      </search>
      <Shown of={page}>
        {(data) => (
          <div class="card">
            {data.entries.length === 0 ? (
              <Empty>No audit entries match this filter.</Empty>
            ) : (
              <div class="table-wrap">
                <table class="stacked audit">
                  <thead>
                    <tr>
                      <th>When</th>
                      <th>Who</th>
                      <th>Action</th>
                      <th>Target</th>
                      <th>Reason</th>
                      <th aria-label="Before and after" />
                    </tr>
                  </thead>
                  <tbody>
                    {data.entries.map((entry) => (
                      <Row key={entry.id} entry={entry} />
                    ))}
                  </tbody>
                </table>
              </div>
            )}
            <Pager next={data.next} route={route} />
          </div>
        )}
      </Shown>
    </>
  )
}
