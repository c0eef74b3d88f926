import { Schema } from "effect"
import * as DurationText from "../../core/DurationText.js"
import { State } from "../../core/StoredJob.js"
import type { EventDetails, StoredEvent, Subscription } from "../../queue/events/Event.js"
import * as Instant from "../Instant.js"
import * as ResponseFields from "../ResponseFields.js"

const fields = {
  id: Schema.UUID,
  name: Schema.String,
  publishedAt: Instant.Moment,
  key: Schema.NullOr(Schema.String).annotations({ description: "Key of the event's jobs." }),
  ownId: Schema.NullOr(Schema.String).annotations({ description: "The id that the publisher chose." }),
  data: Schema.Unknown
}

/** An event in API responses. Every field is present; null if it has no value. */
export const EventView = Schema.Struct(fields).annotations({ identifier: "Event" })
export type EventView = typeof EventView.Type

const EventJobView = Schema.Struct({
  subscriber: Schema.String.annotations({ description: "Kind of the job." }),
  id: Schema.UUID,
  state: Schema.NullOr(State).annotations({
    description: "Null without a job: it was deleted, did not match, or the subscriber is newer than the event."
  }),
  replayed: Schema.Boolean.annotations({ description: "Whether an operator made it by replaying the event." }),
  isOpen: Schema.Boolean.annotations({
    description: "Whether the event waits for further ones, with which it will be in one job."
  }),
  events: Schema.Int.annotations({ description: "Number of events that the job has. 0 without a job." })
}).annotations({ identifier: "EventJob" })

/** An event with its jobs. */
export const EventDetailsView = Schema.Struct({ ...fields, jobs: Schema.Array(EventJobView) }).annotations({
  identifier: "EventDetails"
})
export type EventDetailsView = typeof EventDetailsView.Type

export const SubscriptionView = Schema.Struct({
  event: Schema.String,
  subscriber: Schema.String,
  createdAt: Instant.Moment,
  fillFromAt: Schema.NullOr(Instant.Moment).annotations({
    description: "Since when earlier events are still being delivered. Null if there are none to deliver."
  }),
  window: Schema.NullOr(
    Schema.Struct({
      debounce: Schema.String.annotations({
        description: "How long after the last event the job is stored, such as `10s`."
      }),
      max: Schema.Int.annotations({ description: "With this many events the job is stored at once." }),
      by: Schema.Array(Schema.String).annotations({
        description: "Paths whose values the events of a job have in common, such as `data.customer`."
      })
    })
  ).annotations({ description: "How events are joined in one job. Null if each event makes a job." })
}).annotations({ identifier: "Subscription" })
export type SubscriptionView = typeof SubscriptionView.Type

export const of: (event: StoredEvent) => EventView = ResponseFields.of(EventView)

const detailsOf = ResponseFields.of(EventDetailsView)

export const ofDetails = (event: EventDetails): EventDetailsView => ({
  ...detailsOf(event),
  jobs: event.jobs.map(({ state, ...job }) => ({ ...job, state: state ?? null }))
})

const subscriptionOf = ResponseFields.of(SubscriptionView)

export const ofSubscription = ({ window, ...subscription }: Subscription): SubscriptionView =>
  subscriptionOf({
    ...subscription,
    window:
      window === undefined
        ? undefined
        : {
            debounce: DurationText.format(window.debounce),
            max: window.max,
            by: window.by.map((path) => ["data", ...path].join("."))
          }
  })
