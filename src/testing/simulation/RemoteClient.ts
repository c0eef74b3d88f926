import { Duration, Effect, Exit, Option } from "effect"
import * as Outcome from "../../core/Outcome.js"
import type { ClaimedJob } from "../../queue/Queue.js"
import type { RemoteEnd, RemoteWorkers } from "../../worker/remote/RemoteWorkers.js"
import type { HistoryChecker } from "./HistoryChecker.js"
import type { Step } from "./Plan.js"
import type { SimulatedPod } from "./SimulatedPod.js"
import * as Workload from "./Workload.js"

type Service = typeof RemoteWorkers.Service
type Work = Pick<Extract<Step, { readonly _tag: "Work" }>, "nth" | "pod" | "how">

const mostJobs = 2
const maxClaims = 2
const wait = Duration.seconds(4)
/** Before the heartbeat of an attempt, and after it. */
const half = "1200 millis"
/** How long a late worker waits for another one to get its job: the job is rescued, and faults are over, before. */
const lateMillis = 22_000
const lookMillis = 1_000
const between = "900 millis"

/** A remote worker: claims jobs from one pod, and sends heartbeats and ends to that pod or to the next ones. */
export class RemoteClient<R> {
  private readonly name: string
  private readonly about: Parameters<Service["finish"]>[0]

  constructor(
    private readonly pods: ReadonlyArray<SimulatedPod<R>>,
    private readonly checker: HistoryChecker,
    private readonly step: Work
  ) {
    this.name = `worker-${step.nth}`
    this.about = { caller: "sim", id: this.name, name: this.name, runtime: undefined, host: undefined, pid: undefined }
  }

  /** Claims until it gets jobs, at most `maxClaims` times, and does with them what the plan says. */
  get work(): Effect.Effect<void> {
    return Effect.gen(this, function* () {
      for (let nth = 0; nth < maxClaims; nth += 1) if (yield* this.workOnce) return
    })
  }

  /** Returns whether there were jobs. */
  private get workOnce(): Effect.Effect<boolean> {
    return Effect.gen(this, function* () {
      const pod = this.pods.find(({ name }) => name === this.step.pod)
      if (pod === undefined) return true
      while (!pod.isServing) yield* Effect.sleep(between)
      const who = pod.processName ?? ""
      const answer = yield* pod.work((remote, ends) =>
        remote.claim({
          worker: this.about,
          queues: [Workload.remoteQueue],
          kinds: [Workload.kinds.remote],
          max: mostJobs,
          wait,
          ends
        })
      )
      // Without a response, the jobs wait until they are rescued.
      if (Option.isNone(answer) || Exit.isFailure(answer.value)) return yield* Effect.as(Effect.sleep(between), false)
      const jobs = answer.value.value
      this.note(`has claimed ${jobs.length} jobs`, ...jobs)
      yield* Effect.forEach(jobs, (job) => this.run(who, job), { concurrency: "unbounded", discard: true })
      return jobs.length > 0
    })
  }

  /** Runs count as runs of the process that claimed the job. */
  private run(who: string, job: ClaimedJob): Effect.Effect<void> {
    const { how } = this.step
    return Effect.gen(this, function* () {
      const ended = this.checker.began(who, job.id)
      yield* how === "is late" ? this.untilTaken(job) : Effect.sleep(half)
      if (how === "dies" || how === "returns") {
        ended("was interrupted")
        if (how === "returns") return yield* this.finish(job, "returned")
        return this.note(`dies with ${this.checker.trace.nameOf(job.id)}`, job)
      }
      // One that is late does not ask whether it still holds the job.
      const isStopped = how !== "is late" && (yield* this.isStopped(job))
      if (isStopped) {
        ended("was interrupted")
        return yield* this.finish(job, Outcome.cancelled)
      }
      if (how !== "is late") yield* Effect.sleep(half)
      ended(how === "fails" ? "failed" : "returned")
      const outcome = how === "fails" ? Outcome.retry("on purpose") : Outcome.done({ by: this.name })
      const again = how === "finishes twice" ? [this.finish(job, outcome, 1)] : []
      yield* Effect.all([this.finish(job, outcome), ...again], { concurrency: "unbounded", discard: true })
    })
  }

  /** Waits until another worker runs the job. */
  private untilTaken({ id, lease }: ClaimedJob): Effect.Effect<void> {
    const { rows } = this.checker.history
    return Effect.gen(function* () {
      for (let waited = 0; waited < lateMillis; waited += lookMillis) {
        const run = rows.get(id)?.run
        if (run !== undefined && run.lease !== lease) return
        yield* Effect.sleep(lookMillis)
      }
    })
  }

  private isStopped(job: ClaimedJob): Effect.Effect<boolean> {
    const beat = { id: job.id, lease: job.lease, deadline: job.startedAt + Duration.toMillis("1 hour") }
    return Effect.map(
      this.untilAnswered(0, (remote) => remote.heartbeat(this.about, [beat])),
      ({ stop }) => stop.length > 0
    )
  }

  /** Ends an attempt, through a pod that is `further` than the one with the claim. */
  private finish(job: ClaimedJob, outcome: RemoteEnd["outcome"], further = 0): Effect.Effect<void> {
    const { history, trace } = this.checker
    const end = { id: job.id, lease: job.lease, outcome, log: [] }
    const did = outcome === "returned" ? "returns" : "finishes"
    return Effect.map(
      this.untilAnswered(further, (remote) => remote.finish(this.about, [end])),
      ([status]) => {
        const said = status === undefined ? "lease lost" : status
        this.note(`${did} ${trace.nameOf(job.id)}${further > 0 ? " and again" : ""}: ${said}`, job)
        const written = `${trace.nameOfLease(job.lease)}) -> `
        const isWritten = trace.about(job.id).some(({ what }) => what.includes(written) && what.includes(" by "))
        if (status !== undefined && !isWritten)
          history.report(
            "remote end",
            job.id,
            `is ${status} by ${this.name}, whose ${written.slice(0, -5)} did not end it`
          )
      }
    )
  }

  /** Sends a request to one pod after another until one answers. */
  private untilAnswered<A, E>(further: number, request: (remote: Service) => Effect.Effect<A, E>): Effect.Effect<A> {
    const first = this.pods.findIndex(({ name }) => name === this.step.pod) + further
    return Effect.gen(this, function* () {
      for (let turn = first; ; turn += 1) {
        const answer = yield* this.pods[turn % this.pods.length]?.work(request) ?? Effect.succeedNone
        if (Option.isSome(answer) && Exit.isSuccess(answer.value)) return answer.value.value
        yield* Effect.sleep(between)
      }
    })
  }

  private note(what: string, ...jobs: ReadonlyArray<ClaimedJob>): void {
    this.checker.trace.note(
      this.name,
      what,
      jobs.map(({ id }) => id)
    )
  }
}
