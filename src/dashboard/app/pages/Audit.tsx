import * as Api from "../Api"
import { DraftInput } from "../parts/DraftInput"
import { Json } from "../parts/Json"
import { Empty, Shown } from "../parts/Notice"
import { Pager } from "../parts/Pager"
import { Age } from "../parts/Time"
import { useResource } from "../Resource"
import { type Route, refine } from "../Route"

interface Entry {
  readonly id: string
  readonly at: string
  readonly who: string
  readonly act: string
  readonly target: string
  readonly reason: string | null
  readonly before: unknown
  readonly after: unknown
}

const fields = [
  ["who", "Who"],
  ["act", "Act, as job or job.cancel"],
  ["target", "Id or name of what was changed"]
] as const

/** Who changed what, when and why. */
export const Audit = ({ route }: { readonly route: Route }) => {
  const query = Object.fromEntries(route.query)
  const page = useResource<{ entries: ReadonlyArray<Entry>; next: string | null }>(`audit${Api.query(query)}`)
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
              <Empty>Nobody has changed anything that fits.</Empty>
            ) : (
              <div class="table-wrap">
                <table>
                  <thead>
                    <tr>
                      <th>When</th>
                      <th>Who</th>
                      <th>Act</th>
                      <th>What</th>
                      <th>Reason</th>
                      <th>Before and after</th>
                    </tr>
                  </thead>
                  <tbody>
                    {data.entries.map((entry) => (
                      <tr key={entry.id}>
                        <td>
                          <Age at={entry.at} />
                        </td>
                        <td>{entry.who}</td>
                        <td>{entry.act}</td>
                        <td class="mono cut">{entry.target}</td>
                        <td>{entry.reason}</td>
                        <td>
                          <details>
                            <summary>show</summary>
                            <Json label="before" value={entry.before} />
                            <Json label="after" value={entry.after} />
                          </details>
                        </td>
                      </tr>
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
