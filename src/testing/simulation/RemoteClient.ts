import { Duration, Effect, Exit, Option } from "effect"
import * as Outcome from "../../core/Outcome.js"
import type { ClaimedJob } from "../../queue/Queue.js"
import type { RemoteWorkers } from "../../worker/remote/RemoteWorkers.js"
import type { HistoryChecker } from "./HistoryChecker.js"
import type { Step } from "./Plan.js"
import type { SimulatedPod } from "./SimulatedPod.js"
import * as Workload from "./Workload.js"

type Service = typeof RemoteWorkers.Service
type Work = Extract<Step, { readonly _tag: "Work" }>

/** Between a heartbeat and the end of a job. */
const half = "1500 millis"
/** Longer than the limit after which a job without a heartbeat is rescued. */
const late = "20 seconds"
const between = "900 millis"

const aboutOf = (id: string) => ({ caller: "sim", id, name: id, runtime: undefined, host: undefined, pid: undefined })

/** A remote worker: claims jobs from one pod, and sends heartbeats and ends to that one or the next. */
export class RemoteClient<R> {
  private readonly name: string

  constructor(
    private readonly pods: ReadonlyArray<SimulatedPod<R>>,
    private readonly checker: HistoryChecker,
    private readonly step: Work
  ) {
    this.name = `worker-${step.nth}`
  }

  /** Claims once, and does with the jobs what the plan says. */
  get work(): Effect.Effect<void> {
    return Effect.gen(this, function* () {
      const pod = this.pods.find(({ name }) => name === this.step.pod)
      if (pod === undefined) return
      while (!pod.isServing) yield* Effect.sleep(between)
      const who = pod.processName
      const answer = yield* pod.work((remote) =>
        remote.claim({
          worker: aboutOf(this.name),
          queues: [Workload.remoteQueue],
          kinds: [Workload.kinds.remote],
          max: 2,
          wait: Duration.seconds(1),
          ends: Effect.never
        })
      )
      // Without a response, the jobs wait until they are rescued.
      const jobs = Option.isSome(answer) && Exit.isSuccess(answer.value) ? answer.value.value : []
      this.note(`has claimed ${jobs.length} jobs`, jobs)
      if (who !== undefined) yield* Effect.forEach(jobs, (job) => this.run(who, job), { concurrency: "unbounded" })
    })
  }

  /** Runs count as runs of the process that claimed the job. */
  private run(who: string, job: ClaimedJob): Effect.Effect<void> {
    const { how } = this.step
    const ended = this.checker.began(who, job.id)
    return Effect.gen(this, function* () {
      yield* Effect.sleep(how === "is late" ? late : half)
      if (how === "dies") {
        ended("was interrupted")
        return this.note("dies", [job])
      }
      if (how !== "is late") {
        yield* this.untilAnswered((remote) => remote.heartbeat(aboutOf(this.name), [{ id: job.id, lease: job.lease }]))
        yield* Effect.sleep(half)
      }
      ended(how === "fails" ? "failed" : "returned")
      yield* this.finish(job)
      if (how === "finishes twice") yield* this.finish(job)
    })
  }

  private finish(job: ClaimedJob): Effect.Effect<void> {
    const outcome = this.step.how === "fails" ? Outcome.retry("on purpose") : Outcome.done({ by: this.name })
    const end = { id: job.id, lease: job.lease, outcome, log: [] }
    return Effect.map(
      this.untilAnswered((remote) => remote.finish(aboutOf(this.name), [end])),
      ([status]) => this.note(`finishes ${this.checker.trace.nameOf(job.id)}: ${status ?? "lease lost"}`, [job])
    )
  }

  /** Sends a request to one pod after another until one answers. */
  private untilAnswered<A, E>(request: (remote: Service) => Effect.Effect<A, E>): Effect.Effect<A> {
    const first = this.pods.findIndex(({ name }) => name === this.step.pod)
    return Effect.gen(this, function* () {
      for (let turn = first; ; turn += 1) {
        const answer = yield* this.pods[turn % this.pods.length]?.work(request) ?? Effect.succeedNone
        if (Option.isSome(answer) && Exit.isSuccess(answer.value)) return answer.value.value
        yield* Effect.sleep(between)
      }
    })
  }

  private note(what: string, jobs: ReadonlyArray<ClaimedJob>): void {
    this.checker.trace.note(
      this.name,
      what,
      jobs.map(({ id }) => id)
    )
  }
}
