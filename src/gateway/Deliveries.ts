import { Clock, Context, Effect, Layer } from "effect"
import { type JobId, millisOf } from "../core/Ids.js"

// What came to this process's door for webhooks, for people to look at. Thousands a second pass here, so nothing is written
// anywhere: it is a little memory, and it goes with the process. Jobs are what lasts.

/** How many deliveries each bot and source is remembered by. */
export const mostRemembered = 100

/** One thing that a sender delivered, however often it did. */
export interface Delivery {
  /** What its sender calls it. */
  readonly id: string
  readonly firstSeenAt: number
  readonly lastSeenAt: number
  /** How often it came again. */
  readonly redelivered: number
  /** What became of it, in the words of the metric. */
  readonly outcome: string
  readonly job: JobId | undefined
}

type Mutable<A> = { -readonly [Key in keyof A]: A[Key] }

/** What came for one bot or source. */
export class DeliveryBook {
  private readonly counted = new Map<string, number>()
  private readonly remembered = new Map<string, Mutable<Delivery>>()
  private last: number | undefined

  /** Everything that knocked, whatever became of it. */
  count(outcome: string, now: number): void {
    this.counted.set(outcome, (this.counted.get(outcome) ?? 0) + 1)
    this.last = now
  }

  /** A delivery that was let in, by its sender's id. */
  note(id: string, outcome: string, job: JobId | undefined, now: number): void {
    const isAgain = outcome === "duplicate"
    const known = this.remembered.get(id)
    if (known === undefined) {
      // One that came before our memory begins, or to another pod: its job's id knows when that was.
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
      if (this.remembered.size > mostRemembered) this.forgetOldest()
      return
    }
    // Of deliveries that arrive at once, one that was found to be a duplicate may be noted before the one that was stored.
    if (outcome !== "stored" || known.job === undefined) known.redelivered += 1
    known.lastSeenAt = now
    known.job = job ?? known.job
    if (!isAgain) known.outcome = outcome
  }

  private forgetOldest(): void {
    for (const id of this.remembered.keys()) {
      this.remembered.delete(id)
      return
    }
  }

  /** How many came to which end, since the process started. */
  get counts(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.counted)
  }

  get lastSeenAt(): number | undefined {
    return this.last
  }

  /** The newest, in no order. */
  get recent(): ReadonlyArray<Delivery> {
    return [...this.remembered.values()].map((delivery) => ({ ...delivery }))
  }
}

/** What this process remembers of webhooks. */
export class Deliveries extends Context.Tag("nightshift/gateway/Deliveries")<
  Deliveries,
  {
    /** Since when. */
    readonly since: number
    /** The book of a bot (`telegram/` and its name) or a source. Only for those that are declared: it is kept. */
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
