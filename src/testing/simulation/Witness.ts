import { Effect, Exit } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { JobRow } from "../../queue/JobRowMemory.js"
import { type Act, type Change, endOf, Facts, type Run } from "./Facts.js"
import type { Invariant } from "./Invariant.js"
import type { Trace } from "./Trace.js"

/** A promise that was not kept. */
export interface Violation {
  /** The name of the invariant. */
  readonly invariant: string
  /** What it promises. */
  readonly promise: string
  /** What was seen instead. */
  readonly found: string
  readonly job: JobId | undefined
}

/** So many are enough to know. */
const mostViolations = 20

const described = (row: JobRow, trace: Trace): string => {
  if (row.run !== undefined) return `running (attempt ${row.attempt}, ${trace.nameOfLease(row.run.lease)})`
  if (row.status === "dead") return `dead (${row.deadReason})`
  return row.status === "pending" ? `pending (attempt ${row.attempt})` : row.status
}

/** Sees every write to the jobs and who made it, and holds it against the promises. */
export class Witness {
  readonly facts: Facts
  private readonly found: Array<Violation> = []
  private act: Act | undefined

  constructor(
    readonly trace: Trace,
    private readonly now: () => number,
    private readonly invariants: ReadonlyArray<Invariant>
  ) {
    this.facts = new Facts(trace)
  }

  get isInAct(): boolean {
    return this.act !== undefined
  }

  get violations(): ReadonlyArray<Violation> {
    return this.found
  }

  /** Runs one act of the database in somebody's name. */
  during<A, E, R>(by: Omit<Act, "at">, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.suspend(() => {
      const act: Act = { ...by, at: this.now() }
      const outer = this.act
      this.act = act
      return Effect.onExit(effect, (exit) =>
        Effect.sync(() => {
          this.act = outer
          if (Exit.isSuccess(exit)) this.answered(act, exit.value)
        })
      )
    })
  }

  /** A row is written. */
  readonly wrote = (before: JobRow | undefined, after: JobRow | undefined): void => {
    const change: Change = { act: this.act, at: this.now(), before, after }
    const row = after ?? before
    if (row === undefined) return
    if (before?.status !== after?.status || before?.run?.lease !== after?.run?.lease) this.tell(change, row)
    for (const invariant of this.invariants) this.hold(invariant, row.id, invariant.onChange?.(change, this.facts))
    this.facts.changed(change)
  }

  /** A handler begins; the answer is how to say that it ended. */
  began(who: string, job: JobId): (how: string) => void {
    const run: Run = { who, job, began: this.now(), how: undefined }
    for (const invariant of this.invariants) this.hold(invariant, job, invariant.onRun?.(run, this.facts))
    this.facts.began(run)
    this.trace.note(who, `begins ${this.trace.nameOf(job)}`, [job])
    return (how) => {
      run.how = how
      this.trace.note(who, `${this.trace.nameOf(job)}: its handler ${how}`, [job])
    }
  }

  asked(who: string, call: string): void {
    if (call === "MinuteBuckets.record") this.facts.unwritten.add(who)
  }

  answerLost(who: string, call: string): void {
    if (call === "Transactions.commit") this.facts.lostCommits += 1
    this.trace.note(who, `does not hear the answer of ${call}`)
  }

  /** All is over: what only shows at the end is looked at. */
  conclude(): void {
    for (const invariant of this.invariants) {
      for (const { found, job } of invariant.atEnd?.(this.facts) ?? []) this.hold(invariant, job, found)
    }
  }

  private answered(act: Act, answer: unknown): void {
    for (const invariant of this.invariants) {
      for (const { found, job } of invariant.onAnswer?.(act, answer, this.facts) ?? []) this.hold(invariant, job, found)
    }
    this.facts.answered(act, answer)
  }

  private tell({ act, after, before }: Change, { id, kind, queue }: JobRow): void {
    const who = act?.who ?? "database"
    const name = this.trace.nameOf(id)
    if (before === undefined && after !== undefined) {
      this.trace.note(who, `${name} is stored: ${kind} in ${queue}, ${described(after, this.trace)}`, [id])
      return
    }
    const end = act?.call === "Queue.finalize" && before !== undefined ? endOf(act, before) : undefined
    const told = end === undefined ? "" : ` by ${end.end._tag}`
    const from = before === undefined ? "nothing" : described(before, this.trace)
    const to = after === undefined ? "gone" : described(after, this.trace)
    this.trace.note(who, `${name}: ${from} -> ${to}${told}${act === undefined ? " (rolled back)" : ""}`, [id])
  }

  private hold(invariant: Invariant, job: JobId | undefined, found: string | undefined): void {
    if (found === undefined || this.found.length >= mostViolations) return
    this.found.push({ invariant: invariant.name, promise: invariant.promise, found, job })
    this.trace.note("witness", `BROKEN ${invariant.name}: ${found}`, job === undefined ? [] : [job])
  }
}
