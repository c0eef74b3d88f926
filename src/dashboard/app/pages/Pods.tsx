import * as Api from "../Api"
import { KindLink, PodLink, QueueLink } from "../Links"
import { useLiveUpdates } from "../Live"
import { podName, rememberPods } from "../PodNames"
import { Card } from "../parts/Card"
import { Head } from "../parts/Head"
import { Empty, Shown } from "../parts/Notice"
import { ProgressBar, readProgress } from "../parts/Progress"
import { Table } from "../parts/Table"
import { Age, Elapsed, span, useTick } from "../parts/Time"
import { useResource } from "../Resource"
import { to } from "../Route"
import { bytesText, type Job, type JobPage, type Pod, type PodMeasures } from "../Views"

type Measure = PodMeasures["pods"][number]["points"][number]

/** Maximum number of running jobs that the page loads, longest running first. */
const maxRunningJobs = 200

/** Seconds. A pod beats every second; a later beat means a blocked event loop or a lost connection. */
const lateBeat = 5
/** Seconds. The service writes the heartbeats of remote workers every five seconds. */
const lateRemoteBeat = 12

/** Seconds. A smaller offset does not matter. */
const offClock = 1

const RunsFor = ({ since }: { readonly since: string | null }) => (since === null ? <>–</> : <Elapsed from={since} />)

/** Jobs in the slots of a pod, longest running first. */
const Slots = ({ jobs, pod, total }: { pod: Pod; jobs: ReadonlyArray<Job> | undefined; total: number }) => (
  <div class="table-wrap">
    <Table
      class="slots"
      headings={[
        ["Queue", "first"],
        ["Busy", "number"],
        ["Slots", "number"],
        ["Target", "number"]
      ]}
    >
      {pod.slots.map((slot) => (
        <tr key={slot.queue}>
          <td>
            <QueueLink name={slot.queue} />
          </td>
          <td class="number">{slot.busy}</td>
          <td class="number">{slot.have}</td>
          <td class="number">{slot.wanted}</td>
        </tr>
      ))}
    </Table>
    {jobs === undefined || jobs.length === 0 ? (
      <p class="quiet small none">{jobs === undefined ? "Loading running jobs…" : "No running jobs."}</p>
    ) : (
      <Table
        class="slots"
        label="Running jobs"
        headings={[["Running", "first"], "Queue", ["Attempt", "number"], ["For", "number"]]}
      >
        {jobs.map((job) => {
          const progress = readProgress(job.progress)
          return (
            <tr key={job.id}>
              <td>
                <a href={to(`jobs/${job.id}`)}>{job.kind}</a>
                {job.cancelRequestedAt === null ? null : <span class="chip">stopping</span>}
                {progress === undefined ? null : <ProgressBar of={progress} />}
              </td>
              <td>{job.queue}</td>
              <td class="number">
                {job.attempt}/{job.attempts}
              </td>
              <td class="number">
                <RunsFor since={job.startedAt} />
              </td>
            </tr>
          )
        })}
      </Table>
    )}
    {jobs === undefined || jobs.length >= total ? null : (
      <p class="quiet small none">
        {total - jobs.length} more. <a href={to("jobs", { pod: pod.id, state: "running" })}>Show all</a>
      </p>
    )}
  </div>
)

const PodCard = (props: {
  readonly pod: Pod
  readonly measure: Measure | undefined
  readonly jobs: ReadonlyArray<Job> | undefined
}) => {
  const { jobs, measure, pod } = props
  const offset = pod.clockOffsetSeconds ?? 0
  return (
    <Card
      name={podName(pod.id)}
      title={<PodLink id={pod.id} />}
      chips={
        <>
          {pod.leader ? <span class="chip">leader</span> : null}
          {pod.remote ? <span class="chip">remote</span> : null}
          {pod.draining ? <span class="chip">draining</span> : null}
          {pod.heartbeatAgeSeconds >= (pod.remote ? lateRemoteBeat : lateBeat) ? (
            <span class="chip bad">heartbeat late</span>
          ) : null}
          {Math.abs(offset) >= offClock ? (
            <span class="chip bad">
              clock {Math.abs(offset)} s {offset > 0 ? "behind" : "ahead"}
            </span>
          ) : null}
          <span class="quiet small">
            version {pod.version}, host {pod.host.name}, pid {pod.host.pid}, {pod.remote ? "" : "Node "}
            {pod.host.node}
          </span>
        </>
      }
    >
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
              {measure.pool.busy} connections busy
              {measure.pool.waiting > 0 ? `, ${measure.pool.waiting} waiting` : ""}
            </span>
          </>
        )}
      </div>
      <Slots pod={pod} jobs={jobs} total={pod.runningJobs} />
      <div class="quiet small">
        Kinds:{" "}
        {pod.kinds.length === 0
          ? "none"
          : pod.kinds.map((kind, place) => (
              <span key={kind}>
                {place === 0 ? "" : ", "}
                <KindLink name={kind} />
              </span>
            ))}
      </div>
    </Card>
  )
}

/** A pod that has stopped, or lost its connection. */
const GonePod = ({ id, jobs }: { readonly id: string; readonly jobs: ReadonlyArray<Job> }) => (
  <Card name={podName(id)} title={<PodLink id={id} />} chips={<span class="chip bad">no heartbeat</span>}>
    <p>
      {jobs.length === 0
        ? "This process is not running. "
        : `This process sends no heartbeat, but ${jobs.length === 1 ? "a job is" : `${jobs.length} jobs are`} still running in it. Unless the process resumes, ${jobs.length === 1 ? "the job is" : "they are"} returned to the queue a minute after its last heartbeat. `}
      <a href={to("jobs", { pod: id })}>Completed jobs</a>
    </p>
    {jobs.length === 0 ? null : (
      <ul class="small">
        {jobs.map((job) => (
          <li key={job.id}>
            <a href={to(`jobs/${job.id}`)}>{job.kind}</a> for <RunsFor since={job.startedAt} />
          </li>
        ))}
      </ul>
    )}
  </Card>
)

/** The running jobs of all pods or of one, longest running first. */
export const runningPath = (pod?: string): string =>
  `jobs${Api.query({ state: "running", sort: "when", order: "asc", limit: maxRunningJobs, pod })}`

/** Maximum number of queues without a process that the page names. */
const maxUnserved = 8

const Unserved = ({ queues }: { readonly queues: ReadonlyArray<string> }) => (
  <>
    {queues.slice(0, maxUnserved).map((name, place) => (
      <span key={name}>
        {place === 0 ? "" : ", "}
        <QueueLink name={name} />
      </span>
    ))}
    {queues.length <= maxUnserved ? null : (
      <>
        {" "}
        and <a href={to("queues", { state: "without a process" })}>{queues.length - maxUnserved} more</a>
      </>
    )}
  </>
)

/** All pods, or one. */
export const Pods = ({ id }: { readonly id?: string | undefined }) => {
  const { pulse } = useLiveUpdates()
  const pods = useResource<{ pods: ReadonlyArray<Pod>; unservedQueues: ReadonlyArray<string> }>("pods", {
    pulse,
    every: 2_000
  })
  const running = useResource<JobPage>(runningPath(id), { pulse, every: 5_000 })
  const since = new Date(Math.floor(useTick() / 60_000) * 60_000 - 120_000).toISOString()
  const measures = useResource<PodMeasures>(`metrics/pods${Api.query({ since })}`, { every: 10_000 })
  const latestSample = (pod: string) => measures.data?.pods.find((each) => each.pod === pod)?.points.at(-1)
  const jobsOf = (pod: string) => running.data?.jobs.filter((job) => job.pod === pod)
  return (
    <>
      <Head title={id === undefined ? "Processes" : "Process"}>
        {id === undefined ? null : (
          <>
            <span class="quiet mono">{id}</span>
            <a class="small" href={to("pods")}>
              All processes
            </a>
          </>
        )}
      </Head>
      <Shown of={pods}>
        {(data) => {
          rememberPods(data.pods)
          const shown = data.pods.filter((pod) => id === undefined || pod.id === id)
          const live = new Set(data.pods.map((pod) => pod.id))
          const gone = new Set(
            (running.data?.jobs ?? []).flatMap(({ pod }) => (pod === null || live.has(pod) ? [] : [pod]))
          )
          if (id !== undefined && !live.has(id)) gone.add(id)
          return (
            <>
              {id !== undefined || data.unservedQueues.length === 0 ? null : (
                <div class="warning" role="status">
                  Jobs are waiting in queues that no live process serves: <Unserved queues={data.unservedQueues} />. Add
                  them to <code>NIGHTSHIFT_QUEUES</code> of a process.
                </div>
              )}
              {shown.length + gone.size === 0 ? (
                <Empty>No processes are running. Start one with nightshift serve.</Empty>
              ) : (
                <div class="pods">
                  {[...gone].map((pod) => (
                    <GonePod key={pod} id={pod} jobs={jobsOf(pod) ?? []} />
                  ))}
                  {shown.map((pod) => (
                    <PodCard key={pod.id} pod={pod} measure={latestSample(pod.id)} jobs={jobsOf(pod.id)} />
                  ))}
                </div>
              )}
            </>
          )
        }}
      </Shown>
    </>
  )
}
