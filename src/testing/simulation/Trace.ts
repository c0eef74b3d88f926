import type { JobId } from "../../core/Ids.js"
import { digest } from "./Seed.js"

/** Something that happened. */
export interface TraceEvent {
  /** Milliseconds since the simulation began. */
  readonly at: number
  readonly who: string
  readonly what: string
  /** The jobs that it is about. */
  readonly jobs: ReadonlyArray<JobId>
}

const instant = (at: number) => `+${(at / 1000).toFixed(3)}s`.padStart(10)

/** A event in one line. */
export const line = ({ at, what, who }: TraceEvent): string => `${instant(at)}  ${who.padEnd(10)}  ${what}`

/** What happened, step by step, in words: ids are told as the first, second, ... of their sort. */
export class Trace {
  private readonly happened: Array<TraceEvent> = []
  private readonly jobs = new Map<JobId, string>()
  private readonly leases = new Map<string, string>()
  private hash = digest("trace")

  /** `now` is how long the simulation has lasted, in milliseconds. */
  constructor(private readonly now: () => number) {}

  get events(): ReadonlyArray<TraceEvent> {
    return this.happened
  }

  /** A few digits that are the same when all of it is. */
  get fingerprint(): string {
    return this.hash.toString(16).padStart(8, "0")
  }

  note(who: string, what: string, jobs: ReadonlyArray<JobId> = []): void {
    const event = { at: this.now(), who, what, jobs }
    this.happened.push(event)
    this.hash = digest(line(event), digest(jobs.join(), this.hash))
  }

  nameOf(job: JobId): string {
    const name = this.jobs.get(job) ?? `job ${this.jobs.size + 1}`
    this.jobs.set(job, name)
    return name
  }

  nameOfLease(lease: string): string {
    const name = this.leases.get(lease) ?? `lease ${this.leases.size + 1}`
    this.leases.set(lease, name)
    return name
  }

  /** All that happened to a job. */
  about(job: JobId): ReadonlyArray<TraceEvent> {
    return this.happened.filter(({ jobs }) => jobs.includes(job))
  }
}
