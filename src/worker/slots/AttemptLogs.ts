import { Context, Effect, Exit, FiberRef, FiberRefs, HashSet, identity, Logger } from "effect"
import { makeLatch } from "../../core/LoopSchedule.js"
import { type AttemptLog, attemptLog } from "../../handlers/AttemptLog.js"
import * as JobLogs from "../../queue/logs/JobLogs.js"
import type { ClaimedJob, HeldJob } from "../../queue/Queue.js"
import * as LogLine from "../../telemetry/LogLine.js"
import { WorkerConfig } from "../WorkerConfig.js"

// What handlers log, kept in memory until it is stored: with the end of the attempt, and about once a second while it runs.
// A logger of the slots' fibers receives the lines, so a job that logs nothing costs nothing.

/** The last lines of one run. */
export class AttemptLines {
  readonly id: HeldJob["id"]
  readonly lease: HeldJob["lease"]
  private readonly attempt: number
  private readonly texts: Array<string> = []
  private bytes = 0
  private count = 0
  private storedCount = 0

  /** Does not keep the job, whose payload may be large. */
  constructor(
    { attempt, id, lease }: ClaimedJob,
    private readonly bounds: JobLogs.LogBounds,
    /** Runs with lines that the next flush stores. */
    private readonly changed: {
      readonly add: (lines: AttemptLines) => void
      readonly delete: (lines: AttemptLines) => void
    }
  ) {
    this.id = id
    this.lease = lease
    this.attempt = attempt
  }

  add(text: string): void {
    this.count += 1
    this.texts.push(text)
    this.bytes += sizeOf(text)
    while (this.texts.length > this.bounds.lines || this.bytes > this.bounds.bytes) {
      this.bytes -= sizeOf(this.texts.shift() ?? "")
    }
    this.changed.add(this)
  }

  /** Undefined if all lines are stored. */
  unstored(): JobLogs.AttemptLog | undefined {
    if (this.count === this.storedCount || this.texts.length === 0) return undefined
    const { attempt, bounds, count, id, lease } = this
    return { id, lease, attempt, count, lines: [...this.texts], bounds }
  }

  /** What is to be stored with the end of the run. The next flush does not store it too. */
  final(): JobLogs.AttemptLog | undefined {
    this.changed.delete(this)
    return this.unstored()
  }

  /** The log with this many lines is stored. */
  stored(count: number): void {
    this.storedCount = Math.max(this.storedCount, count)
  }
}

const sizeOf = (text: string) => Buffer.byteLength(text) + 1

/** A run that may log. */
interface LoggedRun {
  readonly job: ClaimedJob
  lines: AttemptLines | undefined
}

/** A slot and its current run. */
interface LoggedSlot {
  readonly run: LoggedRun | undefined
  readonly abandoned: boolean
}

/** The log of one run. */
export class RunLog implements AttemptLog {
  constructor(
    private readonly logs: Pick<typeof AttemptLogs.Service, "add">,
    private readonly slot: LoggedSlot,
    private readonly run: LoggedRun
  ) {}

  keep(line: Logger.Logger.Options<unknown>): void {
    if (this.slot.run === this.run && !this.slot.abandoned) this.logs.add(this.run, line)
  }

  ofAttempt(): AttemptLog {
    return this
  }
}

/** The log of the runs of a slot. */
class SlotLog implements AttemptLog {
  constructor(
    private readonly logs: Pick<typeof AttemptLogs.Service, "add">,
    private readonly slot: LoggedSlot
  ) {}

  keep(line: Logger.Logger.Options<unknown>): void {
    this.ofAttempt()?.keep(line)
  }

  ofAttempt(): AttemptLog | undefined {
    const { run } = this.slot
    return run === undefined ? undefined : new RunLog(this.logs, this.slot, run)
  }
}

/** Names of fields that say which job the line is about, or which process wrote it. */
const known = new Set(["job", "kind", "queue", "attempt", "execution", "process", "trace", "span"])

/** The line as it is stored: without what the job says already. */
const storedLine = ({ error, level, msg, step, time, ...others }: LogLine.LogLine): JobLogs.LoggedLine => {
  const fields = Object.entries(others).filter(([name]) => !known.has(name))
  return {
    at: Date.parse(time),
    level,
    message: msg,
    step: typeof step === "string" ? step : undefined,
    error: typeof error === "string" ? error : undefined,
    fields: fields.length === 0 ? undefined : Object.fromEntries(fields)
  }
}

/** What the handlers of this process log. */
export class AttemptLogs extends Context.Tag("nightshift/worker/AttemptLogs")<
  AttemptLogs,
  {
    /** Keeps what the handlers of a slot log. */
    readonly keeping: (slot: LoggedSlot) => <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
    readonly add: (run: LoggedRun, line: Logger.Logger.Options<unknown>) => void
    /** Completes when a line was logged that is not stored. */
    readonly logged: Effect.Effect<void>
    /** Stores the lines of running attempts that are not stored yet. */
    readonly flush: Effect.Effect<void, unknown>
  }
>() {
  static readonly make: Effect.Effect<typeof AttemptLogs.Service, never, WorkerConfig | JobLogs.JobLogs> = Effect.gen(
    function* () {
      const { jobLogBytes, jobLogLines, jobLogs = true, mask = [] } = yield* WorkerConfig
      const store = yield* JobLogs.JobLogs
      const bounds = {
        lines: jobLogLines ?? JobLogs.defaultBounds.lines,
        bytes: jobLogBytes ?? JobLogs.defaultBounds.bytes
      }
      const lineOf = LogLine.make(mask)
      const latch = makeLatch()
      const changed = new Set<AttemptLines>()
      const note = (lines: AttemptLines) => {
        if (changed.has(lines)) return
        changed.add(lines)
        latch.open()
      }
      const flushed = { add: note, delete: (lines: AttemptLines) => void changed.delete(lines) }

      const add = (run: LoggedRun, line: Logger.Logger.Options<unknown>) => {
        run.lines ??= new AttemptLines(run.job, bounds, flushed)
        run.lines.add(JobLogs.encode(storedLine(lineOf(line))))
      }

      const logger = Logger.make<unknown, void>((line) => FiberRefs.getOrDefault(line.context, attemptLog)?.keep(line))

      /** The next logs to store. */
      const take = () => {
        const taken: Array<readonly [AttemptLines, JobLogs.AttemptLog]> = []
        let bytes = 0
        for (const lines of changed) {
          if (taken.length === JobLogs.perStatement.logs || bytes >= JobLogs.perStatement.bytes) break
          changed.delete(lines)
          const log = lines.unstored()
          if (log === undefined) continue
          taken.push([lines, log])
          bytes += JobLogs.sizeOf(log)
        }
        if (changed.size > 0) latch.open()
        return taken
      }

      const flush = Effect.suspend(() => {
        const taken = take()
        const logs = taken.map(([, log]) => log)
        return Effect.onExit(store.write(logs), (exit) =>
          Effect.sync(() => {
            for (const [lines, { count }] of taken) {
              if (Exit.isSuccess(exit)) lines.stored(count)
              else note(lines)
            }
          })
        )
      })

      const self: typeof AttemptLogs.Service = {
        add,
        logged: latch.opened,
        flush,
        keeping: (slot) =>
          jobLogs
            ? (effect) =>
                Effect.locallyWith(effect, FiberRef.currentLoggers, HashSet.add(logger)).pipe(
                  Effect.locally(attemptLog, new SlotLog(self, slot))
                )
            : identity
      }
      return self
    }
  )
}
