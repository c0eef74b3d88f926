import { Schema } from "effect"
import type { JobId } from "../../core/Id.js"
import type { DeadReason, State, Status } from "../../core/StoredJob.js"
import { never, type WaitKind } from "../../core/Suspension.js"

// The declarations do not mention Effect: the views of programs that use promises are made from them.

const executionStates = [
  "scheduled",
  "pending",
  "running",
  "sleeping",
  "waiting",
  "changed",
  "cancelling",
  "undoing",
  "done",
  "failed",
  "cancelled"
] as const

/** The call that recorded a step. */
/** `value`: `now`, `uuid` and `random`. */
export type StepKind =
  | "run"
  | "transaction"
  | "stream"
  | "sleep"
  | "signal"
  | "message"
  | "ask"
  | "children"
  | "patch"
  | "value"
  | "set"
  | "undo"

/** `retrying`: this attempt failed and another one follows. */
export type StepOutcome = "done" | "failed" | "retrying"

/** A step of the journal. Instants are epoch milliseconds. */
export interface Step {
  /** Name of the step. A repeated name has a number: `charge#2`. */
  readonly name: string
  /** Call that recorded the step. */
  readonly kind: StepKind
  /** Number of the attempt, from 1. */
  readonly attempt: number
  /** Position in the journal: the order in which the code received the results. */
  readonly sequence: number
  /** Whether the attempt succeeded, failed for good, or is tried again. */
  readonly outcome: StepOutcome
  /** The result or error, as JSON in the form of the library that wrote it. */
  readonly exit: unknown
  /** When the attempt started. */
  readonly startedAt: number
  /** When the result was recorded. */
  readonly endedAt: number
  /** When the next attempt is due, if one follows. */
  readonly retryAt: number | undefined
  /**
   * When a retry of the execution reopened the step, because it failed or was undone. Its result is no longer valid: the
   * step runs again, and the next attempt takes the same place in the journal.
   */
  readonly reopenedAt: number | undefined
}

/** A step to record. `endedAt` is the time of recording. */
export type NewStep = Omit<Step, "endedAt" | "retryAt" | "reopenedAt"> & { readonly retryAt?: number | undefined }

/** A wait, or the last heartbeat of a step, which is stored like one. */
export type DeferredKind = WaitKind | "heartbeat"

/** Something that an execution waits or waited for. */
export interface Deferred {
  /** What ends the wait: an instant, a signal, the end of children, or a limit. */
  readonly kind: DeferredKind
  /** Name of the step or signal. */
  readonly name: string
  /** When the wait began, or the signal arrived early. */
  readonly createdAt: number
  /** When the wait ends by itself: the end of a sleep, or the timeout of a signal. */
  readonly dueAt: number | undefined
  /** When the wait ended. Undefined while it is open. */
  readonly completedAt: number | undefined
  /** The value of a signal, as JSON, or the limit that a step waits for. */
  readonly exit: unknown
  /** Children that have not ended. */
  readonly remaining: number | undefined
  /** Whether the execution is suspended until this ends. */
  readonly waiting: boolean
}

/** A wait with the names that callers see. */
export interface DescribedWait extends Omit<Deferred, "exit" | "kind"> {
  /** What ends the wait: an instant, a signal, the end of children, or a limit. */
  readonly kind: WaitKind
  /** Value of the signal, undefined until it arrives. Of a wait for a limit: which one. */
  readonly value: unknown
}

/** The last heartbeat of a step that has not ended. */
export interface Heartbeat {
  /** Name of the step. */
  readonly step: string
  /** Number of the attempt that sent it. */
  readonly attempt: number
  /** When that attempt began. */
  readonly startedAt: number
  /** When the heartbeat was stored. */
  readonly at: number
  /** When the attempt times out. Undefined without a timeout. */
  readonly timeoutAt: number | undefined
  /** What the step sent, for its next attempt. */
  readonly details: unknown
}

/** The stored form of a heartbeat. */
export interface StoredBeat {
  readonly attempt: number
  readonly details?: unknown
}

/** The heartbeats of steps that have no result, which are no waits. */
export const heartbeatsOf = (
  deferreds: ReadonlyArray<Deferred>,
  steps: ReadonlyArray<Step>
): ReadonlyArray<Heartbeat> =>
  deferreds.flatMap(({ completedAt, createdAt, dueAt, exit, kind, name }) => {
    const { attempt, details } = (exit ?? { attempt: 0 }) as StoredBeat
    const isOver = steps.some((step) => step.name === name && step.attempt >= attempt && step.outcome !== "retrying")
    if (kind !== "heartbeat" || isOver) return []
    return [{ step: name, attempt, startedAt: createdAt, at: completedAt ?? createdAt, timeoutAt: dueAt, details }]
  })

/** Kinds of waits that end when something arrives. */
export const waitingKinds = ["signal", "message", "answer", "children", "limit"] as const

/** The name that a step has set, as its exit says. */
const nameSet = ({ exit, kind }: Pick<Step, "exit" | "kind">): string | undefined =>
  (kind === "set" || kind === "undo") && typeof exit === "object" && exit !== null && "set" in exit
    ? String(exit.set)
    : undefined

/** The last value of each name that the code has set. `steps`: by sequence. */
export const valuesOf = (steps: ReadonlyArray<Step>): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    steps.flatMap((step) => {
      const name = nameSet(step)
      return name === undefined ? [] : [[name, (step.exit as { readonly value?: unknown }).value ?? null]]
    })
  )

/** `completed`: the first value of the signal. `appended`: a further one, for `step.next`. `repeated`: its id is stored. */
export type SignalOutcome = "completed" | "appended" | "repeated"

/** The state that a run needs to continue where the last one stopped. */
export interface Journal {
  readonly woken: number
  readonly cancelled: boolean
  /** By sequence. */
  readonly steps: ReadonlyArray<Step>
  readonly waits: ReadonlyArray<Deferred>
}

/** A child of an execution. */
export interface Child {
  /** The step that started the child, and the position of the child in that step. */
  readonly name: string
  /** Index of the child among those of its step, from 0. */
  readonly position: number
  /** Id of the child's job. */
  readonly id: JobId
  /** Whether this execution started the child and cancels it with itself. */
  readonly owned: boolean
  /** Undefined once the child's job was deleted. */
  readonly job:
    | {
        /** Name of the job kind or workflow. */
        readonly kind: string
        /** Id of the child's execution. Undefined for a plain job. */
        readonly execution: string | undefined
        /** State of the job, or of the execution if the child is one. */
        readonly state: State | ExecutionState
        /** Why the child is dead or cancelled. */
        readonly reason: DeadReason | undefined
        readonly result: unknown
        /** Message of the child's last error. */
        readonly lastError: string | undefined
        /** When the child was stored. */
        readonly createdAt: number
        /** When the child ended. Undefined while it is active. */
        readonly finishedAt: number | undefined
      }
    | undefined
}

/** A child with the names that callers see and, while its job exists, the fields of the job. */
export interface DescribedChild extends Omit<Child, "job" | "name">, Partial<NonNullable<Child["job"]>> {
  /** Name of the step that started the child. */
  readonly step: string
}

/**
 * The displayed state of an execution. `pending`: due, waits for a slot. `scheduled`: starts later. `sleeping`: until an
 * instant. `waiting`: for a signal, children or a limit. `changed`: its code no longer follows its journal. `cancelling`: cancelled,
 * due to undo its steps. `undoing`: failed, due to undo its steps.
 */
export type ExecutionState = (typeof executionStates)[number]
/** @internal */
export const ExecutionState = Schema.Literal(...executionStates)

/** Names and values by which an execution is found. */
export type Tags = Readonly<Record<string, string>>

/** Tags to set. Null removes the tag. */
export type TagChanges = Readonly<Record<string, string | null>>

/** The first 1,000 children of an execution, by what happened to them. */
export interface ChildCounts {
  /** Children that succeeded. */
  readonly done: number
  /** Children that failed or died. */
  readonly failed: number
  /** Children that were cancelled. */
  readonly cancelled: number
  /** Children that have not ended. */
  readonly open: number
  /** Children whose job was deleted. */
  readonly deleted: number
  /** Whether there are more than 1,000 children. */
  readonly more: boolean
}

/** Number of children and steps of an execution that its summary counts. */
export const maxCountedParts = 1_000

/** An execution without its journal. */
export interface ExecutionSummary {
  /** Id of the execution's job. */
  readonly id: JobId
  /** The execution's id: the dedupe key of its job. */
  readonly execution: string
  /** The kind of its job. */
  readonly workflow: string
  /** Version of the workflow that started the execution. */
  readonly version: number
  /** Queue that the execution's job waits in. */
  readonly queue: string
  /** Displayed state, such as `running`, `sleeping`, `waiting` or `failed`. */
  readonly state: ExecutionState
  /** Why the execution failed or was cancelled. */
  readonly reason: DeadReason | undefined
  /** Input that the execution was started with, as it is stored. */
  readonly payload: unknown
  /** What the code returned. Undefined until the execution is done. */
  readonly result: unknown
  /** Message of the error that made the last run fail. */
  readonly lastError: string | undefined
  /** When the execution was started. */
  readonly createdAt: number
  /** When its job last changed. */
  readonly updatedAt: number
  /** When the execution ended. Undefined while it is active. */
  readonly finishedAt: number | undefined
  /** When the execution continues without a signal; undefined if it has no due time. */
  readonly dueAt: number | undefined
  /** How often the execution continued with a new payload and an empty journal. */
  readonly continued: number
  /** The release of the code that the execution is pinned to. Undefined if any may run it. */
  readonly pinned: string | undefined
  /** Names and values by which the execution is found. */
  readonly tags: Tags
  /** The current waits of the execution. */
  readonly waits: ReadonlyArray<Deferred>
  /** Number of steps in its journal that are done; counted up to 1,000. */
  readonly stepsDone: number
  /** The last step that failed, if the execution failed. */
  readonly failedStep: string | undefined
  /** What happened to its children. */
  readonly childCounts: ChildCounts
}

/** `open`: more chunks may follow. `interrupted`: the execution ended before the step that writes the stream. */
export type StreamState = "open" | "done" | "failed" | "interrupted"

/** A stream of an execution. */
export interface StreamSummary {
  /** Name of the stream, which is that of its step. */
  readonly name: string
  /** How often the stream has begun, from 1: each attempt of its step writes it again. */
  readonly generation: number
  /** Whether the step that writes the stream has ended, and how. */
  readonly state: StreamState
  /** Number of chunks that this generation has. */
  readonly count: number
  /** Size of these chunks as JSON. */
  readonly bytes: number
  /** When this generation began. */
  readonly startedAt: number
  /** When the stream ended. Undefined while it is open. */
  readonly endedAt: number | undefined
}

/** One chunk of a stream. */
export interface StreamChunk<out A> {
  /** Identifies the chunk in all generations. Pass it as `after` to continue behind it. */
  readonly id: string
  /** 1, or more if the step that writes the stream was repeated. Then the stream has begun again. */
  readonly generation: number
  /** Number of the chunk in its generation, from 0. */
  readonly number: number
  /** What was written: text, or a JSON value. */
  readonly value: A
}

/** An execution with everything that is stored about it. */
export interface Execution extends ExecutionSummary {
  readonly steps: ReadonlyArray<Step>
  /** Streams that its steps write, oldest first. */
  readonly streams: ReadonlyArray<StreamSummary>
  /** All waits of the execution, including signals that arrived early. */
  readonly deferreds: ReadonlyArray<Deferred>
  /** Names of signals that have arrived and that the code has not received: early ones, late ones, or those with a wrong name. */
  readonly unclaimed: ReadonlyArray<string>
  /** The last heartbeats of steps that have not ended. */
  readonly heartbeats: ReadonlyArray<Heartbeat>
  /** The last value of each name that the code has set with `step.set`. */
  readonly values: Readonly<Record<string, unknown>>
  readonly children: ReadonlyArray<Child>
  /** Executions that started this one or wait for it. */
  readonly parents: ReadonlyArray<string>
}

interface StateFacts {
  readonly status: Status
  readonly reason: DeadReason | undefined
  readonly cancelled: boolean
  readonly woken: number
  readonly runAt: number
  /** The open waits of a suspended execution. */
  readonly waits: ReadonlyArray<Pick<Deferred, "kind">>
}

export const executionStateOf = (
  { cancelled, reason, runAt, status, waits, woken }: StateFacts,
  now: number
): ExecutionState => {
  if (status === "dead") return reason === "cancelled" ? "cancelled" : "failed"
  if (status !== "pending") return status
  const isOpen = (...kinds: ReadonlyArray<DeferredKind>) => waits.some(({ kind }) => kinds.includes(kind))
  if (isOpen("changed")) return "changed"
  if (cancelled) return "cancelling"
  if (reason !== undefined) return "undoing"
  if (runAt <= now) return "pending"
  if (woken === 0) return "scheduled"
  return isOpen(...waitingKinds) ? "waiting" : "sleeping"
}

/** When a suspended execution continues by itself. */
export const dueAtOf = (status: Status, runAt: number): number | undefined =>
  status === "pending" && runAt < never ? runAt : undefined

/** Maximum page size. Small, because an execution may have a large payload. */
export const maxExecutionPage = 200

export interface ExecutionFilter {
  readonly workflow?: string | undefined
  readonly state?: ExecutionState | undefined
  /** Prefix of the execution's id. */
  readonly prefix?: string | undefined
  /** Tags that the execution has, all of them. */
  readonly tag?: Tags | undefined
  /** Epoch milliseconds: executions started at this time or later, and before the other. */
  readonly since?: number | undefined
  readonly until?: number | undefined
  /** Whether to leave out executions that another one started or waits for. */
  readonly roots?: boolean | undefined
}
