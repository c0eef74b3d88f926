/** Defaults that a kind sets for its jobs, in code or as processes without its code know it. */
export interface KindDefaults {
  /** Name that is stored with every job and selects its handler. */
  readonly name: string
  /** Current version of the payload. */
  readonly version: number
  /** Queue for jobs that name none. */
  readonly queue: string
  /** The kind declares no queue: a matching route takes precedence over `queue`. */
  readonly routed?: boolean | undefined
  /** Attempts before a job is dead, counting the first. */
  readonly attempts: number
  /** Lower runs first, from -32768 to 32767. [0] */
  readonly priority?: number | undefined
}
