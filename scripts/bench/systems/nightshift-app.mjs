// The program that is measured: one kind whose handler does nothing. `nightshift serve --app` takes it as it is.
import { Effect, Schema } from "effect"
import { Handler, Job } from "../../../dist/index.js"

const payload = Schema.Struct({ n: Schema.Number, at: Schema.String, text: Schema.String })

export const kind = Job.make("noop", { payload, queue: "default" })

let told = () => {}

/** Has somebody told of every start of a handler, and waited for where they return a promise. */
export const whenJob = (onJob) => {
  told = onJob
}

export const handlers = [
  Handler.make(kind, (job) =>
    Effect.suspend(() => {
      const busy = told(job)
      return busy === undefined ? Effect.void : Effect.promise(() => busy)
    })
  )
]
