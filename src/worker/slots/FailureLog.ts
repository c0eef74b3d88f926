import { Effect } from "effect"
import * as DurationText from "../../core/DurationText.js"
import { RepeatedLines } from "../../core/RepeatedLines.js"
import type { End } from "../../queue/AttemptEnd.js"
import type { ClaimedJob } from "../../queue/Queue.js"
import { annotated, LoggedJob } from "./LoggedJob.js"

const retryText = ({ attempt, attempts }: ClaimedJob, runAt: number, now: number) => {
  const unit = runAt - now < 1000 ? 1 : 1000
  const delay = Math.max(0, Math.ceil((runAt - now) / unit) * unit)
  return `attempt ${attempt} of ${attempts}, retry in ${DurationText.format(delay)}`
}

/** Logs failed attempts and deaths of jobs, so that a failing handler shows up in the log. */
export class FailureLog {
  /** One failure and one death per kind. */
  private readonly lines = new RepeatedLines()

  /** Logs nothing for ends that are not failures: done, cancelled, throttled, returned unstarted, most suspensions. */
  of(job: ClaimedJob, end: End, now: number): Effect.Effect<void> {
    switch (end._tag) {
      case "Again": {
        if (end.error === undefined) return Effect.void
        if (end.unknownTimeout !== undefined)
          return this.line("unknown", job, end.error, now, (more) =>
            Effect.logWarning(`returned a job to the queue for another process${more}`)
          )
        if (end.dying !== undefined)
          return this.line("dead", job, end.error, now, (more) =>
            Effect.logError(`an execution failed (${end.dying}) and undoes its steps${more}`)
          )
        if (!end.counted) return Effect.void
        return this.line("failed", job, end.error, now, (more) =>
          Effect.logWarning(`a job failed (${retryText(job, end.runAt, now)})${more}`)
        )
      }
      case "Dead":
        return end.reason === "cancelled"
          ? Effect.void
          : this.line("dead", job, end.error ?? "no error was given", now, (more) =>
              Effect.logError(`a job is dead (${end.reason})${more}`)
            )
      case "Suspended": {
        if (!end.waits.some(({ kind }) => kind === "changed")) return Effect.void
        const id = job.execution?.id ?? job.id
        const next = `It is tried again in ${DurationText.format(Math.max(1_000, Math.round((end.runAt - now) / 1_000) * 1_000))}; \`nightshift workflows retry ${id}\` tries it now.`
        return this.line("changed", job, end.error, now, (more) =>
          Effect.logWarning(`execution ${id} is suspended${more}. ${next}`)
        )
      }
      default:
        return Effect.void
    }
  }

  private line(
    what: string,
    job: ClaimedJob,
    error: string | undefined,
    now: number,
    log: (more: string) => Effect.Effect<void>
  ) {
    const ofJob = (more: string) => log(more).pipe(annotated(LoggedJob.of(job)), Effect.annotateLogs({ error }))
    return this.lines.line(`${what} ${job.kind}`, now, ofJob)
  }
}
