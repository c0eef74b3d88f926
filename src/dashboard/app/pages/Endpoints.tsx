import { useState } from "preact/hooks"
import * as Api from "../Api"
import { BulkAct } from "../BulkAct"
import { useLiveUpdates } from "../Live"
import { Card } from "../parts/Card"
import { Dialog } from "../parts/Dialog"
import { ErrorText } from "../parts/ErrorText"
import { Facts } from "../parts/Facts"
import { FilterInput, FilterInstant, FilterSelect } from "../parts/Filters"
import { Head } from "../parts/Head"
import { Empty, Shown } from "../parts/Notice"
import { Pager } from "../parts/Pager"
import { StateBadge } from "../parts/StateBadge"
import { Table } from "../parts/Table"
import { Age, Moment } from "../parts/Time"
import { showError, showToast } from "../parts/Toasts"
import { slowPoll, useResource } from "../Resource"
import { type Route, to } from "../Route"
import { useMayAct } from "../Session"
import { announce } from "../Undo"
import type { ActedJob, Endpoint, Job, JobPage } from "../Views"
import { Gone } from "./NotFound"

const Standing = ({ of }: { readonly of: Endpoint }) => (
  <span class={of.standing === "healthy" ? "chip" : "chip bad"}>{of.standing}</span>
)

const reasons = { operator: "by an operator", failing: "after days of failures", gone: "it responded 410 Gone" }

const typesText = ({ types }: Endpoint) => (types === null ? "all types" : types.join(", "))

export const Endpoints = ({ route }: { readonly route: Route }) => {
  const page = useResource<{ endpoints: ReadonlyArray<Endpoint>; next: string | null }>(
    `endpoints${Api.query(Object.fromEntries(route.query))}`,
    { every: slowPoll }
  )
  return (
    <>
      <Head title="Endpoints" />
      <search class="row">
        <FilterInput route={route} name="customer" label="Customer" width="wide" main />
        <FilterSelect route={route} name="standing" label="Standing" options={["healthy", "failing", "disabled"]} />
      </search>
      <Shown of={page}>
        {({ endpoints, next }) => (
          <div class={page.isOther ? "card gone" : "card"}>
            {endpoints.length === 0 ? (
              <Empty>
                {route.query.has("customer") || route.query.has("standing") ? (
                  "No endpoints match this filter."
                ) : (
                  <>
                    No endpoints yet. Create one with <code>shift.endpoints.create</code> or{" "}
                    <code>nightshift endpoints create</code>, to send webhooks to customers.
                  </>
                )}
              </Empty>
            ) : (
              <Table class="stacked endpoints" headings={["Endpoint", "Standing", "Customer", "Types", "Last error"]}>
                {endpoints.map((each) => (
                  <tr key={each.id}>
                    <td class="name">
                      <a href={to(`endpoints/${each.id}`)}>{each.url}</a>
                    </td>
                    <td class="what">
                      <Standing of={each} />
                    </td>
                    <td class="queue" title={each.customer ?? undefined}>
                      {each.customer}
                    </td>
                    <td class="when cut">{typesText(each)}</td>
                    <td class="mono cut rest">{each.lastError}</td>
                  </tr>
                ))}
              </Table>
            )}
            <Pager next={next} route={route} />
          </div>
        )}
      </Shown>
    </>
  )
}

/** The response to a webhook, or the error of its last attempt. */
const responseOf = ({ lastError, result }: Job) => {
  if (lastError !== null) return lastError
  const { millis, response, status } = Object(result)
  return status === undefined ? "" : `${status} in ${millis} ms${response === "" ? "" : `: ${response}`}`
}

/** One webhook, with a button that sends it again. */
const SendRow = ({ job, onChange }: { readonly job: Job; readonly onChange: () => void }) => {
  const mayAct = useMayAct()
  const resend = () =>
    void Api.post<ActedJob>(`jobs/${job.id}/requeue`).then(({ undo }) => {
      const say = undo === null ? showToast : announce
      say("Sent again, with the same id")
      onChange()
    }, showError)
  return (
    <tr>
      <td class="what">
        <StateBadge state={job.state} />
      </td>
      <td class="name">
        <a href={to(`jobs/${job.id}`)}>{String(Object(job.payload).type)}</a>
      </td>
      <td class="number hide-narrow">
        {job.attempt}/{job.attempts}
      </td>
      <td class="when">
        <Age at={job.finishedAt ?? job.startedAt ?? job.createdAt} />
        {job.state === "retrying" ? (
          <>
            , next <Age at={job.runAt} />
          </>
        ) : null}
      </td>
      <td class="mono cut rest">{responseOf(job)}</td>
      <td class="act">
        {mayAct && job.finishedAt !== null ? (
          <button type="button" onClick={resend}>
            Resend
          </button>
        ) : null}
      </td>
    </tr>
  )
}

const sendsEvery = 5_000

/** What was sent to an endpoint, newest first. */
const Sends = ({ id, route }: { readonly id: string; readonly route: Route }) => {
  const { pulse } = useLiveUpdates()
  const query = { kind: "webhook.send", key: id }
  const sends = useResource<JobPage>(`jobs${Api.query({ ...Object.fromEntries(route.query), ...query, limit: 50 })}`, {
    pulse,
    every: sendsEvery
  })
  return (
    <Card
      name="Webhooks"
      content="table"
      chips={
        <a class="small" href={to("jobs", query)}>
          Show as jobs
        </a>
      }
      acts={<FilterInstant route={route} name="since" label="Stored since" />}
    >
      <Shown of={sends}>
        {({ jobs, next }) =>
          jobs.length === 0 ? (
            <Empty>Nothing was sent to this endpoint, or it was deleted by retention.</Empty>
          ) : (
            <>
              <Table
                class="stacked sends"
                headings={[
                  "State",
                  "Type",
                  ["Attempt", "number hide-narrow"],
                  "When",
                  "Response",
                  <th aria-label="Actions" />
                ]}
              >
                {jobs.map((job) => (
                  <SendRow key={job.id} job={job} onChange={sends.reload} />
                ))}
              </Table>
              <Pager next={next} route={route} />
            </>
          )
        }
      </Shown>
    </Card>
  )
}

/** Asks whether to resend what failed. */
const EnableDialog = (props: { readonly onClose: () => void; readonly onEnable: (resend: boolean) => void }) => (
  <Dialog title="Enable endpoint?" onClose={props.onClose}>
    <div class="stack">
      <p>Webhooks that were due while it was disabled have failed. They keep their ids when they are sent again.</p>
      <div class="row actions">
        <button type="button" class="primary" onClick={() => props.onEnable(true)}>
          Enable and resend failed
        </button>
        <button type="button" onClick={() => props.onEnable(false)}>
          Enable only
        </button>
        <button type="button" onClick={props.onClose}>
          Close
        </button>
      </div>
    </div>
  </Dialog>
)

/** One endpoint: its standing, and what was sent to it. */
export const EndpointPage = ({ id, route }: { readonly id: string; readonly route: Route }) => {
  const endpoint = useResource<Endpoint>(`endpoints/${encodeURIComponent(id)}`, { every: sendsEvery })
  const mayAct = useMayAct()
  const [open, setOpen] = useState<"enable" | "resend">()
  const close = () => setOpen(undefined)
  const since = route.query.get("since")
  const enable = (isEnabled: boolean) =>
    Api.post(`endpoints/${id}/${isEnabled ? "enable" : "disable"}`).then(() => {
      showToast(isEnabled ? "Endpoint enabled" : "Endpoint disabled")
      endpoint.reload()
    })
  if (endpoint.error?.status === 404) return <Gone what="endpoint" id={id} list="endpoints" />
  const buttons = ({ standing }: Endpoint) => (
    <>
      <button type="button" onClick={() => setOpen("resend")}>
        Resend failed
      </button>
      {standing === "disabled" ? (
        <button type="button" class="primary" onClick={() => setOpen("enable")}>
          Enable
        </button>
      ) : (
        <button type="button" onClick={() => void enable(false).catch(showError)}>
          Disable
        </button>
      )}
    </>
  )
  return (
    <Shown of={endpoint}>
      {(data) => (
        <>
          <Head title={data.customer ?? "Endpoint"} side={mayAct ? buttons(data) : null}>
            <Standing of={data} />
          </Head>
          {data.lastError === null ? null : <ErrorText class="failure" text={data.lastError} />}
          <Card name="Details" content="body">
            <Facts
              of={[
                ["URL", <span class="mono">{data.url}</span>],
                ["Id", <span class="mono">{data.id}</span>],
                ["Description", data.description === "" ? null : data.description],
                ["Types", typesText(data)],
                ["Created", <Moment at={data.createdAt} />],
                [
                  "Disabled",
                  data.disabledAt === null ? null : (
                    <>
                      <Age at={data.disabledAt} />, {reasons[data.disabledBecause ?? "operator"]}
                    </>
                  )
                ],
                ["Failing since", data.firstFailedAt === null ? null : <Moment at={data.firstFailedAt} />],
                ["Failed attempts", data.failures === 0 ? null : data.failures.toLocaleString()]
              ]}
            />
          </Card>
          <Sends id={id} route={route} />
          {open === "enable" ? (
            <EnableDialog
              onClose={close}
              onEnable={(resend) => void enable(true).then(() => setOpen(resend ? "resend" : undefined), showError)}
            />
          ) : null}
          {open === "resend" ? (
            <BulkAct
              act="requeue"
              target={{
                filter: { kind: "webhook.send", key: id, state: "dead", ...(since === null ? {} : { since }) }
              }}
              note={since === null ? undefined : "Only webhooks that were stored since the time you chose."}
              onClose={close}
              onDone={close}
            />
          ) : null}
        </>
      )}
    </Shown>
  )
}
