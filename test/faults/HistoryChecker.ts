import { Array as Arrays } from "effect"

// Compares the responses to callers with the rows in the database and the effects of the handlers. The numbers are those of the
// promises in docs/operate/faults.md.

/** A job whose enqueue was attempted. */
export interface Attempted {
  readonly id: string
  readonly kind: string
  readonly key?: string
  /** The position among the jobs of its key. */
  readonly n?: number
  /** Not before this instant. */
  readonly runAt?: number
  /** How it must end. */
  readonly expected: "done" | "dead" | "either"
  /** What its run must have seen, for example the digest of an upload or the value of a signal. */
  readonly value?: string
  /** How many of its first attempts fail. */
  readonly failures?: number
}

/** A line of the handlers' ledger: a run starts, ends with a result, or stops without one (failed or asked to stop). */
export interface RunEvent {
  readonly event: "start" | "end" | "stop"
  readonly job: string
  readonly kind: string
  readonly attempt: number
  /** Identifies one run of one handler in one process. */
  readonly run: string
  readonly pid: number
  readonly at: number
  readonly value?: string
}

/**
 * A time in which a process could not renew its leases: it was stopped (SIGSTOP), its event loop was blocked, or it could
 * not write to the database. A process that has ended is absent for ever.
 */
export interface Absence {
  readonly pid: number
  readonly from: number
  readonly to: number
}

/** A job's row at the end. */
export interface JobRow {
  readonly id: string
  readonly status: string
  readonly attempt: number
  readonly attempts: number
  readonly run: string | null
  readonly reason: string | null
  /** Whether it was erased, with the run that its result named. */
  readonly erased?: boolean
}

export interface Facts {
  readonly attempted: ReadonlyArray<Attempted>
  readonly acknowledged: ReadonlySet<string>
  readonly rows: ReadonlyArray<JobRow>
  readonly events: ReadonlyArray<RunEvent>
  readonly absences: ReadonlyArray<Absence>
  /** Effects of transactional jobs that were committed, one entry per row. */
  readonly committed: ReadonlyArray<string>
  /** Finished rows that were seen to change. */
  readonly changedAfterEnd: ReadonlyArray<string>
  /** The pods' count of completed jobs, or undefined if a pod was killed and lost its last flush. */
  readonly counted?: number | undefined
}

interface Run {
  readonly job: string
  readonly pid: number
  readonly start: number
  /** When it ended with a result. */
  readonly end?: number
  /** When it ended in any way. */
  readonly over?: number
  readonly value?: string | undefined
}

const runsOf = (events: ReadonlyArray<RunEvent>): ReadonlyMap<string, Run> => {
  const runs = new Map<string, Run>()
  for (const { at, event, job, pid, run, value } of events) {
    const known = runs.get(run)
    if (event === "start") runs.set(run, { job, pid, start: at })
    else if (known !== undefined) {
      runs.set(run, { ...known, over: known.over ?? at, ...(event === "end" ? { end: at, value } : {}) })
    }
  }
  return runs
}

/** Kinds that commit one effect with their result, and the workflow that does so in a step. */
const transactional = new Set(["once", "order"])

/** The clocks of pods and of the test may differ by this much on one machine. */
const clockTolerance = 50

/** Returns every broken promise as a sentence; empty if all hold. */
export const check = (facts: Facts): ReadonlyArray<string> => {
  const found: Array<string> = []
  const rows = new Map(facts.rows.map((row) => [row.id, row]))
  const attempted = new Map(facts.attempted.map((job) => [job.id, job]))
  const runs = runsOf(facts.events)
  const starts = new Map<string, Array<number>>()
  for (const { job, start } of runs.values()) starts.set(job, [...(starts.get(job) ?? []), start])

  if (rows.size < facts.rows.length) {
    const seen = new Set<string>()
    for (const { id } of facts.rows) if (seen.has(id) || !seen.add(id)) found.push(`job ${id} was stored twice`)
  }
  for (const id of facts.acknowledged) if (!rows.has(id)) found.push(`job ${id} was acknowledged and is lost`)
  for (const row of facts.rows) {
    const job = attempted.get(row.id)
    if (job === undefined) {
      found.push(`job ${row.id} was never enqueued`)
      continue
    }
    if (row.status !== "done" && row.status !== "dead") found.push(`job ${row.id} never ended: ${row.status}`)
    else if (job.expected !== "either" && row.status !== job.expected) {
      found.push(`job ${row.id} is ${row.status} (${row.reason}) and not ${job.expected}`)
    }
    if (row.attempt > row.attempts) found.push(`job ${row.id} had ${row.attempt} of ${row.attempts} attempts`)
    if (row.status !== "done") continue
    const recorded = row.run === null ? undefined : runs.get(row.run)
    const hasEnded = () => [...runs.values()].some(({ end, job }) => job === row.id && end !== undefined)
    if (row.erased === true && hasEnded()) continue
    if (recorded?.job !== row.id || recorded.end === undefined) {
      found.push(`job ${row.id} is done by run ${row.run}, which never ended`)
    } else if (job.value !== undefined && recorded.value !== job.value) {
      found.push(`job ${row.id} saw ${recorded.value} and not ${job.value}`)
    }
    if (job.failures !== undefined && row.attempt <= job.failures) {
      found.push(`job ${row.id} is done in attempt ${row.attempt}, and its first ${job.failures} attempts fail`)
    }
    const first = Math.min(...(starts.get(row.id) ?? []))
    if (job.runAt !== undefined && first < job.runAt - clockTolerance) {
      found.push(`job ${row.id} started ${job.runAt - first} ms before its time`)
    }
  }
  for (const id of new Set(facts.changedAfterEnd)) found.push(`job ${id} changed after it had ended`)

  const commits = new Map<string, number>()
  for (const id of facts.committed) commits.set(id, (commits.get(id) ?? 0) + 1)
  for (const { id, kind } of facts.attempted) {
    if (!transactional.has(kind)) continue
    const wanted = rows.get(id)?.status === "done" ? 1 : 0
    const effects = commits.get(id) ?? 0
    if (effects !== wanted) found.push(`transactional job ${id} has ${effects} committed effects and not ${wanted}`)
  }

  found.push(...checkOverlaps(runs, facts.absences), ...checkOrder(facts, rows, runs, starts))
  const done = facts.rows.filter(({ status }) => status === "done").length
  if (facts.counted !== undefined && facts.counted !== done) {
    found.push(`the processes counted ${facts.counted} completed jobs, and ${done} are done`)
  }
  return found
}

/**
 * A run is live from its start until it is over or its process becomes absent; a run that starts while its process is
 * absent is never live. Two live runs of one job do not overlap, neither in two processes nor in one.
 */
const checkOverlaps = (runs: ReadonlyMap<string, Run>, absences: ReadonlyArray<Absence>): ReadonlyArray<string> => {
  const live = [...runs.values()].map(({ job, over = Number.POSITIVE_INFINITY, pid, start }) => {
    const away = absences
      .filter((absence) => absence.pid === pid && absence.to > start)
      .map(({ from }) => Math.max(from, start))
    return { job, pid, start, end: Math.min(over, ...away) }
  })
  return Object.entries(Arrays.groupBy(live, ({ job }) => job)).flatMap(([job, ofJob]) => {
    const inOrder = ofJob.filter(({ end, start }) => end > start).sort((one, other) => one.start - other.start)
    return inOrder.slice(1).flatMap((next, index) => {
      const before = inOrder.slice(0, index + 1).find(({ end }) => end > next.start)
      return before === undefined
        ? []
        : [`job ${job} started in process ${next.pid} while process ${before.pid} was still running it`]
    })
  })
}

/** In strict order, a job starts only after its predecessor's recorded run has ended. */
const checkOrder = (
  facts: Facts,
  rows: ReadonlyMap<string, JobRow>,
  runs: ReadonlyMap<string, Run>,
  starts: ReadonlyMap<string, ReadonlyArray<number>>
): ReadonlyArray<string> => {
  const found: Array<string> = []
  const keys = new Map<string, Array<Attempted>>()
  for (const job of facts.attempted) {
    if (job.key !== undefined && rows.has(job.id)) keys.set(job.key, [...(keys.get(job.key) ?? []), job])
  }
  for (const [key, jobs] of keys) {
    const inOrder = jobs.sort((one, other) => (one.n ?? 0) - (other.n ?? 0))
    inOrder.slice(1).forEach((job, index) => {
      const before = inOrder[index]
      const end = runs.get(rows.get(before?.id ?? "")?.run ?? "")?.end
      const first = Math.min(...(starts.get(job.id) ?? [Number.POSITIVE_INFINITY]))
      if (end !== undefined && first < end) {
        found.push(`job ${job.n} of key ${key} started ${end - first} ms before job ${before?.n} ended`)
      }
    })
  }
  return found
}
