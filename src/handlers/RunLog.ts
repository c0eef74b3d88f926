import { Effect, LogLevel, Runtime } from "effect"
import * as AttemptLog from "./AttemptLog.js"
import type { HandlerLog, LogLine } from "./PromiseContext.js"

/** A log whose lines have the annotations of the runtime, and these, and are stored with the attempt. */
export class RunLog implements HandlerLog {
  readonly #runtime: Runtime.Runtime<never>
  readonly #attempt: AttemptLog.AttemptLog | undefined
  readonly #annotations: Readonly<Record<string, unknown>>

  constructor(
    runtime: Runtime.Runtime<never>,
    attempt: AttemptLog.AttemptLog | undefined,
    annotations: Readonly<Record<string, unknown>> = {}
  ) {
    this.#runtime = runtime
    this.#attempt = attempt
    this.#annotations = annotations
  }

  // The functions are made when they are read, because most handlers log nothing. They need no `this`.
  get debug(): LogLine {
    return this.#line(LogLevel.Debug)
  }

  get info(): LogLine {
    return this.#line(LogLevel.Info)
  }

  get warn(): LogLine {
    return this.#line(LogLevel.Warning)
  }

  get error(): LogLine {
    return this.#line(LogLevel.Error)
  }

  #line(level: LogLevel.LogLevel): LogLine {
    // Fields are not annotations: they would replace those of the same name, and their values are read when a line is made.
    return (...given) =>
      void Runtime.runSync(
        this.#runtime,
        Effect.logWithLevel(level, ...given).pipe(
          Effect.annotateLogs(this.#annotations),
          AttemptLog.within(this.#attempt)
        )
      )
  }
}
