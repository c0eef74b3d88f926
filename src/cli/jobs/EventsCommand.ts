import { Clock, Console, Effect, Schema } from "effect"
import * as Audited from "../../http/access/Audited.js"
import * as EventView from "../../http/jobs/EventView.js"
import { type EventDetails, type EventJob, Events, maxEventPage } from "../../queue/events/Events.js"
import * as Command from "../kit/Command.js"
import * as Input from "../kit/Input.js"
import * as Operator from "../Operator.js"
import * as QueueCommand from "../QueueCommand.js"
import { age, factList, print, printable, printJson, printText, table } from "../Terminal.js"

const eventId = Input.uuid(Schema.UUID, "An event id")
const id = Input.required(eventId, "The event's id.")

const list = QueueCommand.make({
  about: "List published events, newest first.",
  options: {
    name: Input.optional(Input.text, "Only events of this name."),
    ...QueueCommand.page("events", { max: maxEventPage, default: 20 })
  },
  examples: { "nightshift events list --name order.paid": "list the events of one name" },
  run: (given) =>
    Effect.gen(function* () {
      const { list } = yield* Events
      const { events, next } = yield* list({ limit: given.limit, cursor: given.cursor, name: given.name })
      if (given.json) return yield* printJson({ events: events.map(EventView.of), next: next ?? null })
      if (events.length === 0) return yield* Console.log("No events.")
      const now = yield* Clock.currentTimeMillis
      const rows = events.map((event) => [
        event.id,
        printable(event.name),
        printable(event.key ?? "-"),
        printable(event.ownId ?? "-"),
        age(event.publishedAt, now)
      ])
      yield* printText(table(["EVENT", "NAME", "KEY", "ID", "PUBLISHED"], rows))
      if (next !== undefined) yield* Console.log(`\nMore: add --cursor ${next}`)
    })
})

const jobText = ({ events, id, isOpen, state }: EventJob) => {
  if (isOpen) return "waits for further events"
  if (state === undefined) return "no job"
  return `${state} ${id}${events > 1 ? ` with ${events} events` : ""}`
}

const details = (event: EventDetails, now: number) =>
  factList([
    ["id", event.id],
    ["name", event.name],
    ["published", age(event.publishedAt, now)],
    ["key", event.key],
    ["own id", event.ownId],
    ["data", JSON.stringify(event.data)],
    ...event.jobs.map((job): [string, string] => [
      printable(job.replayed ? `${job.subscriber} (replay)` : job.subscriber),
      jobText(job)
    ])
  ])

const show = QueueCommand.make({
  about: "Show an event and the jobs of its subscribers.",
  args: { id },
  examples: { "nightshift events show <id>": "show who received an event, and the state of each job" },
  run: ({ id, json }) =>
    Effect.gen(function* () {
      const { get } = yield* Events
      const event = yield* get(id)
      yield* print(json, EventView.ofDetails(event), details(event, yield* Clock.currentTimeMillis))
    })
})

const subscriber = Input.required(Input.text, "The subscriber.")

const replay = QueueCommand.make({
  about: "Enqueue another job of an event for one subscriber.",
  args: { id, subscriber },
  options: { reason: Operator.reason },
  examples: { "nightshift events replay <id> send-receipt": "send the event to one subscriber again" },
  run: ({ id, json, reason, subscriber }) =>
    Effect.gen(function* () {
      const events = yield* Events
      const audited = yield* Audited.make
      const job = yield* events.replay(id, subscriber).pipe(
        audited("event.replay", id, (job) => ({ after: { subscriber, job } })),
        Operator.acting(reason)
      )
      yield* Console.log(json ? JSON.stringify({ id: job }) : `enqueued ${job} for ${printable(subscriber)}`)
    })
})

const windowText = ({ window }: EventView.SubscriptionView) => {
  if (window === null) return "-"
  const { by, debounce, max } = window
  return `after ${debounce}, at most ${max}${by.length === 0 ? "" : ` by ${by.join(", ")}`}`
}

const subscribers = QueueCommand.make({
  about: "List the subscribers of all events.",
  examples: { "nightshift events subscribers": "list who receives which event" },
  run: ({ json }) =>
    Effect.gen(function* () {
      const { subscriptions } = yield* Events
      const all = yield* subscriptions
      if (json) return yield* printJson({ subscriptions: all.map(EventView.ofSubscription) })
      if (all.length === 0)
        return yield* Console.log("No subscribers. A process with on(event, …) adds them when it starts.")
      const now = yield* Clock.currentTimeMillis
      const rows = all.map((each) => [
        printable(each.event),
        printable(each.subscriber),
        age(each.createdAt, now),
        printable(windowText(EventView.ofSubscription(each)))
      ])
      yield* printText(table(["EVENT", "SUBSCRIBER", "SINCE", "DEBOUNCE"], rows))
    })
})

const unsubscribe = QueueCommand.make({
  about: "Remove a subscriber that no process declares any more.",
  args: { event: Input.required(Input.text, "The event's name."), subscriber },
  options: { reason: Operator.reason },
  examples: {
    "nightshift events unsubscribe order.paid send-receipt": "stop making jobs for a handler that was removed"
  },
  run: ({ event, json, reason, subscriber }) =>
    Effect.gen(function* () {
      const events = yield* Events
      const audited = yield* Audited.make
      yield* events.unsubscribe(event, subscriber).pipe(
        audited("event.unsubscribe", event, () => ({ before: { subscriber } })),
        Operator.acting(reason)
      )
      yield* Console.log(json ? "{}" : `${printable(subscriber)} no longer receives ${printable(event)}`)
    })
})

export const command = Command.group("List, show and replay published events.", {
  list,
  show,
  replay,
  subscribers,
  unsubscribe
})
