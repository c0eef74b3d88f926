import type { Level } from "../../telemetry/Level.js"

// Types without Effect: programs that use promises see them.

/** A line that a handler logged. */
export interface LoggedLine {
  /** When it was logged, in epoch milliseconds. */
  readonly at: number
  /** How severe it is. Lines below `LOG_LEVEL` are not stored. */
  readonly level: Level
  /** What was logged, with the values of masked fields hidden. */
  readonly message: string
  /** The workflow step whose code logged the line. */
  readonly step: string | undefined
  /** Message and stack trace of the error that was logged. */
  readonly error: string | undefined
  /** Other fields of the line. */
  readonly fields: Readonly<Record<string, unknown>> | undefined
}

/** What is stored of the log of an attempt. */
export interface StoredLog {
  /** Number of the attempt. Runs that did not use up the attempt have the same number. */
  readonly attempt: number
  /** Lines that were logged before the first one and are not stored. */
  readonly dropped: number
  /** The lines, oldest first. */
  readonly lines: ReadonlyArray<LoggedLine>
}
