import * as Api from "../Api"
import { useNews } from "../Live"
import { Empty, Shown } from "../parts/Notice"
import { Age, span, useTick } from "../parts/Time"
import { useResource } from "../Resource"
import { to } from "../Route"
import { bytesText, type Pod, type PodMeasures } from "../Views"

type Measure = PodMeasures["pods"][number]["points"][number]

const PodCard = ({ measure, pod }: { pod: Pod; measure: Measure | undefined }) => (
  <section class="card" aria-label={pod.label ?? pod.id}>
    <header>
      <h2>{pod.label ?? <span class="mono">{pod.id}</span>}</h2>
      {pod.leader ? <span class="chip">leader</span> : null}
      {pod.draining ? <span class="chip">draining</span> : null}
      <span class="quiet small">
        version {pod.version}, host {pod.host.name}, pid {pod.host.pid}, Node {pod.host.node}
      </span>
    </header>
    <div class="body stack">
      <div class="row figures">
        <span>
          started <Age at={pod.startedAt} />
        </span>
        <span>heartbeat {span(pod.heartbeatAgeSeconds)} ago</span>
        {measure === undefined ? null : (
          <>
            <span>CPU {(measure.cpu * 100).toFixed(0)} %</span>
            <span>memory {bytesText(measure.rssBytes)}</span>
            <span>event loop p99 {span(measure.eventLoopDelay.p99)}</span>
            <span>
              {measure.pool.busy} connections busy{measure.pool.waiting > 0 ? `, ${measure.pool.waiting} waiting` : ""}
            </span>
          </>
        )}
      </div>
      <div class="table-wrap">
        <table>
          <thead>
            <tr>
              <th>Queue</th>
              <th class="number">Busy</th>
              <th class="number">Slots</th>
              <th class="number">Target</th>
            </tr>
          </thead>
          <tbody>
            {pod.slots.map((slot) => (
              <tr key={slot.queue}>
                <td>
                  <a href={to("jobs", { queue: slot.queue, state: "running" })}>{slot.queue}</a>
                </td>
                <td class="number">{slot.busy}</td>
                <td class="number">{slot.have}</td>
                <td class="number">{slot.wanted}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div class="quiet small">Kinds: {pod.kinds.join(", ") || "none"}</div>
    </div>
  </section>
)

export const Pods = () => {
  const { pulse } = useNews()
  const pods = useResource<{ pods: ReadonlyArray<Pod>; unservedQueues: ReadonlyArray<string> }>("pods", {
    pulse,
    every: 2_000
  })
  const since = new Date(Math.floor(useTick() / 60_000) * 60_000 - 120_000).toISOString()
  const measures = useResource<PodMeasures>(`metrics/pods${Api.query({ since })}`, { every: 10_000 })
  const lastOf = (id: string) => measures.data?.pods.find(({ pod }) => pod === id)?.points.at(-1)
  return (
    <>
      <div class="head">
        <h1>Pods</h1>
      </div>
      <Shown of={pods}>
        {(data) => (
          <>
            {data.unservedQueues.length === 0 ? null : (
              <div class="warning" role="status">
                Jobs are waiting in queues that no live pod serves: {data.unservedQueues.join(", ")}. Add them to
                NIGHTSHIFT_QUEUES of a pod.
              </div>
            )}
            {data.pods.length === 0 ? (
              <Empty>No pods are running. Start one with nightshift serve.</Empty>
            ) : (
              <div class="grid pods">
                {data.pods.map((pod) => (
                  <PodCard key={pod.id} pod={pod} measure={lastOf(pod.id)} />
                ))}
              </div>
            )}
          </>
        )}
      </Shown>
    </>
  )
}
