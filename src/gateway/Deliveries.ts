import { Clock, Context, Effect, Layer } from "effect"
import { type JobId, millisOf } from "../core/Ids.js"

// Recent webhook deliveries to this process, for operators. Thousands per second arrive here, so they are kept only in
// bounded memory and are lost when the process ends. The jobs are durable.

/** Maximum number of deliveries kept per bot or source. */
export const maxDeliveries = 100

/** A delivery, including its redeliveries. */
export interface Delivery {
  /** The id assigned by the sender. */
  readonly id: string
  readonly firstSeenAt: number
  readonly lastSeenAt: number
  /** Number of redeliveries. */
  readonly redelivered: number
  /** The outcome, with the same values as the metric label. */
  readonly outcome: string
  readonly job: JobId | undefined
}

type Mutable<A> = { -readonly [Key in keyof A]: A[Key] }

/** Deliveries to one bot or source. */
export class DeliveryBook {
  private readonly counted = new Map<string, number>()
  private readonly remembered = new Map<string, Mutable<Delivery>>()
  private last: number | undefined

  /** Counts a request, including rejected ones. */
  count(outcome: string, now: number): void {
    this.counted.set(outcome, (this.counted.get(outcome) ?? 0) + 1)
    this.last = now
  }

  /** Records an accepted delivery under the sender's id. */
  note(id: string, outcome: string, job: JobId | undefined, now: number): void {
    const isAgain = outcome === "duplicate"
    const known = this.remembered.get(id)
    if (known === undefined) {
      // The first delivery went to another pod or was evicted here. The job id contains its time.
      const firstSeenAt = isAgain && job !== undefined ? millisOf(job) : now
      const redelivered = isAgain ? 1 : 0
      this.remembered.set(id, {
        id,
        firstSeenAt,
        lastSeenAt: now,
        redelivered,
        outcome: isAgain ? "stored" : outcome,
        job
      })
      const [oldest] = this.remembered.keys()
      if (this.remembered.size > maxDeliveries && oldest !== undefined) this.remembered.delete(oldest)
      return
    }
    // With concurrent deliveries, the duplicate may be recorded before the one that was stored.
    if (outcome !== "stored" || known.job === undefined) known.redelivered += 1
    known.lastSeenAt = now
    known.job = job ?? known.job
    if (!isAgain) known.outcome = outcome
  }

  /** Number of requests by outcome since the process started. */
  get counts(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.counted)
  }

  get lastSeenAt(): number | undefined {
    return this.last
  }

  /** The newest deliveries, unordered. */
  get recent(): ReadonlyArray<Delivery> {
    return [...this.remembered.values()].map((delivery) => ({ ...delivery }))
  }
}

/** Recent webhook deliveries of this process. */
export class Deliveries extends Context.Tag("nightshift/gateway/Deliveries")<
  Deliveries,
  {
    /** Start of the recording, in epoch milliseconds. */
    readonly since: number
    /**
     * Returns the deliveries of a bot (`telegram/NAME`) or a source. Call it for declared names only: each name
     * allocates memory that is never freed.
     */
    readonly book: (hook: string) => DeliveryBook
  }
>() {
  static readonly layer: Layer.Layer<Deliveries> = Layer.effect(
    Deliveries,
    Effect.map(Clock.currentTimeMillis, (since) => {
      const books = new Map<string, DeliveryBook>()
      return {
        since,
        book: (hook) => {
          const known = books.get(hook) ?? new DeliveryBook()
          books.set(hook, known)
          return known
        }
      }
    })
  )
}
