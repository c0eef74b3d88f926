import { Option } from "effect"
import type { JobId, PodId } from "../../core/Ids.js"
import type { StoredJob } from "../../core/StoredJob.js"
import type { Term } from "../../core/Term.js"
import type { AttemptEnd } from "../../queue/AttemptEnd.js"
import type { NewJob } from "../../queue/enqueue/NewJob.js"
import type { JobRow } from "../../queue/JobRowMemory.js"
import type { Enqueued } from "../../queue/Queue.js"
import type { QueueSettings, QueueSettingsPatch } from "../../queue/settings/QueueSettings.js"
import type { BucketCount, JobCounts } from "../../telemetry/BucketCount.js"
import { CountsModel } from "./CountsModel.js"
import type { Trace } from "./Trace.js"

/** A call that has reached the database. */
export interface Call {
  readonly who: string
  /** `Queue.claim` */
  readonly call: string
  readonly args: ReadonlyArray<unknown>
  /** Epoch milliseconds, as everybody would see them who had the right time, and as the caller sees them. */
  readonly at: number
  readonly local: number
}

/** A row that was written; by nobody's call when a transaction was taken back. */
export interface Change {
  readonly call: Call | undefined
  readonly at: number
  readonly before: JobRow | undefined
  readonly after: JobRow | undefined
}

/** A handler at work. */
export interface Run {
  readonly who: string
  readonly job: JobId
  readonly began: number
  /** How it ended, once it has. */
  how: string | undefined
}

interface Claim {
  readonly job: JobId
  readonly queue: string
  readonly at: number
}

/** How it stands when all is over. */
export interface Ending {
  /** How long the cluster was given to finish, in milliseconds, once nothing went wrong any more. */
  readonly waited: number
  /** Whatever has not ended although it was told to. */
  readonly leftovers: ReadonlyArray<string>
  /** All that was counted by all pods, as charts show it. */
  readonly charted: JobCounts
}

/** What a pod says about how it ended this run of a job; it may speak of an earlier one in the same breath. */
export const endOf = (call: Call, { id, run }: JobRow): AttemptEnd | undefined => {
  const ends = (call.args[0] as ReadonlyArray<AttemptEnd>).filter((end) => end.id === id)
  return ends.find(({ lease }) => lease === run?.lease) ?? ends[0]
}

const signsOfLife = new Set(["Queue.claim", "Queue.heartbeat"])

type Settings = Pick<QueueSettings, "paused" | "perKey" | "rate">

const plus = (counts: Map<string, number>, key: string) => counts.set(key, (counts.get(key) ?? 0) + 1)

/**
 * What the checker knows: learned from what was asked and answered, not from what the database believes about it, so that
 * the one can be held against the other.
 */
export class History {
  readonly rows = new Map<JobId, JobRow>()
  readonly runs: Array<Run> = []
  readonly claims: Array<Claim> = []
  readonly leases = new Map<string, Call>()
  /** As operators set them, by queue. */
  readonly settings = new Map<string, Settings>()
  /** Jobs whose cancel was answered. */
  readonly cancelled = new Set<JobId>()
  /** Jobs whose enqueue was answered, as far as whoever asked has heard it. */
  readonly acknowledged = new Set<JobId>()
  /** Attempts that count, since the job was stored or put back by an operator. */
  readonly attempts = new Map<JobId, number>()
  /** Who was stored last under a dedupe key. */
  readonly holders = new Map<string, { readonly id: JobId; readonly scope: string }>()
  readonly counted = new CountsModel()
  /** When a run last showed a sign of life, by the one true time. */
  readonly beatAt = new Map<JobId, number>()
  /** When a pod took the leader's lease or renewed it. */
  readonly led: Array<number> = []
  /** When faults ended, and when the pods were stopped. */
  calm: { readonly from: number; until: number } | undefined
  /** How often the database's clock jumped. */
  clockSteps = 0
  readonly killed = new Set<string>()
  /** Pods whose last try to write what they counted did not reach the database. */
  readonly unwritten = new Set<string>()
  readonly grants: Array<{ readonly scope: string; readonly at: number }> = []
  /** Commits whose answer nobody heard: what they hold stands, and whoever asked does not know. */
  lostCommits = 0
  ending: Ending | undefined
  private readonly storedBy = new Map<JobId, Call>()
  private readonly claimCounts = new Map<string, number>()
  private readonly runCounts = new Map<string, number>()

  constructor(readonly trace: Trace) {}

  nameOf(job: JobId): string {
    return this.trace.nameOf(job)
  }

  /** How often somebody claimed a job, and how often they began it. */
  handsOn(who: string, job: JobId): { readonly claimed: number; readonly begun: number } {
    const key = `${who} ${job}`
    return { claimed: this.claimCounts.get(key) ?? 0, begun: this.runCounts.get(key) ?? 0 }
  }

  began(run: Run): void {
    this.runs.push(run)
    plus(this.runCounts, `${run.who} ${run.job}`)
    this.counted.began(run.who)
  }

  changed(change: Change): void {
    const { call, after, before } = change
    if (after !== undefined) this.rows.set(after.id, after)
    else if (before !== undefined) this.rows.delete(before.id)
    if (call === undefined || after === undefined) return
    if (signsOfLife.has(call.call)) this.beatAt.set(after.id, change.at)
    if (before === undefined) {
      this.counted.stored()
      this.storedBy.set(after.id, call)
    }
    if (call.call === "Queue.claim" && after.run !== undefined) {
      this.leases.set(after.run.lease, call)
      this.claims.push({ job: after.id, queue: after.queue, at: change.at })
      plus(this.claimCounts, `${call.who} ${after.id}`)
    } else if (call.call === "Queue.finalize" && before !== undefined) this.ended(call, before, after)
    else if (call.call === "Queue.recoverStuck" && before !== undefined) this.counted.recovered(after.status)
    else if (call.call === "JobAdmin.cancel" && after.status === "dead") this.counted.cancelled()
    else if (call.call === "JobAdmin.requeue") {
      this.attempts.delete(after.id)
      this.cancelled.delete(after.id)
    }
  }

  answered(call: Call, answer: unknown): void {
    if (call.call === "Queues.change") this.set(call.args[0] as string, call.args[1] as QueueSettingsPatch)
    if (call.call === "Leadership.campaign" && Option.isSome(answer as Option.Option<Term>)) this.led.push(call.at)
    if (call.call === "Queue.enqueue") this.heldBy(call, answer as ReadonlyArray<Enqueued>)
    if (call.call === "JobAdmin.cancel" && (answer as StoredJob).status !== "done") {
      this.cancelled.add(call.args[0] as JobId)
    }
    if (call.call === "MinuteBuckets.record") {
      const [pod, revision, counts] = call.args as [PodId, number, ReadonlyArray<BucketCount>]
      this.unwritten.delete(call.who)
      this.counted.recorded(call.who, pod, revision, counts)
    }
  }

  /** Whether a job was stored by this call: one that stood before is answered as if it had been. */
  isNewBy(call: Call, job: JobId): boolean {
    return this.storedBy.get(job) === call
  }

  private heldBy(call: Call, answers: ReadonlyArray<Enqueued>): void {
    for (const [index, { dedupe }] of (call.args[0] as ReadonlyArray<NewJob>).entries()) {
      const id = answers[index]?.id
      if (dedupe === undefined || id === undefined || !this.isNewBy(call, id)) continue
      this.holders.set(dedupe.key, { id, scope: dedupe.scope })
    }
  }

  private set(queue: string, patch: QueueSettingsPatch): void {
    const standing = this.settings.get(queue) ?? { paused: false, perKey: undefined, rate: undefined }
    this.settings.set(queue, {
      paused: patch.paused ?? standing.paused,
      perKey: patch.perKey === undefined ? standing.perKey : (patch.perKey ?? undefined),
      rate: patch.rate === undefined ? standing.rate : (patch.rate ?? undefined)
    })
  }

  private ended(call: Call, before: JobRow, { id, status }: JobRow): void {
    const end = endOf(call, before)?.end
    if (end === undefined) return
    if (end._tag !== "Done" && end.counted) this.attempts.set(id, (this.attempts.get(id) ?? 0) + 1)
    if (status === "done" || status === "dead") this.counted.ended(call.who, status)
    else if (end._tag === "Again" && end.remember !== undefined) this.counted.ended(call.who, "retried")
  }
}
