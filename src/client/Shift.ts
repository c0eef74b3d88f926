import { Cause, Duration, Effect, Either, Option, Predicate } from "effect"
import { isId, type JobId as StoredId } from "../core/Ids.js"
import type { InvalidJob } from "../core/InvalidJob.js"
import type { StoredJob } from "../core/StoredJob.js"
import { Events } from "../queue/events/Events.js"
import { JobAdmin as JobAdminPort } from "../queue/JobAdmin.js"
import { JobNotFound, ResultTimeout } from "../queue/JobErrors.js"
import * as JobResult from "../queue/JobResult.js"
import { JobLogs } from "../queue/logs/JobLogs.js"
import type { NewJob } from "../queue/NewJob.js"
import { type Enqueued as EnqueueResult, Queue } from "../queue/Queue.js"
import { type EndedJob, JobSearch } from "../queue/search/JobSearch.js"
import type { Why } from "../queue/why/Why.js"
import { Workflows } from "../queue/workflow/Workflows.js"
import { ClusterConfig } from "../worker/ClusterConfig.js"
import { explain } from "../worker/Explain.js"
import * as BatchAdmin from "./BatchAdmin.js"
import * as EndpointAdmin from "./EndpointAdmin.js"
import type { Engine, PgEngine, Ports } from "./Engine.js"
import * as Enqueue from "./Enqueue.js"
import * as Erasing from "./Erasing.js"
import * as Publishing from "./EventDefinition.js"
import { fromCause } from "./FromCause.js"
import * as JobAdmin from "./JobAdmin.js"
import * as JobView from "./JobView.js"
import { checkKnown, durationOf, namesOf, textOf } from "./Options.js"
import * as QueueAdmin from "./QueueAdmin.js"
import * as ScheduleAdmin from "./ScheduleAdmin.js"
import { InvalidOptionError, InvalidResultError } from "./ShiftErrors.js"
import { statementsOf, type Transaction } from "./TransactionAdapter.js"
import * as ExecutionHandle from "./workflow/ExecutionHandle.js"
import * as ExecutionStream from "./workflow/ExecutionStream.js"
import * as StartExecution from "./workflow/StartExecution.js"
import * as WorkflowAdmin from "./workflow/WorkflowAdmin.js"

type ResultOptions = ExecutionHandle.ResultOptions

/** The queue, for programs that use promises. */
export interface Shift {
  /**
   * Stores a job. Calls of the same tick are stored with one statement.
   *
   * @example
   * ```ts
   * import { type Job, type Shift } from "nightshift/client"
   *
   * declare const shift: Shift
   * declare const mail: Job<{ to: string }>
   * const { id } = await shift.enqueue(mail, { to: "ada@example.org" }, { delay: "5m", dedupe: "welcome:ada" })
   * console.log(await shift.result(id, { timeout: "10m" }))
   * ```
   */
  readonly enqueue: Enqueue.EnqueueOne<Enqueue.EnqueueOptions>
  /** Stores up to 1,000 jobs of one kind, all or none. Returns the results in the same order. */
  enqueueMany<In, Result>(
    job: Enqueue.Enqueueable<In, Result>,
    payloads: ReadonlyArray<NoInfer<In>>,
    options?: Enqueue.EnqueueManyOptions<NoInfer<In>>
  ): Promise<ReadonlyArray<Enqueue.Enqueued<Result>>>
  /**
   * Stores an event and one job for each of its subscribers, whichever process declares them. With `tx` they exist once that
   * transaction commits. Rejects with InvalidPayloadError, InvalidOptionError and others.
   */
  readonly publish: Publishing.Publish<Publishing.PublishOptions>
  /** Waits until the job is done and returns its result. Rejects with JobDeadError, JobCancelledError or ResultTimeoutError. */
  result<Result = unknown>(id: string | Enqueue.JobId<Result>, options?: ResultOptions): Promise<Result>
  /** The same for an id that was stored elsewhere: the job gives the result its type and its validator. */
  result<Result>(job: Enqueue.Enqueueable<never, Result>, id: string, options?: ResultOptions): Promise<Result>
  /** The job as it is stored now. Rejects with JobNotFoundError. */
  job(id: string): Promise<JobView.JobView>
  /** Why the job is not running, or its state. */
  why(id: string): Promise<JobView.WhyView>
  /** What the job's handler has logged, by attempt: the last lines of each. Empty if it has logged nothing. Rejects with JobNotFoundError. */
  logs(id: string): Promise<ReadonlyArray<JobView.LogView>>
  /** Cancels a job. A pending job is cancelled immediately; the handler of a running job gets an abort signal. */
  cancel(id: string): Promise<JobView.JobView>
  /** Makes a dead, cancelled or done job pending and due now. Resets its attempts and deletes its result and last error. */
  requeue(id: string): Promise<JobView.JobView>
  /** Find jobs, and act on all that match a filter. */
  readonly jobs: JobAdmin.JobAdmin
  /** Pause, resume and scale queues, and change their limits. */
  readonly queues: QueueAdmin.QueueAdmin
  /** Batches of jobs with a common follow-up. */
  readonly batches: BatchAdmin.BatchAdmin
  /** Create, change, pause and trigger recurring jobs at run time. */
  readonly schedules: ScheduleAdmin.ScheduleAdmin
  /** Endpoints of customers, and webhooks to them. */
  readonly endpoints: EndpointAdmin.EndpointAdmin
  /**
   * Starts an execution of a workflow, or finds the existing one with its key. With `tx` it starts when that transaction
   * commits.
   */
  start<In, Result, Signals, Asks>(
    workflow: ExecutionHandle.Startable<In, Result, Signals, Asks>,
    payload: NoInfer<In>,
    options?: ExecutionHandle.StartOptions
  ): Promise<ExecutionHandle.StartedExecution<Result, Signals, Asks>>
  /**
   * The execution with this key, which may not have started yet. Sends no request. The id of the execution's job works as
   * well, once the execution is stored.
   */
  execution<Result, Signals, Asks>(
    workflow: ExecutionHandle.Startable<never, Result, Signals, Asks>,
    key: string
  ): ExecutionHandle.ExecutionHandle<Result, Signals, Asks>
  /**
   * Erases the data of a subject: what its jobs, executions, events, batches, schedules and uploads hold. Cancels jobs that have
   * not ended, and waits for them up to `deadline`. Call it again if it is not `done`.
   */
  erase(subject: string, options?: Erasing.EraseOptions): Promise<Erasing.ErasedView>
  /** Find executions of workflows, and act on them by their ids. */
  readonly workflows: WorkflowAdmin.WorkflowAdmin
  /** Stops the workers of this shift, then closes its connections. */
  close(): Promise<void>
  /** Calls `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

/** Waits until the job has ended. Returns undefined after the timeout, in milliseconds. @internal */
export type Await = (
  id: StoredId,
  timeout: number | undefined,
  signal: AbortSignal | undefined
) => Promise<EndedJob | undefined>

/** How a shift reads jobs that are not done: on PostgreSQL, or in a test. @internal */
export interface Watching {
  readonly waitFor: Await
  readonly nextPage: ExecutionStream.NextPage
  readonly within: ExecutionHandle.Host["within"]
  readonly explain: (id: StoredId) => Promise<Why>
}

const waitFor =
  ({ wait }: Engine<Ports>): Await =>
  (id, timeout, signal) => {
    const over = Effect.flatMap(JobSearch, (search) => search.awaitEnd(id))
    return wait(
      timeout === undefined ? over : Effect.map(Effect.timeoutOption(over, timeout), Option.getOrUndefined),
      signal
    )
  }

/** Reads jobs from the database. @internal */
export const watching = (engine: PgEngine): Watching => ({
  waitFor: waitFor(engine),
  nextPage: (position, signal) =>
    engine.wait(
      Effect.flatMap(Workflows, ({ streams }) => streams.next(position)),
      signal
    ),
  within: (effect, timeout) => engine.wait(Effect.map(Effect.timeoutOption(effect, timeout), Option.getOrUndefined)),
  explain: (id) => engine.run(Effect.provide(explain(id), ClusterConfig.layer))
})

const resultOptions = namesOf<ResultOptions>({ timeout: 0, signal: 0 })

/** How long to look for the reason of a timeout, in milliseconds. */
const explainFor = 2_000

const idOf = (method: string, id: unknown): StoredId => {
  const text = textOf("id", method, id)
  const given = text.toLowerCase()
  if (!isId(given)) throw fromCause(Cause.fail(new JobNotFound({ id: text })))
  return given as StoredId
}

/** Throws for jobs that cannot be stored. */
const readyOf = <A>(made: Either.Either<A, InvalidJob>): A =>
  Either.getOrThrowWith(made, (error) => fromCause(Cause.fail(error)))

/** Makes a shift on an engine. @internal */
export const make = (
  engine: Engine<Ports>,
  { explain, nextPage, waitFor, within }: Watching,
  close: () => Promise<void>
): Shift => {
  const { clock, run } = engine
  const now = () => clock.unsafeCurrentTimeMillis()
  /** Jobs enqueued here, by name: `result` uses their validators. */
  const known = new Map<string, Enqueue.Enqueueable<never, unknown>>()

  const storeAll = (
    jobs: ReadonlyArray<NewJob>,
    tx: Transaction | undefined
  ): Promise<ReadonlyArray<EnqueueResult>> => {
    if (tx === undefined) return run(Effect.flatMap(Queue, (queue) => queue.enqueue(jobs)))
    const statements = statementsOf(tx)
    return run(Effect.flatMap(Queue, (queue) => queue.enqueueInside(statements, jobs)))
  }

  const newJobs = async <In>(
    job: Enqueue.Enqueueable<In, unknown>,
    payloads: ReadonlyArray<In>,
    options: Parameters<typeof Enqueue.newJobs<In>>[2]
  ): Promise<ReadonlyArray<NewJob>> => {
    Enqueue.checkJob("enqueue", job)
    known.set(job.kind.name, job)
    return readyOf(await Enqueue.newJobs(job, payloads, options, now))
  }

  const storeOne = async <Result>(ready: NewJob, tx: Transaction | undefined): Promise<Enqueue.Enqueued<Result>> => {
    const [enqueued] = await storeAll([ready], tx)
    if (enqueued === undefined) throw fromCause(Cause.die(new Error("the queue returned no result")))
    return Enqueue.enqueuedOf(enqueued)
  }

  // Not an async function: each one and each await costs as much as encoding a payload.
  const enqueue = <In, Result>(
    job: Enqueue.Enqueueable<In, Result>,
    payload: In,
    options: Enqueue.EnqueueOptions = {}
  ): Promise<Enqueue.Enqueued<Result>> => {
    const store = (made: Either.Either<NewJob, InvalidJob>): Promise<Enqueue.Enqueued<Result>> => {
      const ready = readyOf(made)
      return options.tx === undefined && ready.id === undefined
        ? engine.store<Result>(ready)
        : storeOne(ready, options.tx)
    }
    try {
      Enqueue.checkJob("enqueue", job)
      known.set(job.kind.name, job)
      const made = Enqueue.newJob(job, payload, options, now)
      return made instanceof Promise ? made.then(store) : store(made)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  const act = async (
    id: StoredId,
    of: (admin: typeof JobAdminPort.Service) => (id: StoredId) => Effect.Effect<StoredJob, unknown>
  ) => JobView.of(await run(Effect.flatMap(JobAdminPort, (admin) => of(admin)(id))))

  const why = async (id: string) => JobView.whyOf(await explain(idOf("why", id)))

  /** Nothing if the database does not answer: the caller waits for another error. */
  const whyIn = (id: string, millis: number): Promise<JobView.WhyView | undefined> =>
    run(
      Effect.promise(() => why(id).catch(() => undefined)).pipe(
        Effect.timeoutOption(millis),
        Effect.map(Option.getOrUndefined)
      )
    )

  const resultOf = async <Result>(
    id: string,
    options: ResultOptions = {},
    kind: string | undefined = undefined
  ): Promise<Result> => {
    checkKnown(options, resultOptions, "an option of result")
    const { signal, timeout } = options
    const timeoutMillis = timeout === undefined ? undefined : Duration.toMillis(durationOf("timeout", timeout))
    const job = await waitFor(idOf("result", id), timeoutMillis, signal)
    if (job === undefined) {
      const late = new ResultTimeout({ id, timeout: timeoutMillis ?? 0, why: await whyIn(id, explainFor) })
      throw fromCause(Cause.fail(late))
    }
    if (kind !== undefined && kind !== job.kind)
      throw new InvalidOptionError("job", `Job ${id} is of the kind "${job.kind}", not "${kind}".`)
    const value = Either.getOrThrowWith(JobResult.ofEnded(job), (error) => fromCause(Cause.fail(error)))
    const read = await known.get(job.kind)?.readResult(value)
    if (read?.issues !== undefined) throw new InvalidResultError(id, read.issues)
    return (read === undefined ? value : read.value) as Result
  }

  const result = async <Result>(
    first: string | Enqueue.Enqueueable<never, Result>,
    second?: string | ResultOptions,
    third?: ResultOptions
  ): Promise<Result> => {
    if (!Predicate.isObject(first)) return resultOf(first, second as ResultOptions | undefined)
    Enqueue.checkJob("result", first)
    known.set(first.kind.name, first)
    return resultOf(second as string, third, first.kind.name)
  }

  const stream: ExecutionStream.ReadStream = (execution, name, options) =>
    ExecutionStream.make(
      async () => {
        const given = await execution()
        const job = await run(Effect.flatMap(Workflows, ({ streams }) => streams.find(given)))
        return { job, execution: given }
      },
      nextPage,
      name,
      options
    )
  const workflows = WorkflowAdmin.make(engine, stream)
  const host: StartExecution.StartHost = {
    engine,
    admin: workflows,
    stream,
    within,
    result,
    newJob: async (job, payload, options) => {
      const [ready] = await newJobs(job, [payload], options)
      if (ready === undefined) throw fromCause(Cause.die(new Error("no job was created")))
      return ready
    },
    store: engine.store
  }
  const executions: Pick<Shift, "start" | "execution"> = {
    start: (workflow, payload, options = {}) => StartExecution.start(host, workflow, payload, options),
    execution: (workflow, key) => {
      StartExecution.checkWorkflow("execution", workflow)
      return ExecutionHandle.make(host, workflow, key)
    }
  }

  return {
    ...executions,
    workflows,
    enqueue,
    enqueueMany: async (job, payloads, { tx, ...options } = {}) =>
      (await storeAll(await newJobs(job, payloads, options), tx)).map((enqueued) => Enqueue.enqueuedOf(enqueued)),
    publish: Publishing.publishWith(async (event, tx) => {
      const inside = tx === undefined ? undefined : statementsOf(tx)
      const [published] = await run(
        Effect.flatMap(Events, (events) =>
          inside === undefined ? events.publish([event]) : events.publishInside(inside, [event])
        )
      )
      return published as Publishing.PublishedEvent
    }),
    result,
    job: async (id) => JobView.of(await run(Effect.flatMap(JobSearch, (search) => search.get(idOf("job", id))))),
    why,
    logs: async (given) => {
      const id = idOf("logs", given)
      const stored = Effect.flatMap(JobLogs, (logs) => logs.read(id))
      const found = await run(
        Effect.zipRight(
          Effect.flatMap(JobSearch, (search) => search.get(id)),
          stored
        )
      )
      return found.map(JobView.logOf)
    },
    cancel: async (id) => act(idOf("cancel", id), (admin) => admin.cancel),
    requeue: async (id) => act(idOf("requeue", id), (admin) => admin.requeue),
    jobs: JobAdmin.make(engine),
    queues: QueueAdmin.make(engine),
    batches: BatchAdmin.make(engine, newJobs),
    schedules: ScheduleAdmin.make(engine),
    endpoints: EndpointAdmin.make(engine),
    erase: Erasing.make(engine),
    close,
    [Symbol.asyncDispose]: close
  }
}
