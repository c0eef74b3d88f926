import type { JobId } from "../../core/Ids.js"
import { digest } from "./Seed.js"

/** One event of a run. */
export interface TraceEvent {
  /** Milliseconds since the start of the simulation. */
  readonly at: number
  /** Name of the process, or what else acted. */
  readonly who: string
  /** What happened, in words. */
  readonly what: string
  /** Jobs that the event is about. */
  readonly jobs: ReadonlyArray<JobId>
}

const instant = (at: number) => `+${(at / 1000).toFixed(3)}s`.padStart(10)

/** Formats an event as one line. */
export const line = ({ at, what, who }: TraceEvent): string => `${instant(at)}  ${who.padEnd(10)}  ${what}`

/** The readable event log of a run. Ids are shown as `job 1`, `job 2`, `lease 1`. */
export class Trace {
  private readonly happened: Array<TraceEvent> = []
  private readonly jobs = new Map<JobId, string>()
  private readonly leases = new Map<string, string>()
  private hash = digest("trace")

  /** `now` returns milliseconds since the start of the simulation. */
  constructor(private readonly now: () => number) {}

  get events(): ReadonlyArray<TraceEvent> {
    return this.happened
  }

  /** Hash of all events. */
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

  /** Returns the events of a job. */
  about(job: JobId): ReadonlyArray<TraceEvent> {
    return this.happened.filter(({ jobs }) => jobs.includes(job))
  }
}
