import { Context, type Duration } from "effect"

/** What loops poll. The heartbeat of a process reads a version of each that its loops ask for. */
export type Topic = "settings" | "slots" | "pending" | "late" | "due" | "schedules" | "operations" | "stuck" | "dead"

const none = {
  /** The version as of a heartbeat less than `every` and two beats ago. Undefined as in `Polled`. */
  of: (_topic: Topic, _every: Duration.Duration): string | undefined => undefined,
  /** Calls the listener after each heartbeat that read versions, until the returned function is called. */
  onRead:
    (_listener: () => void): (() => void) =>
    () => {}
}

/**
 * Versions of what the loops of this process poll, read by its heartbeats. While a version is unchanged, a pass would find nothing,
 * and the loop saves its statement.
 */
export class Versions extends Context.Reference<Versions>()("nightshift/core/Versions", {
  // Tables in memory have no versions: there is no statement to save.
  defaultValue: () => none
}) {
  /** No heartbeat reads versions. */
  static readonly none: typeof none = none
}

/** The version of everything that a loop polls. */
export interface Polled {
  /** Undefined if it is not known, or if a pass may find something even though nothing changes. Asks for it in any case. */
  readonly version: () => string | undefined
  /** Starts a pass and returns the version from before its first read. */
  readonly begin: () => string | undefined
  /** Reports that the pass has succeeded, with the version of `begin`; undefined if the next pass is needed in any case. */
  readonly passed: (version: string | undefined) => void
  /** Whether the version is the one of the last pass. */
  readonly isUnchanged: () => boolean
  /** Calls the listener after each heartbeat that read versions, until the returned function is called. */
  readonly onRead: (listener: () => void) => () => void
}

/** The versions of these topics, read at least as often as `every`. */
export const polled = (
  versions: typeof Versions.Service,
  topics: ReadonlyArray<Topic>,
  every: Duration.Duration
): Polled => {
  let last: string | undefined
  const version = () => {
    const found = topics.map((topic) => versions.of(topic, every))
    return found.length === 0 || found.includes(undefined) ? undefined : found.join("\n")
  }
  return {
    version,
    begin: () => {
      last = undefined
      return version()
    },
    passed: (seen) => {
      last = seen
    },
    isUnchanged: () => {
      const now = version()
      return now !== undefined && now === last
    },
    onRead: versions.onRead
  }
}
