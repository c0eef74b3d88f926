import { useState } from "preact/hooks"
import { BulkAct } from "./BulkAct"
import { Age } from "./parts/Time"
import { useResource } from "./Resource"
import { to } from "./Route"
import { useMayAct } from "./Session"
import { brief } from "./Views"

interface Group {
  readonly kind: string
  readonly deadReason: string
  readonly shape: string
  readonly count: number
  readonly firstAt: string
  readonly lastAt: string
  readonly sample: { readonly id: string; readonly error: string | null }
  readonly filter: Readonly<Record<string, unknown>>
}

/** Dead jobs by what they died of, each group with a way back to life. */
export const DeadGroups = ({ onDone, pulse }: { readonly onDone: () => void; readonly pulse: number }) => {
  const mayAct = useMayAct()
  const groups = useResource<{ groups: ReadonlyArray<Group>; looked: number; sampled: boolean }>("jobs/groups", {
    pulse
  })
  const [asked, setAsked] = useState<Group>()
  if (groups.data === undefined || groups.data.groups.length === 0) return null
  return (
    <section class="card" aria-label="Causes of death">
      <header>
        <h2>Causes</h2>
        {groups.data.sampled ? <span class="quiet small">of the newest {brief(groups.data.looked)}</span> : null}
      </header>
      <div class="table-wrap">
        <table>
          <thead>
            <tr>
              <th class="number">Jobs</th>
              <th>Kind</th>
              <th>Reason</th>
              <th>Error</th>
              <th>Last</th>
              <th aria-label="Acts" />
            </tr>
          </thead>
          <tbody>
            {groups.data.groups.map((group) => (
              <tr key={`${group.kind} ${group.deadReason} ${group.shape}`}>
                <td class="number">{brief(group.count)}</td>
                <td>{group.kind}</td>
                <td>{group.deadReason}</td>
                <td class="rest">
                  <a class="cut mono" href={to(`jobs/${group.sample.id}`)}>
                    {group.shape === "" ? "no error" : group.shape}
                  </a>
                </td>
                <td>
                  <Age at={group.lastAt} />
                </td>
                <td>
                  {mayAct ? (
                    <button type="button" onClick={() => setAsked(group)}>
                      Requeue all
                    </button>
                  ) : null}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {asked === undefined ? null : (
        <BulkAct
          act="requeue"
          target={{ filter: asked.filter }}
          onClose={() => setAsked(undefined)}
          onDone={() => {
            setAsked(undefined)
            groups.reload()
            onDone()
          }}
        />
      )}
    </section>
  )
}
