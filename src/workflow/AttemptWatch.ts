import { Duration, Effect, Either, Fiber } from "effect"
import { format } from "../core/DurationText.js"
import { jsonText } from "../core/Storable.js"
import { limits } from "../core/StoredJob.js"
import type { ClaimedExecution } from "../queue/Queue.js"
import type { StoredBeat } from "../queue/workflow/Execution.js"
import type { NewHeartbeat } from "../queue/workflow/Workflows.js"

// The heartbeats and the time limits of one attempt of a step. A heartbeat moves the deadline of the run at once; its details
// are stored at most every few seconds, and before an attempt that did not succeed is recorded.

/** Minimum time between two writes of heartbeats of an attempt. */
const writeEvery = Duration.seconds(5)

/** The attempt that is watched. Durations are in milliseconds. */
export interface Watched {
  readonly name: string
  readonly attempt: number
  readonly startedAt: number
  readonly timeout: number | undefined
  readonly heartbeatTimeout: number | undefined
}

/** The run of the attempt. */
export interface WatchHost {
  readonly execution: ClaimedExecution
  /** The details of the last heartbeat of a step. */
  lastHeartbeat(name: string): unknown
  /** Keeps a heartbeat for the next attempt in this run. */
  keepHeartbeat(name: string, beat: StoredBeat): void
  /** Stores a heartbeat for an attempt in another run. */
  storeHeartbeat(beat: NewHeartbeat): Promise<void>
  /** Starts a timer. */
  watch<A, E>(effect: Effect.Effect<A, E>): Fiber.RuntimeFiber<A, E>
  /** The error of a heartbeat whose details cannot be stored. */
  refusal(message: string): Error
}

/** The attempt took too long. */
class AttemptTimedOut extends Error {
  override readonly name = "TimeoutError"
}

export class AttemptWatch {
  /** Whether the attempt has ended. What its code still does has no effect. */
  isOver = false
  private timer: Fiber.RuntimeFiber<void> | undefined
  private readonly own: AbortController | undefined
  private combined: AbortSignal | undefined
  private beatAt: number
  /** What the last heartbeat of an earlier attempt sent. */
  readonly last: unknown
  private details: unknown
  /** Whether a heartbeat is not stored yet. */
  private isUnsaved = false
  private written: Promise<void> | undefined
  private pause: Fiber.RuntimeFiber<void> | undefined

  constructor(
    private readonly host: WatchHost,
    private readonly now: () => number,
    private readonly watched: Watched
  ) {
    this.beatAt = watched.startedAt
    this.last = host.lastHeartbeat(watched.name)
    this.details = this.last
    const { heartbeatTimeout, timeout } = watched
    this.extend(timeout)
    this.extend(heartbeatTimeout)
    if (timeout !== undefined || heartbeatTimeout !== undefined) this.own = new AbortController()
  }

  /** Lets the run take as long as a limit of this attempt. */
  private extend(limit: number | undefined): void {
    if (limit !== undefined) this.host.execution.state.extend(limit)
  }

  /** The run's signal, which is also aborted when this attempt times out. */
  signal(run: () => AbortSignal): AbortSignal {
    if (this.own === undefined) return run()
    this.combined ??= AbortSignal.any([run(), this.own.signal])
    return this.combined
  }

  readonly heartbeat = (details?: unknown): void => {
    if (this.isOver) return
    if (details !== undefined) this.details = this.stored(details)
    this.host.execution.state.extend()
    this.extend(this.watched.heartbeatTimeout)
    this.beatAt = this.now()
    this.isUnsaved = true
    this.host.keepHeartbeat(this.watched.name, { attempt: this.watched.attempt, details: this.details })
    if (this.pause === undefined) this.write()
  }

  /** Stores the last heartbeat now, and later ones after a pause. */
  private write(): void {
    void this.save()
    const next = Effect.sync(() => {
      this.pause = undefined
      if (this.isUnsaved && !this.isOver) this.write()
    })
    this.pause = this.host.watch(Effect.zipRight(Effect.sleep(writeEvery), next))
  }

  private save(): Promise<void> {
    const { attempt, name, startedAt, timeout } = this.watched
    const timeoutAt = timeout === undefined ? undefined : startedAt + timeout
    this.isUnsaved = false
    this.written = (this.written ?? Promise.resolve())
      .then(() => this.host.storeHeartbeat({ name, attempt, startedAt, timeoutAt, details: this.details }))
      .catch(() => {
        // The next heartbeat is stored, or the lease is lost and the run is stopped.
        this.isUnsaved = true
      })
    return this.written
  }

  /** Waits for the code, at most until the attempt times out. */
  within<A>(code: Promise<A>): Promise<A> {
    const { own } = this
    if (own === undefined) return code
    code.catch(() => {})
    return new Promise((resolve, reject) => {
      code.then(resolve, reject)
      const expire = (reason: string) =>
        Effect.sync(() => {
          this.isOver = true
          const error = new AttemptTimedOut(reason)
          reject(error)
          own.abort(error)
        })
      this.timer = this.host.watch(Effect.flatMap(this.expiry, expire))
    })
  }

  /** The reason for which the attempt times out, when it does. */
  private get expiry(): Effect.Effect<string> {
    const { heartbeatTimeout, timeout } = this.watched
    const text = (millis: number) => format(Duration.millis(millis))
    const total =
      timeout === undefined ? Effect.never : Effect.as(Effect.sleep(timeout), `timed out after ${text(timeout)}`)
    if (heartbeatTimeout === undefined) return total
    const silence: Effect.Effect<string> = Effect.suspend(() => {
      const left = this.beatAt + heartbeatTimeout - this.now()
      return left > 0
        ? Effect.zipRight(Effect.sleep(left), silence)
        : Effect.succeed(`timed out: no heartbeat for ${text(heartbeatTimeout)}`)
    })
    return Effect.raceFirst(total, silence)
  }

  /** The attempt has ended. */
  close(): void {
    this.isOver = true
    if (this.timer !== undefined) this.host.watch(Fiber.interrupt(this.timer))
    if (this.pause !== undefined) this.host.watch(Fiber.interrupt(this.pause))
  }

  /** The attempt has ended without a result. Its last heartbeat is stored for the next attempt. */
  async closeFailed(): Promise<void> {
    this.close()
    await (this.isUnsaved ? this.save() : this.written)
  }

  /** The details after a JSON round trip, so that an attempt in this run sees what one in another run would see. */
  private stored(details: unknown): unknown {
    const text = jsonText(details, limits.heartbeatBytes)
    if (Either.isRight(text)) return JSON.parse(text.right)
    throw this.host.refusal(`The details of a heartbeat of "${this.watched.name}" ${text.left}.`)
  }
}
