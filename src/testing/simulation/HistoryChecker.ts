import { Effect } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { JobRow } from "../../queue/JobRowMemory.js"
import { History } from "./History.js"
import { type Call, type Change, endOf, type Run } from "./HistoryEntry.js"
import type { Invariant } from "./Invariant.js"
import type { Trace } from "./Trace.js"

/** A violated invariant. */
export interface Violation {
  /** Short name, as in `Invariant.name`. */
  readonly invariant: string
  /** The invariant as a sentence. */
  readonly promise: string
  /** What happened instead. */
  readonly found: string
  /** The affected job. Undefined if the violation is not about one job. */
  readonly job: JobId | undefined
}

/** Maximum number of violations recorded. */
const maxViolations = 20

const described = (row: JobRow, trace: Trace): string => {
  if (row.run !== undefined) return `running (attempt ${row.attempt}, ${trace.nameOfLease(row.run.lease)})`
  if (row.status === "dead") return `dead (${row.reason})`
  return row.status === "pending" ? `pending (attempt ${row.attempt})` : row.status
}

/** Observes every job change and its caller, and checks it against the invariants. */
export class HistoryChecker {
  readonly history: History
  private readonly found: Array<Violation> = []
  private call: Call | undefined

  constructor(
    readonly trace: Trace,
    private readonly now: () => number,
    private readonly invariants: ReadonlyArray<Invariant>
  ) {
    this.history = new History(trace)
  }

  get isInCall(): boolean {
    return this.call !== undefined
  }

  get violations(): ReadonlyArray<Violation> {
    return this.found
  }

  /** Runs one database operation and records its caller. */
  during<A, E, R>(by: Omit<Call, "at">, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.suspend(() => {
      const call: Call = { ...by, at: this.now() }
      const outer = this.call
      this.call = call
      // Cheaper than onExit; an operation is synchronous, so it cannot be interrupted.
      return Effect.matchCauseEffect(effect, {
        onFailure: (cause) => {
          this.call = outer
          return Effect.failCause(cause)
        },
        onSuccess: (answer) => {
          this.call = outer
          this.answered(call, answer)
          return Effect.succeed(answer)
        }
      })
    })
  }

  /** Called for every row change. */
  readonly wrote = (before: JobRow | undefined, after: JobRow | undefined): void => {
    const change: Change = { call: this.call, at: this.now(), before, after }
    const row = after ?? before
    if (row === undefined) return
    if (before?.status !== after?.status || before?.run?.lease !== after?.run?.lease) this.traceChange(change, row)
    for (const invariant of this.invariants) this.hold(invariant, row.id, invariant.onChange?.(change, this.history))
    this.history.changed(change)
  }

  /** Records the start of a handler. Returns a function that records its end. */
  began(who: string, job: JobId): (how: string) => void {
    const run: Run = { who, job, began: this.now(), how: undefined }
    for (const invariant of this.invariants) this.hold(invariant, job, invariant.onRun?.(run, this.history))
    this.history.began(run)
    this.trace.note(who, `starts ${this.trace.nameOf(job)}`, [job])
    return (how) => {
      run.how = how
      this.trace.note(who, `${this.trace.nameOf(job)}: handler ${how}`, [job])
    }
  }

  requestSent(who: string, call: string): void {
    if (call === "MinuteBuckets.record") this.history.unwritten.add(who)
  }

  answerLost(who: string, call: string): void {
    if (call === "Transactions.commit") this.history.lostCommits += 1
    this.trace.note(who, `loses the reply of ${call}`)
  }

  /** Checks the invariants that apply to the final state. */
  conclude(): void {
    for (const invariant of this.invariants) {
      for (const { found, job } of invariant.atEnd?.(this.history) ?? []) this.hold(invariant, job, found)
    }
  }

  private answered(call: Call, answer: unknown): void {
    for (const invariant of this.invariants) {
      for (const { found, job } of invariant.onAnswer?.(call, answer, this.history) ?? [])
        this.hold(invariant, job, found)
    }
    this.history.answered(call, answer)
  }

  private traceChange({ call, after, before }: Change, { id, kind, queue }: JobRow): void {
    const who = call?.who ?? "database"
    const name = this.trace.nameOf(id)
    if (before === undefined && after !== undefined) {
      this.trace.note(who, `${name} is stored: ${kind} in ${queue}, ${described(after, this.trace)}`, [id])
      return
    }
    const end = call?.call === "Queue.finalize" && before !== undefined ? endOf(call, before) : undefined
    const by = end === undefined ? "" : ` by ${end.end._tag}`
    const from = before === undefined ? "nothing" : described(before, this.trace)
    const to = after === undefined ? "deleted" : described(after, this.trace)
    this.trace.note(who, `${name}: ${from} -> ${to}${by}${call === undefined ? " (rolled back)" : ""}`, [id])
  }

  private hold(invariant: Invariant, job: JobId | undefined, found: string | undefined): void {
    if (found === undefined || this.found.length >= maxViolations) return
    this.found.push({ invariant: invariant.name, promise: invariant.promise, found, job })
    this.trace.note("checker", `VIOLATION of ${invariant.name}: ${found}`, job === undefined ? [] : [job])
  }
}
