import { Console, Effect } from "effect"
import * as EventData from "../../queue/events/EventData.js"
import { Events, type Published } from "../../queue/events/Events.js"
import { Kinds } from "../../queue/Kinds.js"
import { Transactions } from "../../queue/Transactions.js"
import { UsageError } from "../Failure.js"
import * as Input from "../kit/Input.js"
import * as QueueCommand from "../QueueCommand.js"
import * as EnqueueOptions from "./EnqueueOptions.js"

/** `waiting` counts the subscribers that join the event with further ones. */
const reported = ({ id, jobs, outcome }: Published, waiting: number) => {
  if (outcome === "repeated") return `repeated ${id}: an event with this --id exists, nothing was stored`
  if (jobs + waiting === 0)
    return `published ${id}: no subscriber matches it. List them with \`nightshift events subscribers\``
  const waits =
    waiting === 0 ? "" : `; ${waiting === 1 ? "1 subscriber waits" : `${waiting} subscribers wait`} for further events`
  return `published ${id}: ${jobs} ${jobs === 1 ? "job" : "jobs"}${waits}`
}

export const command = QueueCommand.make({
  about: "Publish an event: it is stored, with one job for each of its subscribers.",
  args: { name: Input.required(Input.text, "The event's name.") },
  options: {
    data: Input.optional(Input.text, "The data as JSON (default {}); - reads it from standard input."),
    key: Input.optional(Input.text, "Key of the event's jobs."),
    subject: EnqueueOptions.subject,
    id: Input.optional(Input.text, "The event's id. Set it to make retries of this command safe.")
  },
  examples: {
    'nightshift publish order.paid --data \'{"order":"A-17"}\'': "publish an event",
    'nightshift publish order.paid --data \'{"order":"A-17"}\' --id A-17': "store it once, however often it is repeated"
  },
  run: ({ data, id, json, key, name, subject }) =>
    Effect.gen(function* () {
      const event = {
        name,
        data: yield* EnqueueOptions.readData(data),
        key,
        subject,
        id
      }
      const events = yield* Events
      const transactions = yield* Transactions
      yield* EventData.check(events, yield* Kinds, event)
      // In a transaction, NOTIFY is sent with the commit. Otherwise this process could exit before sending it. Nothing is read
      // after the commit: if that failed, an event that is stored would be published again.
      const { published, waiting } = yield* transactions.run(
        Effect.gen(function* () {
          const [published] = yield* events.publish([event])
          if (published === undefined || json) return { published, waiting: 0 }
          const { jobs } = yield* events.get(published.id)
          return { published, waiting: jobs.filter(({ isOpen }) => isOpen).length }
        })
      )
      if (published === undefined) return
      yield* Console.log(json ? JSON.stringify(published) : reported(published, waiting))
    }).pipe(
      Effect.catchTag("InvalidEvent", ({ field, reason }) => {
        const what = field === "name" ? "The name" : /^data[.[]/.test(field) ? field : `--${field}`
        return new UsageError({ message: `${what} ${reason}.` })
      })
    )
})
