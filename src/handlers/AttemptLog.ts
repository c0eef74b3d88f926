import { Effect, FiberRef, FiberRefs, type Logger, Option, type Runtime } from "effect"

/** Keeps the lines that attempts log, to store them beside the job. */
export interface AttemptLog {
  /** Keeps a line, unless its attempt has ended. */
  readonly keep: (line: Logger.Logger.Options<unknown>) => void
  /** The log of the attempt that runs now. */
  readonly ofAttempt: () => AttemptLog | undefined
}

/**
 * The log of the attempts that this fiber runs, one after another. A fiber that a handler starts belongs to one attempt: it
 * may outlive it, and its later lines must not be those of the next job.
 */
export const attemptLog: FiberRef.FiberRef<AttemptLog | undefined> = FiberRef.unsafeMake<AttemptLog | undefined>(
  undefined,
  { fork: (log) => log?.ofAttempt(), join: (parent) => parent }
)

/** The log of the attempt that runs in this runtime now. */
export const currentIn = (runtime: Runtime.Runtime<never>): AttemptLog | undefined =>
  Option.getOrUndefined(FiberRefs.get(runtime.fiberRefs, attemptLog))?.ofAttempt()

/** Lines of the effect belong to this attempt. */
export const within = (
  log: AttemptLog | undefined
): (<A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>) => Effect.locally(attemptLog, log)
