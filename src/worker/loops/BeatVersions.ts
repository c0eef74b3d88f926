import { Duration } from "effect"
import type { Assignment } from "../../cluster/Pods.js"
import type { Topic } from "../../core/Versions.js"

/** A topic is read until no loop has asked for it for this long, in milliseconds. */
const readAfterAsk = 60_000

/** After a heartbeat with versions that failed or took longer than a beat, they are not read for this long, in milliseconds. */
const pauseOfVersions = 30_000

/** What the heartbeats of a process have read for its loops. Times are those of its monotonic clock, in milliseconds. */
export class BeatVersions {
  private readonly topics = new Map<
    Topic,
    { askedAt: number; every: number; readAt: number; version: string | undefined }
  >()
  private readonly listeners = new Set<() => void>()
  private pausedUntil = Number.NEGATIVE_INFINITY

  constructor(
    private readonly now: () => number,
    private readonly beat: number
  ) {}

  readonly of = (topic: Topic, every: Duration.Duration): string | undefined => {
    const now = this.now()
    const known = this.topics.get(topic)
    const wanted = Math.min(Duration.toMillis(every), known?.every ?? Number.POSITIVE_INFINITY)
    const next = known ?? { askedAt: now, every: wanted, readAt: Number.NEGATIVE_INFINITY, version: undefined }
    this.topics.set(topic, Object.assign(next, { askedAt: now, every: wanted }))
    return now - next.readAt < next.every + 2 * this.beat ? next.version : undefined
  }

  readonly onRead = (listener: () => void) => {
    this.listeners.add(listener)
    return () => void this.listeners.delete(listener)
  }

  /** The topics that the next heartbeat reads. Half a beat early, because timers are not exact. */
  due(): ReadonlyArray<Topic> {
    const now = this.now()
    if (now < this.pausedUntil) return []
    return [...this.topics].flatMap(([topic, { askedAt, every, readAt }]) =>
      now - askedAt < readAfterAsk && now - readAt >= every - this.beat / 2 ? [topic] : []
    )
  }

  read(sentAt: number, versions: NonNullable<Assignment["versions"]>, asked: ReadonlyArray<Topic>): void {
    for (const topic of asked) {
      const known = this.topics.get(topic)
      if (known !== undefined) Object.assign(known, { readAt: sentAt, version: versions[topic] ?? undefined })
    }
    if (asked.length > 0) for (const listener of this.listeners) listener()
  }

  pause(): void {
    this.pausedUntil = this.now() + pauseOfVersions
  }
}
