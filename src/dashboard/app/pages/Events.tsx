import * as Api from "../Api"
import { KindLink } from "../Links"
import { Card } from "../parts/Card"
import { Facts } from "../parts/Facts"
import { FilterInput } from "../parts/Filters"
import { Head } from "../parts/Head"
import { Json } from "../parts/Json"
import { Empty, Shown } from "../parts/Notice"
import { Pager } from "../parts/Pager"
import { StateBadge } from "../parts/StateBadge"
import { Table } from "../parts/Table"
import { Age, Moment } from "../parts/Time"
import { showError, showToast } from "../parts/Toasts"
import { useResource } from "../Resource"
import { type Route, to } from "../Route"
import { useMayAct } from "../Session"
import type { EventDetails, PublishedEvent } from "../Views"
import { Gone } from "./NotFound"

/** The job of one subscriber, with a button that sends the event again. */
const JobRow = (props: {
  readonly event: string
  readonly job: EventDetails["jobs"][number]
  readonly onChange: () => void
}) => {
  const { events, id, isOpen, replayed, state, subscriber } = props.job
  const mayAct = useMayAct()
  const replay = () =>
    void Api.post(`published/${props.event}/replay`, { subscriber }).then(() => {
      showToast(`Replayed to ${subscriber}`)
      props.onChange()
    }, showError)
  return (
    <tr>
      <td class="name">
        <KindLink name={subscriber} /> {replayed ? <span class="chip">replay</span> : null}
        {events > 1 ? <span class="chip">{events} events</span> : null}
      </td>
      <td class="what">
        {state === null ? (
          <span class="quiet">{isOpen ? "waits for further events" : "no job"}</span>
        ) : (
          <StateBadge state={state} />
        )}
      </td>
      <td class="mono cut rest">{state === null ? null : <a href={to(`jobs/${id}`)}>{id}</a>}</td>
      <td class="act">
        {mayAct && !replayed ? (
          <button type="button" title={`Enqueue another job of this event for ${subscriber}`} onClick={replay}>
            Replay
          </button>
        ) : null}
      </td>
    </tr>
  )
}

/** One event: its data, who received it, and the state of each job. */
export const Event = ({ id }: { readonly id: string }) => {
  const event = useResource<EventDetails>(`published/${encodeURIComponent(id)}`, { every: 3_000 })
  if (event.error?.status === 404) return <Gone what="event" id={id} list="events" />
  return (
    <Shown of={event}>
      {(data) => (
        <>
          <Head title={data.name} />
          <Card name="Details" content="body">
            <Facts
              of={[
                ["Published", <Moment at={data.publishedAt} />],
                ["Id", <span class="mono">{data.id}</span>],
                ["Publisher's id", data.ownId],
                ["Key", data.key]
              ]}
            />
          </Card>
          <Card name="Subscribers" content="table">
            {data.jobs.length === 0 ? (
              <Empty>No subscribers. A process with on(event, …) adds them when it starts.</Empty>
            ) : (
              <Table class="stacked subscribers" headings={["Subscriber", "State", "Job", <th aria-label="Actions" />]}>
                {data.jobs.map((job) => (
                  <JobRow key={job.id} event={id} job={job} onChange={event.reload} />
                ))}
              </Table>
            )}
          </Card>
          <Card name="Data">
            <Json label="Data" value={data.data} />
          </Card>
        </>
      )}
    </Shown>
  )
}

export const Events = ({ route }: { readonly route: Route }) => {
  const query = Object.fromEntries(route.query)
  const page = useResource<{ events: ReadonlyArray<PublishedEvent>; next: string | null }>(
    `published${Api.query(query)}`,
    { every: 3_000 }
  )
  return (
    <>
      <Head title="Events" />
      <search class="row">
        <FilterInput route={route} name="name" label="Name of the event" width="wide" main />
      </search>
      <Shown of={page}>
        {(data) => (
          <div class={page.isOther ? "card gone" : "card"}>
            {data.events.length === 0 ? (
              <Empty>
                {query.name === undefined ? (
                  <>
                    No events yet. Publish one with <code>shift.publish</code> or <code>nightshift publish</code>.
                  </>
                ) : (
                  "No events match this filter."
                )}
              </Empty>
            ) : (
              <Table class="stacked events" headings={["Event", "Publisher's id", "Key", "Published", "Data"]}>
                {data.events.map((event) => (
                  <tr key={event.id}>
                    <td class="name">
                      <a href={to(`events/${event.id}`)}>{event.name}</a>
                    </td>
                    <td class="what">{event.ownId}</td>
                    <td class="queue">{event.key}</td>
                    <td class="when">
                      <Age at={event.publishedAt} />
                    </td>
                    <td class="mono cut rest">{JSON.stringify(event.data)}</td>
                  </tr>
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
