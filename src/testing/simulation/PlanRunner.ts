import { Cause, Clock, Context, Duration, Effect, Exit, Fiber, Option } from "effect"
import { Pods } from "../../cluster/Pods.js"
import { type JobId, makeGenerator } from "../../core/Ids.js"
import type { InvalidJob } from "../../core/InvalidJob.js"
import { digestOf } from "../../database/SubjectText.js"
import * as Eraser from "../../erasure/Eraser.js"
import { type Received, WebhookIntake, type WebhookIntakeError } from "../../gateway/WebhookIntake.js"
import { Events } from "../../queue/events/Events.js"
import { JobAdmin } from "../../queue/JobAdmin.js"
import type { NewJob } from "../../queue/NewJob.js"
import { Queue } from "../../queue/Queue.js"
import { type QueueSettingsPatch, Queues } from "../../queue/settings/QueueSettings.js"
import { Workflows } from "../../queue/workflow/Workflows.js"
import { Schedules } from "../../schedule/Schedules.js"
import { Storage } from "../../uploads/Storage.js"
import { ExecutionClient, untilReachable } from "./ExecutionClient.js"
import type { Plan, Step } from "./Plan.js"
import { described } from "./PlanText.js"
import { RemoteClient } from "./RemoteClient.js"
import type { SimulatedPod, Site } from "./SimulatedPod.js"
import type { Ports } from "./Tables.js"
import * as WorkflowWorkload from "./WorkflowWorkload.js"
import * as Workload from "./Workload.js"

/** Creates a job when its enqueue step runs. */
export type JobSource = Effect.Effect<NewJob, InvalidJob>

export interface PlanRunnerOptions<R> {
  readonly site: Site<R>
  /** The services as clients and operators see them, with faults. */
  readonly ports: Context.Context<Ports>
  readonly pods: ReadonlyMap<string, SimulatedPod<R>>
  readonly jobs: ReadonlyArray<JobSource>
}

/** Time in which pods that were frozen apply the requests that they received before. */
const lateRequests = "1 second"

/** Runs a plan: enqueues jobs, performs operator actions and injects pod faults. */
export class PlanRunner<R> {
  private readonly named = new Map<number, JobId>()

  constructor(private readonly options: PlanRunnerOptions<R>) {}

  /** Applies the queue settings before the run starts. */
  setUp(queues: Readonly<Record<string, QueueSettingsPatch>>): Effect.Effect<void> {
    const port = Context.get(this.options.ports, Queues)
    const each = ([name, patch]: readonly [string, QueueSettingsPatch]) => untilReachable(port.change(name, patch))
    return Effect.zipRight(
      untilReachable(port.declare(Object.keys(queues))),
      Effect.forEach(Object.entries(queues), each, { discard: true })
    ).pipe(Effect.orDie)
  }

  /** Schedules all steps. Returns an effect that completes when all are done. */
  begin({ steps }: Plan): Effect.Effect<Effect.Effect<void>> {
    return Effect.gen(this, function* () {
      const ids = yield* makeGenerator
      const fibers = yield* Effect.forEach(steps, (step) =>
        Effect.fork(
          Effect.zipRight(
            Effect.sleep(step.at),
            Effect.suspend(() => this.carryOut(step, ids.job))
          )
        )
      )
      return Effect.asVoid(Fiber.joinAll(fibers))
    })
  }

  /** Pauses all schedules: a queue that keeps getting new jobs never drains. */
  endSchedules(names: ReadonlyArray<string>): Effect.Effect<void> {
    const schedules = Context.get(this.options.ports, Schedules)
    const pause = (name: string) => untilReachable(schedules.edit(name, { paused: true }))
    // The schedule does not exist if no pod lived long enough to declare it.
    return Effect.forEach(names, (name) => Effect.ignore(pause(name)), { discard: true })
  }

  /**
   * Resumes the queues that were paused through a pod. A frozen pod may apply the request when it continues, long after
   * the operator has resumed the queue.
   */
  endPauses({ steps }: Plan): Effect.Effect<void> {
    const queues = Context.get(this.options.ports, Queues)
    const paused = steps.flatMap((step) => (step._tag === "PauseQueue" && step.pod !== undefined ? [step.queue] : []))
    if (paused.length === 0) return Effect.void
    const resume = (queue: string) => untilReachable(queues.change(queue, { paused: false }))
    return Effect.zipRight(
      Effect.sleep(lateRequests),
      Effect.forEach(new Set(paused), (queue) => Effect.ignore(resume(queue)), { discard: true })
    )
  }

  /** Lets every release run the executions that are pinned to a release without a process, as `doctor` advises. */
  get endPins(): Effect.Effect<void> {
    const { pods, site } = this.options
    const { live } = Context.get(site.tables, Pods)
    const { pins, unpin } = Context.get(this.options.ports, Workflows)
    const all = [...pods.values()]
    return Effect.gen(function* () {
      while (all.some(({ id }) => id === undefined)) yield* Effect.sleep("1 second")
      const serving = (yield* live(Duration.days(1))).filter(({ id }) => all.some((pod) => pod.id === id))
      for (const { release, workflow } of yield* untilReachable(pins))
        if (!serving.some(({ releases }) => releases[workflow] === release)) yield* untilReachable(unpin({ release }))
    }).pipe(Effect.orDie)
  }

  /** Runs the jobs of remote workers until it is interrupted. */
  get workRemotely(): Effect.Effect<never> {
    const { pods, site } = this.options
    const all = [...pods.values()]
    const turn = (nth: number) => {
      const pod = all[nth % all.length]?.name ?? ""
      return new RemoteClient(all, site.checker, { nth: 0, pod, how: "finishes" }).work
    }
    return Effect.iterate(0, {
      while: () => true,
      body: (nth) => Effect.as(turn(nth), nth + 1)
    }) as Effect.Effect<never>
  }

  private carryOut(step: Step, newId: (now: number) => JobId): Effect.Effect<void> {
    const { pods, site } = this.options
    const { faults, checker } = site
    if (step._tag !== "Enqueue") checker.trace.note("plan", described(step))
    switch (step._tag) {
      case "Enqueue":
        return this.withMail(
          step.nth,
          step.pod === undefined ? this.enqueue(step.nth, newId) : this.enqueueThrough(step.pod, step.nth)
        )
      case "Deliver":
        return this.deliver(step.nth)
      case "Upload":
        return this.upload(step.nth, step.pod)
      case "Publish":
        return this.publish(step.nth, step.pod)
      case "Work":
        return new RemoteClient([...pods.values()], checker, step).work
      case "SkewClock":
        return Effect.sync(() => {
          checker.history.clockSteps += 1
          site.scheduler.server.mislead(step.pod, step.millis)
        })
      case "Cancel":
      case "Requeue":
      case "RunNow":
        return this.operate(step._tag, step.nth, step.pod)
      case "Erase":
        return this.erase(step.nth, step.pod)
      case "Kill":
        return Effect.sync(() => pods.get(step.pod)?.kill("is killed", step.lockedMillis))
      case "LoseLock":
        return Effect.sync(() => pods.get(step.pod)?.loseLock(step.millis))
      case "Stop":
        return Effect.sync(() => pods.get(step.pod)?.stop())
      case "Freeze": {
        const pod = pods.get(step.pod)
        return Effect.sync(() => pod?.freeze()).pipe(
          Effect.zipRight(Effect.sleep(step.millis)),
          Effect.zipRight(Effect.sync(() => pod?.thaw()))
        )
      }
      case "Disconnect":
        return Effect.sync(() => faults.disconnect(step.pod)).pipe(
          Effect.zipRight(Effect.sleep(step.millis)),
          Effect.zipRight(Effect.sync(() => faults.reconnect(step.pod)))
        )
      case "StepClock":
        return Effect.sync(() => {
          checker.history.clockSteps += 1
          site.scheduler.server.step(step.millis)
        })
      case "PauseQueue":
        return this.pause(step.queue, step.millis, step.pod)
    }
  }

  /** Enqueues with a client-generated id, so that a retry after a lost reply is idempotent. */
  private enqueue(nth: number, newId: (now: number) => JobId): Effect.Effect<void> {
    const { jobs, ports, site } = this.options
    const { history, trace } = site.checker
    return Effect.gen(this, function* () {
      const supply = jobs[nth - 1]
      if (supply === undefined) return
      const job = yield* supply
      const id = job.id ?? newId(yield* Clock.currentTimeMillis)
      const [answer] = yield* untilReachable(Context.get(ports, Queue).enqueue([{ ...job, id }]))
      if (answer === undefined) return
      this.named.set(nth, answer.id)
      history.acknowledged.add(answer.id)
      trace.note(
        "client",
        `#${nth} is ${trace.nameOf(answer.id)}${answer.outcome === "deduplicated" ? " already" : ""}`,
        [answer.id]
      )
    }).pipe(
      Effect.catchAll((error) => Effect.sync(() => trace.note("client", `#${nth} is rejected: ${error.message}`)))
    )
  }

  /** Does what clients do with an execution, if the job is one. */
  private withMail(nth: number, enqueue: Effect.Effect<void>): Effect.Effect<void> {
    const { jobs, ports, site } = this.options
    return Effect.gen(function* () {
      const job = yield* Effect.option(jobs[nth - 1] ?? Effect.dieMessage(`there is no job ${nth}`))
      const mail = Option.isSome(job) ? WorkflowWorkload.mailTo(site.seed, job.value) : undefined
      if (mail === undefined) return yield* enqueue
      const client = new ExecutionClient(Context.get(ports, Workflows), site.checker.history, site.faults)
      yield* client.correspond(mail, enqueue)
    })
  }

  /** Enqueues by a single request to a pod. Without a response the job may or may not exist, so it is not sent again. */
  private enqueueThrough(name: string, nth: number): Effect.Effect<void> {
    const { jobs, pods, site } = this.options
    const { history, trace } = site.checker
    return Effect.gen(this, function* () {
      const job = yield* jobs[nth - 1] ?? Effect.die(`there is no job ${nth}`)
      const pod = pods.get(name)
      if (pod === undefined) return
      // A refused connection can be retried safely.
      while (!pod.isServing) yield* Effect.sleep("700 millis")
      const answer = yield* pod.request(Effect.flatMap(Queue, (queue) => queue.enqueue([job])))
      const id = Option.isSome(answer) && Exit.isSuccess(answer.value) ? answer.value.value[0]?.id : undefined
      if (id === undefined) return trace.note("client", `#${nth} got no answer from ${name}`)
      this.named.set(nth, id)
      history.acknowledged.add(id)
      trace.note("client", `#${nth} is ${trace.nameOf(id)}`, [id])
    }).pipe(
      Effect.catchAll((error) => Effect.sync(() => trace.note("client", `#${nth} is rejected: ${error.message}`)))
    )
  }

  /** Sends a webhook to one pod after another until one accepts it, then once more, as senders do. */
  private deliver(nth: number): Effect.Effect<void> {
    const { pods, site } = this.options
    const { history, trace } = site.checker
    const delivery = { id: `delivery-${nth}`, event: undefined, body: { n: nth } }
    const send = Effect.flatMap(WebhookIntake, (intake) =>
      Effect.async<Received, WebhookIntakeError>((resume) => intake.deliver(Workload.shop, delivery, resume))
    )
    return Effect.gen(function* () {
      const all = [...pods.values()]
      for (let turn = nth, accepted = 0; accepted < 2; turn += 1) {
        const answer = yield* all[turn % all.length]?.request(send) ?? Effect.succeedNone
        const received = Option.isSome(answer) && Exit.isSuccess(answer.value) ? answer.value.value : undefined
        if (received?._tag === "Stored" || received?._tag === "Duplicate") {
          accepted += 1
          history.delivered.set(delivery.id, received.job)
          history.acknowledged.add(received.job)
          trace.note("sender", `${delivery.id} is ${received._tag}: ${trace.nameOf(received.job)}`, [received.job])
        }
        yield* Effect.sleep("1700 millis")
      }
    })
  }

  /** Stores a file, fetches it and acknowledges it. Every second file is left in the inbox. */
  private upload(nth: number, pod: string | undefined): Effect.Effect<void> {
    const { history, trace } = this.options.site.checker
    const file = { filename: `${nth}.txt`, mimetype: "text/plain", content: new Uint8Array([nth]) }
    const send = <A, E extends { readonly _tag: string }>(
      request: (storage: typeof Storage.Service) => Effect.Effect<A, E>
    ) => this.untilAnswered(pod, Effect.flatMap(Storage, request))
    return Effect.gen(function* () {
      const id = yield* send((storage) => storage.put(Workload.workspace, file))
      history.uploads.set(id, "stored")
      trace.note("client", `file ${nth} is stored`)
      yield* Effect.sleep("1 second")
      yield* send((storage) => storage.get(Workload.workspace, id))
      yield* send((storage) => storage.markFetched(Workload.workspace, id))
      if (nth % 2 === 0) return
      history.uploads.set(id, "acked")
      // If only the reply was lost, the sweeper may have deleted the acknowledged file since.
      yield* send((storage) =>
        Effect.catchTag(storage.ack(Workload.workspace, id), "UploadNotFound", () => Effect.void)
      )
      trace.note("client", `file ${nth} is acknowledged`)
    }).pipe(Effect.orDie)
  }

  /** Publishes an event until a pod answers, and once more: a publisher may repeat a call that succeeded. */
  private publish(nth: number, pod: string): Effect.Effect<void> {
    const { history, trace } = this.options.site.checker
    const event = { name: Workload.event, data: { n: nth }, id: `event-${nth}` }
    const send = this.untilAnswered(
      pod,
      Effect.flatMap(Events, (events) => events.publish([event]))
    )
    return Effect.gen(function* () {
      yield* send
      history.published.set(event.id, nth)
      trace.note("client", `${event.id} is published`)
      yield* send
    }).pipe(Effect.orDie)
  }

  /**
   * Erases a subject until nothing is left, or the faults end: then its executions may wait for the end of a pause or a pin. What
   * was stored before the last request is erased when that says so.
   */
  private erase(nth: number, pod: string | undefined): Effect.Effect<void> {
    const { history, trace } = this.options.site.checker
    const subject = Workload.subjectOf(nth)
    const request = Eraser.erase(subject, { running: "cancel", who: "operator" })
    return Effect.gen(this, function* () {
      for (let isDone = false; !isDone; ) {
        const before = history.unerased(digestOf(subject))
        isDone = (yield* this.untilAnswered(pod, request)).done
        const after = new Set(isDone ? history.unerased(digestOf(subject)) : [])
        for (const job of before)
          if (after.has(job)) history.report("erased", job, "is not erased, but its erasure ended")
        trace.note("client", `subject ${nth} is ${isDone ? "erased" : "not erased yet"}`)
        if (!isDone && this.options.site.faults.areOver) return
        yield* Effect.sleep(isDone ? 0 : "900 millis")
      }
    }).pipe(Effect.orDie)
  }

  /** Erases the subjects again after all jobs have ended: nothing can store more of them. */
  endErasures({ steps }: Plan): Effect.Effect<void> {
    const { history } = this.options.site.checker
    const subjects = steps.flatMap((step) => (step._tag === "Erase" ? [step.nth] : []))
    const each = (nth: number) =>
      Effect.map(this.erase(nth, undefined), () => {
        for (const job of history.unerased(digestOf(Workload.subjectOf(nth))))
          history.report("erased", job, "has ended and cannot be erased")
      })
    return Effect.forEach(subjects, each, { discard: true })
  }

  private operate(act: "Cancel" | "Requeue" | "RunNow", nth: number, pod: string | undefined): Effect.Effect<void> {
    const id = this.named.get(nth)
    if (id === undefined) return Effect.void
    return this.once(pod, JobAdmin, (jobAdmin) => {
      const acts = { Cancel: jobAdmin.cancel, Requeue: jobAdmin.requeue, RunNow: jobAdmin.runNow }
      return acts[act](id)
    })
  }

  /** Sends one request through a pod, or on the client's own connection, and ignores the answer. */
  private once<I extends Ports, S, A, E>(
    name: string | undefined,
    tag: Context.Tag<I, S>,
    request: (service: S) => Effect.Effect<A, E>
  ): Effect.Effect<void> {
    const { pods, ports } = this.options
    const pod = name === undefined ? undefined : pods.get(name)
    return pod === undefined
      ? Effect.ignore(request(Context.get(ports, tag)))
      : Effect.asVoid(pod.request(Effect.flatMap(tag, request)))
  }

  /** Sends a request to one pod after another until one answers, or on the client's own connection. */
  private untilAnswered<A, E extends { readonly _tag: string }>(
    first: string | undefined,
    request: Effect.Effect<A, E, Ports>
  ): Effect.Effect<A, E> {
    const { pods, ports } = this.options
    const all = [...pods.values()]
    const start = all.findIndex(({ name }) => name === first)
    if (start < 0) return untilReachable(Effect.provide(request, ports))
    return Effect.gen(function* () {
      for (let turn = start; ; turn += 1) {
        const answer = yield* all[turn % all.length]?.request(request) ?? Effect.succeedNone
        const error = Option.flatMap(answer, Exit.causeOption).pipe(Option.flatMap(Cause.failureOption))
        if (Option.isSome(answer) && Exit.isSuccess(answer.value)) return answer.value.value
        if (Option.isSome(error) && error.value._tag !== "DatabaseUnavailable") return yield* Effect.fail(error.value)
        yield* Effect.sleep("900 millis")
      }
    })
  }

  private pause(queue: string, millis: number, pod: string | undefined): Effect.Effect<void> {
    const queues = Context.get(this.options.ports, Queues)
    return this.once(pod, Queues, (queues) => queues.change(queue, { paused: true })).pipe(
      Effect.zipRight(Effect.sleep(millis)),
      Effect.zipRight(Effect.ignore(untilReachable(queues.change(queue, { paused: false }))))
    )
  }
}
