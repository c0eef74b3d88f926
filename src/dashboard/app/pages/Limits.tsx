import * as Api from "../Api"
import { DraftInput } from "../parts/DraftInput"
import { Head } from "../parts/Head"
import { Empty, Shown } from "../parts/Notice"
import { Table } from "../parts/Table"
import { Age } from "../parts/Time"
import { showError, showToast } from "../parts/Toasts"
import { useResource } from "../Resource"
import { useMayAct } from "../Session"
import type { Limit } from "../Views"

/** Rounds to three decimals: 5000 per hour is 1.3888… per second. */
const shown = (value: number) => Math.round(value * 1_000) / 1_000

const LimitRow = ({ limit, onChange }: { limit: Limit; onChange: () => void }) => {
  const mayAct = useMayAct()
  const path = `limits/${encodeURIComponent(limit.scope)}`
  const act = (sent: Promise<unknown>, said: string) =>
    sent.then(() => {
      showToast(said)
      onChange()
    }, showError)
  const number = (field: "capacity" | "rate") =>
    mayAct ? (
      <DraftInput
        type="number"
        label={`${field} of ${limit.scope}`}
        width="short"
        value={String(shown(limit[field]))}
        onGive={(text) => void act(Api.patch(path, { [field]: Number(text) }), `${limit.scope} changed`)}
      />
    ) : (
      shown(limit[field])
    )
  return (
    <tr>
      <td class="name">
        {limit.scope} {limit.tuned ? <span class="chip">changed</span> : null}
      </td>
      <td class="number" data-label="Tokens">
        {Math.floor(limit.tokens * 10) / 10}
      </td>
      <td class="number" data-label="Capacity">
        {number("capacity")}
      </td>
      <td class="number" data-label="Per second">
        {number("rate")}
      </td>
      <td data-label="Empty until">
        <Age at={limit.dryUntil} />
      </td>
      <td class="act">
        {mayAct ? (
          <div class="row">
            <button
              type="button"
              title="Remove all tokens: handlers wait until new ones are added"
              onClick={() => void act(Api.post(`${path}/drain`), `${limit.scope} drained`)}
            >
              Drain
            </button>
            {limit.tuned ? (
              <button
                type="button"
                onClick={() =>
                  void act(Api.patch(path, { capacity: null, rate: null }), `${limit.scope} reset to code`)
                }
              >
                Reset to code
              </button>
            ) : null}
          </div>
        ) : null}
      </td>
    </tr>
  )
}

export const Limits = () => {
  const limits = useResource<{ limits: ReadonlyArray<Limit> }>("limits", { every: 3_000 })
  return (
    <>
      <Head title="Limits" />
      <Shown of={limits}>
        {(data) => (
          <div class="card">
            {data.limits.length === 0 ? (
              <Empty>No rate limits. Declare one in code with RateLimit.make.</Empty>
            ) : (
              <Table
                class="stacked limits"
                headings={[
                  "Scope",
                  ["Tokens", "number"],
                  ["Capacity", "number"],
                  ["Per second", "number"],
                  "Empty until",
                  <th aria-label="Actions" />
                ]}
              >
                {data.limits.map((limit) => (
                  <LimitRow key={limit.scope} limit={limit} onChange={limits.reload} />
                ))}
              </Table>
            )}
          </div>
        )}
      </Shown>
    </>
  )
}
