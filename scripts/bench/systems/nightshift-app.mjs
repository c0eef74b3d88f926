// The measured app: one kind with a no-op handler. Also loaded by `nightshift serve --app`.
import { Effect, Schema } from "effect"
import { Event, Handler, Job } from "../../../dist/index.js"

const payload = Schema.Struct({ n: Schema.Number, at: Schema.String, text: Schema.String })

export const kind = Job.make("noop", { payload, queue: "default" })

/** Has the same payload, and the subscribers that a row adds. */
export const event = Event.make("happened", payload)

let listener = () => {}

/** Sets a callback for every handler start. The handler awaits it if it returns a promise. */
export const whenJob = (onJob) => {
  listener = onJob
}

export const handlers = [
  Handler.make(kind, (job) =>
    Effect.suspend(() => {
      const busy = listener(job)
      return busy === undefined ? Effect.void : Effect.promise(() => busy)
    })
  )
]
