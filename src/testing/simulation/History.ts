import { Option } from "effect"
import type { JobId, Lease, PodId, Term, UploadId } from "../../core/Ids.js"
import type { StoredJob } from "../../core/StoredJob.js"
import { type SubjectDigest, subjectOf } from "../../core/Subject.js"
import type { JobRow } from "../../queue/JobRowMemory.js"
import { type NewJob, scopeOf } from "../../queue/NewJob.js"
import type { Enqueued, HeldJob } from "../../queue/Queue.js"
import type { QueueSettings, QueueSettingsPatch } from "../../queue/settings/QueueSettings.js"
import type { Workflows } from "../../queue/workflow/Workflows.js"
import type { BucketCount } from "../../telemetry/BucketCount.js"
import { CountsModel } from "./CountsModel.js"
import { type Call, type Change, type Ending, endOf, isClaim, type Run } from "./HistoryEntry.js"
import { ProcessHistory } from "./ProcessHistory.js"
import type { Trace } from "./Trace.js"

interface Claim {
  readonly job: JobId
  readonly queue: string
  readonly at: number
}

const recovers = new Set(["Queue.recoverStuck", "Queue.recoverAbandoned", "Queue.recoverOrphaned"])
/** A race cancels the children that lost. */
const cancels = new Set(["JobAdmin.cancel", "Workflows.endRace"])
const signsOfLife = new Set(["Queue.claim", "Queue.insertClaimed", "Queue.heartbeat"])

type Settings = Pick<QueueSettings, "paused" | "perKey" | "rate">

const plus = (counts: Map<string, number>, key: string) => counts.set(key, (counts.get(key) ?? 0) + 1)

/**
 * The history of operations and replies. It is recorded independently of the database, so that the checker can compare
 * the two.
 */
export class History {
  /** Current rows of all jobs. */
  readonly rows = new Map<JobId, JobRow>()
  /** All runs of handlers, in order of their start. */
  readonly runs: Array<Run> = []
  /** All claims, in order. */
  readonly claims: Array<Claim> = []
  /** The call that issued each lease. */
  readonly leases = new Map<string, Call>()
  /** Settings made by operators, by queue. */
  readonly settings = new Map<string, Settings>()
  /** Jobs with an acknowledged cancel. */
  readonly cancelled = new Set<JobId>()
  /** Jobs whose enqueue reply reached the client. */
  readonly acknowledged = new Set<JobId>()
  /** Counted attempts since the job was enqueued or requeued, or recorded a step. */
  readonly attempts = new Map<JobId, number>()
  /** The job last enqueued with each dedupe key. */
  readonly holders = new Map<
    string,
    {
      /** The job that holds the key. */
      readonly id: JobId
      /** How long it holds the key: `active` or `retained`. */
      readonly scope: string
    }
  >()
  /** What the metrics of the pods should add up to. */
  readonly counted = new CountsModel()
  /** Heartbeats and locks of the processes. */
  readonly processes = new ProcessHistory()
  /** True time of each job's last claim or heartbeat. */
  readonly beatAt = new Map<JobId, number>()
  /** Times at which a pod acquired or renewed leadership. */
  readonly led: Array<number> = []
  /** Interval without faults: from the last fault until the pods were stopped. */
  calm:
    | {
        /** True time of the last fault, in epoch milliseconds. */
        readonly from: number
        /** True time at which the pods were stopped, in epoch milliseconds. */
        until: number
      }
    | undefined
  /** Number of steps of the database's clock. */
  clockSteps = 0
  /** Names of the pods that were killed. */
  readonly killed = new Set<string>()
  /** Pods whose last metrics flush did not reach the database. */
  readonly unwritten = new Set<string>()
  /** Tokens that rate limits granted, in order. */
  readonly grants: Array<{
    /** Name of the rate limit. */
    readonly scope: string
    /** True time in epoch milliseconds. */
    readonly at: number
  }> = []
  /** Subjects of jobs, as they were stored. */
  readonly subjects = new Map<JobId, SubjectDigest>()
  /** The rows of erased jobs, as they were before. */
  readonly erased = new Map<JobId, JobRow>()
  /** Webhook deliveries that a pod acknowledged, by the sender's id, with the job. */
  readonly delivered = new Map<string, JobId>()
  /** Events whose publisher got a reply, by its own id: their number. */
  readonly published = new Map<string, number>()
  /** Uploads whose reply reached the client, and whether the client has acknowledged them. */
  readonly uploads = new Map<UploadId, "stored" | "acked">()
  /** Steps of workflow executions whose record was answered, by job and name, and what was recorded. */
  readonly recorded = new Map<string, string>()
  /** Effects of executions outside the database, whether recorded or not: by job and idempotency key. */
  readonly charged = new Map<JobId, Set<string>>()
  /** Undone effects of executions, by job and idempotency key. */
  readonly refunded = new Map<JobId, Set<string>>()
  /** What the code of executions saw and must not see, by the invariant that it breaks. */
  readonly reported = new Map<
    string,
    Array<{
      /** What the code saw. */
      readonly found: string
      /** The execution's job. */
      readonly job: JobId
    }>
  >()
  /** Answers that clients got from executions. */
  readonly answers: Array<{
    /** The execution's job. */
    readonly job: JobId
    /** What the client asked. */
    readonly asked: unknown
    /** What the execution answered. */
    readonly answer: unknown
  }> = []
  /** Releases that executions are pinned to, by the execution's job. */
  readonly pinned = new Map<JobId, string>()
  /** Executions that a pod has left to the release that they are pinned to. Pods with that release claim them early. */
  readonly parked = new Set<JobId>()
  /** Commits that were applied but whose reply was lost. */
  lostCommits = 0
  /** Final state of the cluster. Undefined until the end. */
  ending: Ending | undefined
  /** The runs in a step with a limit. */
  private readonly inside = new Set<{
    /** The execution's job. */
    readonly job: JobId
    /** What the run held the job with when it entered the step. */
    readonly lease: Lease | undefined
  }>()
  private readonly storedBy = new Map<JobId, Call>()
  /** Children of executions, in order, by the execution's job and the step. */
  private readonly children = new Map<string, ReadonlyArray<JobId>>()
  private readonly claimCounts = new Map<string, number>()
  private readonly runCounts = new Map<string, number>()

  constructor(
    /** The readable event log of the run. */
    readonly trace: Trace
  ) {}

  /** Short name of a job, such as `job 3`. */
  nameOf(job: JobId): string {
    return this.trace.nameOf(job)
  }

  /** Returns how often a process claimed and started a job. */
  handsOn(
    who: string,
    job: JobId
  ): {
    /** Claims of the job by this process. */
    readonly claimed: number
    /** Runs of the job's handler in this process. */
    readonly begun: number
  } {
    const key = `${who} ${job}`
    return { claimed: this.claimCounts.get(key) ?? 0, begun: this.runCounts.get(key) ?? 0 }
  }

  /** A step of an execution, or its undo, had its effect. A repeated effect with the same key has none. */
  affected(effect: "charged" | "refunded", job: JobId, key: string): void {
    this[effect].set(job, (this[effect].get(job) ?? new Set()).add(key))
  }

  /** The code of a step with a limit starts. Returns a function to call at its end. */
  enter(job: JobId, lease: Lease | undefined, most: number): () => void {
    const run = { job, lease }
    this.inside.add(run)
    // Code that runs on after its lease is lost does not count: it cannot be stopped.
    const held = [...this.inside].filter((each) => this.rows.get(each.job)?.run?.lease === each.lease)
    if (held.length > most) this.report("step limit", job, `runs a step beside ${held.length - 1} others`)
    return () => void this.inside.delete(run)
  }

  /** The code of an execution saw something that breaks an invariant. */
  report(invariant: string, job: JobId, found: string): void {
    const before = this.reported.get(invariant) ?? []
    this.reported.set(invariant, [...before, { job, found: `${this.nameOf(job)} ${found}` }])
  }

  /** The jobs of a subject that are stored and not erased. */
  unerased(subject: SubjectDigest): ReadonlyArray<JobId> {
    return [...this.subjects].flatMap(([id, own]) =>
      own === subject && this.rows.has(id) && !this.erased.has(id) ? [id] : []
    )
  }

  /** The job of an execution. Undefined if it is not stored. */
  jobOf(execution: string): JobId | undefined {
    return [...this.rows.values()].find(({ dedupe }) => dedupe?.key === execution)?.id
  }

  /** A child that a step of an execution has started. */
  childOf(job: JobId, step: string, index: number): JobId | undefined {
    return this.children.get(`${job} ${step}`)?.[index]
  }

  /** Whether a release may run an execution. A run that has lost its lease does not count: it cannot be stopped. */
  mayRun(job: JobId, lease: Lease | undefined, release: string | undefined): boolean {
    const isHeld = this.rows.get(job)?.run?.lease === lease
    return !isHeld || !this.pinned.has(job) || this.pinned.get(job) === release
  }

  /** Records the start of a handler. The simulation calls it. */
  began(run: Run): void {
    this.runs.push(run)
    plus(this.runCounts, `${run.who} ${run.job}`)
    this.counted.began(run.who)
  }

  /** Records a change of a row. The simulation calls it. */
  changed(change: Change): void {
    const { call, after, before } = change
    if (after !== undefined) this.rows.set(after.id, after)
    else if (before !== undefined) this.rows.delete(before.id)
    if (call === undefined || after === undefined) return
    if (signsOfLife.has(call.call)) this.beatAt.set(after.id, change.at)
    if (before === undefined) {
      const subject = after.meta === undefined ? undefined : subjectOf(JSON.parse(after.meta))
      if (subject !== undefined) this.subjects.set(after.id, subject)
      this.counted.stored()
      this.storedBy.set(after.id, call)
    }
    if (isClaim(change) && after.run !== undefined) {
      this.leases.set(after.run.lease, call)
      this.claims.push({ job: after.id, queue: after.queue, at: change.at })
      this.parked.delete(after.id)
      plus(this.claimCounts, `${call.who} ${after.id}`)
    } else if (call.call === "Queue.finalize" && before !== undefined) this.ended(call, before, after)
    else if (recovers.has(call.call) && before?.run !== undefined && after.run === undefined)
      this.counted.recovered(after.reason)
    else if (cancels.has(call.call) && after.status === "dead") this.counted.cancelled()
    else if (call.call === "Workflows.record") this.attempts.delete(after.id)
    else if (call.call === "Erasure.erase" && before !== undefined) this.erased.set(after.id, before)
    else if (call.call === "JobAdmin.requeue") {
      // Results are kept, and what runs again has a new attempt. Undos and attempts without a result start over.
      for (const [key, value] of [...this.recorded])
        if (key.startsWith(`${after.id} undo:`) || (key.startsWith(after.id) && value.startsWith("retrying ")))
          this.recorded.delete(key)
      this.attempts.delete(after.id)
      this.cancelled.delete(after.id)
    }
  }

  /** Records the reply of an operation. The simulation calls it. */
  answered(call: Call, answer: unknown): void {
    this.processes.answered(call, answer)
    if (call.call === "Queues.change") this.set(call.args[0] as string, call.args[1] as QueueSettingsPatch)
    if (call.call === "Leadership.campaign" && Option.isSome(answer as Option.Option<Term>)) this.led.push(call.at)
    if (call.call === "Queue.enqueue") this.heldBy(call, answer as ReadonlyArray<Enqueued>)
    if (call.call === "JobAdmin.cancel" && (answer as StoredJob).state !== "done") {
      this.cancelled.add(call.args[0] as JobId)
    }
    if (call.call === "Workflows.startChildren") this.started(call)
    if (call.call === "Workflows.endRace") this.raced(call.args as Parameters<typeof Workflows.Service.endRace>)
    if (call.call === "Workflows.pin") this.pinned.set((call.args[0] as HeldJob).id, answer as string)
    if (call.call === "Workflows.unpin") this.unpinned(call.args as Parameters<typeof Workflows.Service.unpin>)
    if (call.call === "MinuteBuckets.record") {
      const [pod, revision, counts] = call.args as [PodId, number, ReadonlyArray<BucketCount>]
      this.unwritten.delete(call.who)
      this.counted.recorded(call.who, pod, revision, counts)
    }
  }

  /** Whether this call inserted the job. Enqueue also returns the id of a job that existed before. */
  isNewBy(call: Call, job: JobId): boolean {
    return this.storedBy.get(job) === call
  }

  private heldBy(call: Call, answers: ReadonlyArray<Enqueued>): void {
    for (const [index, { dedupe }] of (call.args[0] as ReadonlyArray<NewJob>).entries()) {
      const id = answers[index]?.id
      if (dedupe === undefined || id === undefined || !this.isNewBy(call, id)) continue
      this.holders.set(dedupe.key, { id, scope: scopeOf(dedupe) })
    }
  }

  /** Children that were started before keep their ids. */
  private started(call: Call): void {
    const [{ id }, name] = call.args as Parameters<typeof Workflows.Service.startChildren>
    const stored = [...this.storedBy].flatMap(([job, by]) => (by === call ? [job] : []))
    if (stored.length > 0) this.children.set(`${id} ${name}`, stored)
  }

  /** The children that lost a race are cancelled, unless they are done. */
  private raced([execution, name, winner, isCancelled]: Parameters<typeof Workflows.Service.endRace>): void {
    const losers = (this.children.get(`${this.jobOf(execution)} ${name}`) ?? []).filter((_, index) => index !== winner)
    for (const id of losers) if (isCancelled && this.rows.get(id)?.status !== "done") this.cancelled.add(id)
  }

  private unpinned([which]: Parameters<typeof Workflows.Service.unpin>): void {
    const only = "execution" in which ? this.jobOf(which.execution) : undefined
    for (const [job, release] of [...this.pinned])
      if ("release" in which ? release === which.release : job === only) this.pinned.delete(job)
  }

  private set(queue: string, patch: QueueSettingsPatch): void {
    const current = this.settings.get(queue) ?? { paused: false, perKey: undefined, rate: undefined }
    this.settings.set(queue, {
      paused: patch.paused ?? current.paused,
      perKey: patch.perKey === undefined ? current.perKey : (patch.perKey ?? undefined),
      rate: patch.rate === undefined ? current.rate : (patch.rate ?? undefined)
    })
  }

  /** The execution continues with a new journal, which is not pinned. */
  private continued(job: JobId): void {
    for (const key of [...this.recorded.keys()]) if (key.startsWith(`${job} `)) this.recorded.delete(key)
    this.pinned.delete(job)
  }

  private ended(call: Call, before: JobRow, { reason, id, run, status }: JobRow): void {
    const end = endOf(call, before)?.end
    // The end of a child in the same call wakes an execution before its own end is written.
    if (end === undefined || run !== undefined) return
    if (end._tag === "Again" && end.parked === true) this.parked.add(id)
    if (end._tag === "Suspended" && end.continues !== undefined) this.continued(id)
    if (end._tag === "Again" && end.dying !== undefined) this.attempts.delete(id)
    else if (end._tag !== "Done" && end._tag !== "Suspended" && end.counted)
      this.attempts.set(id, (this.attempts.get(id) ?? 0) + 1)
    if (status === "done") this.counted.ended(call.who, "completed")
    else if (status === "dead") this.counted.ended(call.who, reason === "cancelled" ? "cancelled" : "dead")
    else if (end._tag === "Again" && end.remember !== undefined) this.counted.ended(call.who, "retried")
  }
}
