import { Context, Effect, Either, type Exit } from "effect"
import type { BadCursor } from "../../core/BadCursor.js"
import type { JobId } from "../../core/Ids.js"
import { faultOfText, jsonText } from "../../core/Storable.js"
import { limits, type StoredJob } from "../../core/StoredJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { type JobNotFound, JobNotInState } from "../JobErrors.js"
import type { NewJob } from "../NewJob.js"
import type { Enqueued, EnqueueError, HeldJob, OuterError, RunStatement } from "../Queue.js"
import type { SearchTooSlow } from "../search/JobSearch.js"
import type { Answer, Ask, AskEnd } from "./Asks.js"
import type {
  Child,
  Execution,
  ExecutionFilter,
  Heartbeat,
  Journal,
  NewStep,
  SignalOutcome,
  Step,
  TagChanges,
  Tags
} from "./Execution.js"
import type { ExecutionPage, ExecutionSort, StateCounts } from "./ExecutionPage.js"
import type { Permit, PermitTurn } from "./StepPermits.js"
import type { Streams } from "./Streams.js"
import {
  type ChildNotLinked,
  type ExecutionEnded,
  type ExecutionExists,
  type ExecutionNotFound,
  InvalidStep,
  type InvalidTags,
  type LeaseLost,
  type SignalsFull,
  type StepNotFound
} from "./WorkflowErrors.js"

/** A job that becomes an execution. */
export type NewExecution = Omit<NewJob, "dedupe" | "isExecution" | "isChild" | "id"> & {
  /** The execution's id, unique among all jobs. */
  readonly execution: string
  /** Names and values by which the execution is found. Not those of an existing execution. */
  readonly tags?: Tags | undefined
}

/** A child to start. Without an execution id it is a plain job. */
export type NewChild = Omit<NewJob, "dedupe" | "isExecution" | "isChild" | "id"> & {
  readonly execution?: string | undefined
}

export interface Signal {
  readonly execution: string
  readonly name: string
  /** A JSON value of at most 64 KiB. */
  readonly value: unknown
  /** Names this value among those of the signal: a second value with the same id is not stored. */
  readonly id?: string | undefined
}

/** A heartbeat to store: what `Heartbeat` shows. */
export type NewHeartbeat = Omit<Heartbeat, "at" | "step"> & { readonly name: string }

/** How a parent and its children depend on each other. */
export interface ChildrenOptions {
  /** Whether the parent neither waits for the children nor cancels them. [false] */
  readonly detached?: boolean | undefined
  /** Whether a cancel of the parent leaves the children alone. [false] */
  readonly left?: boolean | undefined
  /** Whether the parent wakes when the first of the children has ended. [false] */
  readonly first?: boolean | undefined
}

/** A step as it is stored. */
export type Recorded = Pick<Step, "outcome" | "exit"> & { readonly repeated: boolean }

export type RecordError = LeaseLost | InvalidStep | DatabaseError

/** Suspended executions by their state. */
export type SuspendedCounts = Readonly<Record<"sleeping" | "waiting" | "changed", number>>

export const maxCounted = 10_000

/** Executions that have not ended and are pinned to a release of their workflow. */
export interface Pins {
  readonly workflow: string
  readonly release: string
  readonly count: number
  /** Ids of some of them. */
  readonly executions: ReadonlyArray<string>
}

/** An execution with a long journal. */
export interface LongJournal {
  readonly execution: string
  readonly steps: number
}

export interface CancelReport {
  readonly job: StoredJob
  /** Number of executions and jobs whose cancellation was requested or that were ended, including the execution itself. */
  readonly cancelled: number
}

/**
 * The journal, waits and children of workflow executions. An execution is a job; a run that waits ends with a
 * `Suspension`, which its handler returns.
 */
export class Workflows extends Context.Tag("nightshift/queue/Workflows")<
  Workflows,
  {
    /** Starts an execution, or returns the existing one with this id, in the caller's transaction if there is one. */
    readonly start: (execution: NewExecution) => Effect.Effect<Enqueued, EnqueueError | InvalidTags>

    /** The same in a transaction that another library holds. */
    readonly startInside: (
      run: RunStatement,
      execution: NewExecution
    ) => Effect.Effect<Enqueued, OuterError | InvalidTags | DatabaseError>

    /** Sets tags of an execution, and removes those whose value is null. Returns its tags. */
    readonly tag: (
      execution: string,
      tags: TagChanges
    ) => Effect.Effect<Tags, ExecutionNotFound | InvalidTags | DatabaseError>

    /** The same for the code of a run, and only while the run holds its lease: later tags must not be overwritten. */
    readonly tagHeld: (run: HeldJob, tags: TagChanges) => Effect.Effect<Tags, LeaseLost | InvalidTags | DatabaseError>

    /** Reads the journal for a run. */
    readonly load: (run: HeldJob) => Effect.Effect<Journal, LeaseLost | DatabaseError>

    /**
     * Records a step once, and only while the run holds its lease. Returns the stored step: this one, or, marked
     * `repeated`, the one already recorded under this name and attempt. Steps recorded at the same time share a statement.
     * In a caller's transaction the record commits with it.
     */
    readonly record: (run: HeldJob, step: NewStep) => Effect.Effect<Recorded, RecordError>

    /**
     * Like `record` outside of transactions, but without a fiber: executions record many steps per second. Calls `answer`
     * once. Undefined if this layer supports only `record`.
     */
    readonly recordSoon?:
      | ((run: HeldJob, step: NewStep, answer: (exit: Exit.Exit<Recorded, RecordError>) => void) => void)
      | undefined

    /**
     * Sends a signal and wakes the execution. The first value completes the wait for the signal and is kept. Further values
     * are appended, and numbered in the order in which their transactions commit. A value whose id is stored has no effect.
     * A signal to an execution that does not exist yet is stored until it starts. In a caller's transaction it takes effect
     * at commit.
     */
    readonly signal: (signal: Signal) => Effect.Effect<SignalOutcome, InvalidStep | SignalsFull | DatabaseError>

    /**
     * Stores an ask for a handler in the code of an execution that has not ended, and wakes it. An ask whose name and id are
     * stored has no effect.
     */
    readonly ask: (ask: Ask) => Effect.Effect<void, ExecutionNotFound | ExecutionEnded | InvalidStep | DatabaseError>

    /** Stores the answer to an ask, once, and only while the run holds its lease. `row`: the name of the ask's row. */
    readonly answer: (run: HeldJob, row: string, answer: Answer) => Effect.Effect<void, RecordError>

    /** Waits until an ask is answered, or its execution has ended. */
    readonly awaitAnswer: (
      ask: Pick<Ask, "execution" | "id" | "name">
    ) => Effect.Effect<AskEnd, ExecutionNotFound | DatabaseError>

    /** Makes a suspended execution due now. A running one runs again right after it suspends. */
    readonly wake: (execution: string) => Effect.Effect<void, DatabaseError>

    /**
     * Starts the children of a step, all or none, and a wait of the kind `children` with this name for their ends.
     * Idempotent. The parent wakes once, when all have ended. Detached children are neither waited for nor cancelled with
     * the parent.
     */
    readonly startChildren: (
      run: HeldJob,
      name: string,
      children: ReadonlyArray<NewChild>,
      options?: ChildrenOptions
    ) => Effect.Effect<void, LeaseLost | ChildNotLinked | EnqueueError>

    /** The children of a step, or of all steps, in order. */
    readonly children: (execution: string, name?: string) => Effect.Effect<ReadonlyArray<Child>, DatabaseError>

    /**
     * Cancels an execution and all jobs it started and waits for. Each execution undoes its steps in its next run and
     * is then cancelled. `now` ends all of them immediately without undoing their steps.
     */
    readonly cancel: (
      execution: string,
      options?: {
        /** Ends all executions immediately, without undoing their steps. [false] */
        readonly now?: boolean | undefined
      }
    ) => Effect.Effect<CancelReport, ExecutionNotFound | JobNotInState | DatabaseError>

    /**
     * Immediately tries an execution whose code has changed. Runs a failed or cancelled execution again: failed and undone steps are reopened and run again in their place; dead
     * children that it started or that made a step fail are requeued and waited for again. All other results are kept.
     */
    readonly retry: (execution: string) => Effect.Effect<StoredJob, ExecutionNotFound | JobNotInState | DatabaseError>

    /** Starts a new execution, under an id that is free, with the payload of another one and its journal before a step. */
    readonly fork: (
      execution: string,
      step: string,
      options?: {
        /** Id of the new execution. [the id of the old one, `:fork:` and a UUID] */
        readonly as?: string | undefined
      }
    ) => Effect.Effect<
      {
        /** Id of the new execution's job. */
        readonly id: JobId
        /** Id of the new execution. */
        readonly execution: string
      },
      ExecutionNotFound | StepNotFound | ExecutionExists | JobNotInState | EnqueueError
    >

    /** Stores the last heartbeat of a step, in place of earlier ones. Never in the caller's transaction. */
    readonly heartbeat: (run: HeldJob, beat: NewHeartbeat) => Effect.Effect<void, LeaseLost | DatabaseError>

    /**
     * Takes one of the permits of a scope for a step, or puts the step in line. Permits are given in the order of the first
     * request. A permit is valid while the run holds its lease; one that becomes free is kept for the step that is next,
     * whose execution is woken, for 30 seconds. Never in the caller's transaction.
     */
    readonly takePermit: (run: HeldJob, permit: Permit) => Effect.Effect<PermitTurn, DatabaseError>

    /** Returns a permit, or leaves the line. A permit of a later run of the execution stays. */
    readonly returnPermit: (run: HeldJob, permit: Permit) => Effect.Effect<PermitTurn, DatabaseError>

    /**
     * Pins an execution to a release of its code: pods with other releases return it to the queue. Returns the release
     * that it is pinned to, which may be an earlier one.
     */
    readonly pin: (run: HeldJob, release: string) => Effect.Effect<string, LeaseLost | DatabaseError>

    /** Lets every release run an execution, or all executions that are pinned to a release. Returns their number. */
    readonly unpin: (
      which:
        | {
            /** Id of the execution or of its job. */
            readonly execution: string
          }
        | {
            /** The release that executions are pinned to. */
            readonly release: string
          }
    ) => Effect.Effect<number, ExecutionNotFound | DatabaseError>

    /** Pinned executions that have not ended, by workflow and release. */
    readonly pins: Effect.Effect<ReadonlyArray<Pins>, DatabaseError>

    /** Executions that have not ended and whose journal has 5,000 steps or more, the longest first. */
    readonly longJournals: (most: number) => Effect.Effect<ReadonlyArray<LongJournal>, DatabaseError>

    /**
     * Ends a race of children: the others than the winner no longer belong to the execution. With `cancel`, those that this
     * step started are cancelled before. Idempotent.
     */
    readonly endRace: (
      execution: string,
      name: string,
      /** Position of the winner among the children. */
      winner: number,
      cancel: boolean
    ) => Effect.Effect<void, DatabaseError>

    /** Lists executions, newest first or sorted. */
    readonly list: (
      filter: ExecutionFilter,
      page: {
        /** Maximum number of executions in this page. */
        readonly limit: number
        /** `next` of the previous page with the same order. [the first page] */
        readonly before?: string | undefined
        /** Order of the list. [newest first] */
        readonly sort?: ExecutionSort | undefined
      }
    ) => Effect.Effect<ExecutionPage, BadCursor | SearchTooSlow | DatabaseError>

    /** Number of executions that match the filter. */
    readonly count: (filter: ExecutionFilter) => Effect.Effect<number, SearchTooSlow | DatabaseError>

    /** Number of executions that match the filter, by state. Counts the newest `maxStateCounts`. */
    readonly countStates: (filter: ExecutionFilter) => Effect.Effect<StateCounts, SearchTooSlow | DatabaseError>

    /** Number of suspended executions by state. Counting stops at `maxCounted` in total. */
    readonly suspended: Effect.Effect<SuspendedCounts, DatabaseError>

    /** What steps write while they run. */
    readonly streams: Streams

    /** The last value of each name that the execution has set, by its id or by the id of its job. */
    readonly values: (
      execution: string
    ) => Effect.Effect<Readonly<Record<string, unknown>>, ExecutionNotFound | DatabaseError>

    /** Returns an execution with everything that is stored about it, by its id or by the id of its job. */
    readonly show: (execution: string) => Effect.Effect<Execution, ExecutionNotFound | DatabaseError>
  }
>() {}

type RetryError = ExecutionNotFound | JobNotInState | DatabaseError

/** A fork would repeat the steps of an execution whose data was erased. */
export const erasedSource = (id: JobId, erasedAt: number): JobNotInState =>
  new JobNotInState({ id, act: "fork", state: "done", allowed: [], erasedAt })

/** `retry` of both layers. `requeue` runs an ended execution again, `read` reads the job of an execution. */
export const retryOf =
  (
    { show, wake }: Pick<typeof Workflows.Service, "show" | "wake">,
    requeue: (id: JobId, execution: string) => Effect.Effect<StoredJob, RetryError>,
    read: (id: JobId, execution: string) => Effect.Effect<StoredJob, RetryError>
  ) =>
  (given: string): Effect.Effect<StoredJob, RetryError> =>
    Effect.gen(function* () {
      const { execution, id, state } = yield* show(given)
      if (state === "done") return yield* new JobNotInState({ id, act: "retry", state, allowed: ["dead", "cancelled"] })
      if (state !== "changed") return yield* requeue(id, execution)
      yield* wake(execution)
      return yield* read(id, execution)
    })

/** `endRace` of both layers. A child that ends meanwhile is not cancelled. */
export const endRaceOf =
  (
    children: (typeof Workflows.Service)["children"],
    cancel: (id: JobId) => Effect.Effect<unknown, JobNotFound | JobNotInState | DatabaseError>,
    disown: (execution: string, name: string, winner: number) => Effect.Effect<void, DatabaseError>
  ): (typeof Workflows.Service)["endRace"] =>
  (execution, name, winner, cancels) =>
    Effect.gen(function* () {
      const all = yield* children(execution, name)
      const losers = all.filter(
        ({ job, owned, position }) => owned && position !== winner && job?.finishedAt === undefined
      )
      if (cancels) {
        for (const { id } of losers)
          yield* Effect.catchTags(cancel(id), { JobNotFound: () => Effect.void, JobNotInState: () => Effect.void })
      }
      yield* disown(execution, name, winner)
    })

/** Steps that have received a value of a sender. */
const received = ["signal", "message", "ask"]

/**
 * A `children` step has the results of many jobs, so it may be as large as a payload. A step that has received a value, which
 * may be as large as a result, says in addition where the value is from.
 */
const maxBytes = (kind: string) => {
  if (kind === "children") return limits.payloadBytes
  return received.includes(kind) ? limits.resultBytes + 2_048 : limits.resultBytes
}

/** Checks a signal to send. Returns its value as JSON text. */
export const admittedSignal = ({ id, name, value }: Omit<Signal, "execution">): Either.Either<string, InvalidStep> => {
  const fault = id === undefined ? undefined : faultOfText(id, limits.signalCharacters)
  if (fault !== undefined) return Either.left(new InvalidStep({ step: name, reason: `is invalid: its id ${fault}` }))
  return admitted("sent", name, value, limits.signalCharacters)
}

/** Checks an ask. Returns the JSON text of its row. */
export const admittedAsk = ({ id, name, value }: Omit<Ask, "execution">): Either.Either<string, InvalidStep> => {
  const fault = faultOfText(id, limits.askIdCharacters)
  if (fault !== undefined) return Either.left(new InvalidStep({ step: name, reason: `is invalid: its id ${fault}` }))
  return Either.map(admitted("sent", name, value, limits.signalCharacters), (text) =>
    JSON.stringify({ name, value: JSON.parse(text) })
  )
}

/** Checks a step. Returns its JSON text. The names of repeated steps and undos are longer than those in the code. */
export const admitted = (
  kind: string,
  name: string,
  value: unknown,
  maxCharacters: number = limits.keyCharacters
): Either.Either<string, InvalidStep> => {
  const fault = faultOfText(name, maxCharacters)
  if (fault !== undefined)
    return Either.left(new InvalidStep({ step: name.slice(0, 100), reason: `has an invalid name: it ${fault}` }))
  return Either.mapLeft(jsonText(value === undefined ? null : value, maxBytes(kind)), (reason) => {
    const advice = reason.includes("bytes as JSON") ? ". Store large data elsewhere and return its key" : ""
    return new InvalidStep({ step: name, reason: `is invalid: its value ${reason}${advice}` })
  })
}
